"""`evaluate`: a policy against opponents, seat by seat, beside the game's baselines."""

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

from arena_envs.env import GameEnv
from arena_envs.game import AnyGame
from arena_trainers.evaluate.arguments import checked_seats, env_of, seeds_of
from arena_trainers.evaluate.baselines import constants_of, prepared, solver_of
from arena_trainers.evaluate.intervals import import_stats
from arena_trainers.evaluate.repetition import repetition_warnings
from arena_trainers.evaluate.replies import ReplyCount, given_prompts
from arena_trainers.evaluate.result_rows import Role, Row, rows_of
from arena_trainers.evaluate.scores import exact_scales, sampled_scales, scored
from arena_wrappers import (
    EpisodePlan,
    Policy,
    PromptWrapper,
    make_policy,
    stream_plans,
)
from arena_wrappers.asking import checked_timeout
from arena_wrappers.episode_log import EpisodeLog
from arena_wrappers.episodes import Episode, params_of

CHUNK = 256  # episodes in flight
TRIAL = 32  # most episodes in each seat by which the best constant policy is chosen

Progress = Callable[[int, int], object]  # episodes done, and episodes in all


@dataclass(frozen=True)
class Evaluation:
    """All rows of an evaluation in one game.

    Attributes:
        game: id or class name.
        params: parameters of the game.
        known_value: what is known of the game with these parameters; empty: nothing.
        rows: by opponent: the policy's rows, then those of the baselines.
        warnings: a line for each policy most of whose replies were invalid, and for each
            opponent against whom the policy plays few distinct games.
    """

    game: str
    params: Mapping[str, Any]
    known_value: str
    rows: tuple[Row, ...]
    warnings: tuple[str, ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as JSON can hold it."""
        return asdict(self)


def evaluate(
    policy: Policy | str,
    game: AnyGame | GameEnv | str,
    opponents: Sequence[Policy | str] = ("random",),
    num_episodes: int = 100,
    seats: Literal["all"] | Sequence[int] = "all",
    *,
    seed: int = 0,
    prompt: Mapping[str, Any] | None = None,
    baselines: bool = True,
    timeout: float | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Evaluation:
    """Plays a policy against opponents and says what it reached, with intervals.

    Every policy (baselines too) plays the same seeds, so that differences owe nothing to
    the deal. A reply that names no action forfeits the episode, and counts; so do a
    policy's crash and its silence. A policy is prompted by the options that it carries
    (`Policy`), as a saved model does. Warns (UserWarning) if most of its replies are
    invalid, or if it plays few distinct games.

    Args:
        policy: who is evaluated: a policy or a string for `make_policy`.
        game: id of a registered game, the rules, or an environment (for `max_turns`).
        opponents: who plays all other seats, in turn; `"self"` is the policy itself.
        num_episodes: per opponent and seat; in self-play of all seats together.
        seats: where the policy sits: all seats, or these.
        seed: seeds are `seed .. seed + num_episodes - 1`.
        prompt: options of the `PromptWrapper`; they override what policies carry.
        baselines: whether the baselines of the game play, too: uniform random play, the
            solver, and of the constant policies the best in a few episodes of other
            seeds (so that its row does not flatter it).
        timeout: seconds that one call of a policy may take, see `play`.
        out: a file to which each finished episode is appended as a line of JSON, those of
            the baselines too.
        progress: called after each episode with the number done and the number in all.

    Raises:
        ValueError: a policy, the game, a seat or a number is out of range, or a solver
            refuses the game; nothing has been played then.
        ModuleNotFoundError: scipy is missing.

    >>> found = evaluate("random", "tic_tac_toe", ["random"], 20, baselines=False)
    >>> [(row.seat, row.num_episodes) for row in found.rows]
    [(0, 20), (1, 20), ('all', 40)]
    """
    plan = EvaluationPlan(
        policy,
        game,
        opponents,
        num_episodes,
        seats,
        seed=seed,
        prompt=prompt,
        baselines=baselines,
        timeout=timeout,
        out=out,
    )
    found = plan.run(progress)
    for text in found.warnings:
        warnings.warn(text, stacklevel=2)
    return found


class EvaluationPlan:
    """An evaluation that has been checked and can be run; see `evaluate`.

    Attributes:
        num_episodes: of the whole evaluation, baselines included.
    """

    def __init__(
        self,
        policy: Policy | str,
        game: AnyGame | GameEnv | str,
        opponents: Sequence[Policy | str] = ("random",),
        num_episodes: int = 100,
        seats: Literal["all"] | Sequence[int] = "all",
        *,
        seed: int = 0,
        prompt: Mapping[str, Any] | None = None,
        baselines: bool = True,
        timeout: float | None = None,
        out: str | Path | None = None,
    ) -> None:
        import_stats()  # before hours of play, not after
        self._seeds = seeds_of(seed, num_episodes)
        env = env_of(game)
        self.rules = rules = env.game
        self.name = env.id or type(rules).__name__
        self._seats = checked_seats(rules, seats)
        self._given = dict(prompt or {})
        self._wrapper = PromptWrapper(env, **{"on_invalid": "forfeit", **self._given})
        self._policy = prepared(policy, rules)
        self._opponents: list[Policy | Literal["self"]] = [
            "self" if o == "self" else prepared(o, rules) for o in opponents
        ]
        if not self._opponents:
            raise ValueError("want at least one opponent, got none")
        num_trials = min(TRIAL, num_episodes)
        self._trial_seeds = range(self._seeds.stop, self._seeds.stop + num_trials)
        self._baselines = _fixed_baselines(rules) if baselines else {}
        self._constants = (
            list(map(make_policy, constants_of(rules))) if baselines else []
        )
        self._timeout = checked_timeout(timeout)
        self._log = None if out is None else EpisodeLog(out)
        self.num_episodes = sum(map(self._count, self._opponents))

    def run(self, progress: Progress | None = None) -> Evaluation:
        """Plays all episodes.

        Raises:
            OSError: an episode could not be written; what was before stays readable.
        """
        self._progress, self._num_done = progress, 0
        self._replies = ReplyCount()
        rows = [row for opponent in self._opponents for row in self._compare(opponent)]
        return Evaluation(
            self.name,
            params_of(self.rules),
            self.rules.known_value or "",
            tuple(rows),
            self._replies.warnings()
            + repetition_warnings(self.rules, rows, self._wrapper.clone),
        )

    def _compare(self, opponent: Policy | Literal["self"]) -> list[Row]:
        """The rows of the policy and of all baselines against one opponent."""
        entries: dict[Role, Policy] = {"policy": self._policy, **self._baselines}
        if self._constants:
            entries["constant"] = self._best_constant(opponent)
        name = opponent if isinstance(opponent, str) else opponent.name
        found = {
            role: rows_of(
                self.rules,
                entry.name,
                role,
                name,
                self._play(entry, opponent, self._seeds, self._log),
            )
            for role, entry in entries.items()
        }
        rows = [row for role_rows in found.values() for row in role_rows]
        if "solver" not in found:
            return rows
        scales = None
        if not isinstance(opponent, str):
            solver = entries["solver"]
            scales = exact_scales(self._wrapper.env, solver, opponent, self._seats)
        if scales is None:
            scales = sampled_scales(found["uniform"], found["solver"])
        return scored(self.rules, rows, scales)

    def _best_constant(self, opponent: Policy | Literal["self"]) -> Policy:
        def mean(policy: Policy) -> float:
            episodes = self._play(policy, opponent, self._trial_seeds, None)
            return sum(e.returns[seat] for seat in episodes for e in episodes[seat])

        return max(self._constants, key=mean)

    def _play(
        self,
        policy: Policy,
        opponent: Policy | Literal["self"],
        seeds: range,
        log: EpisodeLog | None,
    ) -> dict[int, list[Episode]]:
        """Episodes by the seat of the policy; in self-play each has the same ones."""
        num_players, make = self.rules.num_players, self._wrapper.clone
        if opponent == "self":
            lineups: list[list[Policy]] = [[policy] * num_players]
        else:
            lineups = [
                [policy if s == seat else opponent for s in range(num_players)]
                for seat in self._seats
            ]
        plans = [
            EpisodePlan(make, lineup, s, prompts=prompts)
            for lineup in lineups
            for prompts in [given_prompts(lineup, self._given)]
            for s in seeds
        ]
        done: dict[int, Episode] = {}
        for index, episode in stream_plans(
            plans, batch_size=CHUNK, timeout=self._timeout
        ):
            if log is not None:
                log.append([episode])
            done[index] = episode
            self._replies.add(episode)
            self._num_done += 1
            if self._progress is not None:
                self._progress(self._num_done, self.num_episodes)
        size = len(seeds)
        parts = [
            [done[index] for index in range(start, start + size)]
            for start in range(0, len(plans), size)
        ]
        if opponent == "self":
            parts *= len(self._seats)
        return dict(zip(self._seats, parts, strict=True))

    def _count(self, opponent: Policy | Literal["self"]) -> int:
        lineups = 1 if opponent == "self" else len(self._seats)
        entries = 1 + len(self._baselines) + bool(self._constants)
        trials = len(self._constants) * len(self._trial_seeds)
        return lineups * (entries * len(self._seeds) + trials)


def _fixed_baselines(game: AnyGame) -> dict[Role, Policy]:
    """Uniform random play, and the solver if the game has one."""
    found: dict[Role, Policy] = {"uniform": make_policy("random")}
    solver = solver_of(game)
    if solver is not None:
        found["solver"] = prepared(solver, game)
    return found
