"""`evaluate`: a policy against opponents, seat by seat, beside the game's baselines."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal

import arena_envs
from arena_envs.env import GameEnv
from arena_envs.game import AnyGame
from arena_envs.testing import page_of
from arena_trainers.evaluate.baselines import baselines_of, prepared
from arena_trainers.evaluate.intervals import mean_interval
from arena_wrappers import EpisodePlan, Policy, PromptWrapper, play_plans
from arena_wrappers.episode_log import EpisodeLog
from arena_wrappers.episodes import Episode

CHUNK = 256  # episodes in flight, and at most lost when the process is killed


@dataclass(frozen=True)
class Row:
    """What one policy reached in one seat, or over all evaluated seats.

    Attributes:
        policy: name.
        opponent: name of who played the other seats; "self": the policy itself.
        seat: the seat, or "all".
        num_episodes: episodes.
        mean_return: mean true score.
        low: lower end of its 95 % interval.
        high: upper end.
        wins: share of episodes with a higher return than every other seat's; None in
            cooperative games and games of one seat.
        draws: share with the highest return together with another seat.
        losses: share with less; an own forfeit is a loss.
        invalid: invalid replies per reply of the policy, by reason.
        num_turns: mean turns of this seat in an episode.
        num_tokens: mean reply tokens of this seat in an episode; None if not reported.
        normalised: 100 (mean - uniform) / (solver - uniform) with the mean returns of
            uniform random play and of the game's solver in the same seats against the
            same opponent; None without them or where they are within 1e-9.
    """

    policy: str
    opponent: str
    seat: int | Literal["all"]
    num_episodes: int
    mean_return: float
    low: float
    high: float
    wins: float | None
    draws: float | None
    losses: float | None
    invalid: Mapping[str, float]
    num_turns: float
    num_tokens: float | None
    normalised: float | None = None


@dataclass(frozen=True)
class Evaluation:
    """All rows of an evaluation in one game.

    Attributes:
        game: id or class name.
        params: parameters of the game.
        known_value: the row of that name on the game's page.
        rows: the policy's rows first, then those of the baselines.
    """

    game: str
    params: Mapping[str, Any]
    known_value: str
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, Any]:
        """The evaluation as JSON can hold it."""
        return asdict(self)


def evaluate(
    policy: Policy | str,
    game: AnyGame | str,
    opponents: Sequence[Policy | str] = ("random",),
    num_episodes: int = 100,
    seats: Literal["all"] | Sequence[int] = "all",
    *,
    seed: int = 0,
    prompt: Mapping[str, Any] | None = None,
    baselines: bool = True,
    timeout: float | None = None,
    out: str | Path | None = None,
) -> Evaluation:
    """Plays a policy against opponents and says what it reached, with intervals.

    Every policy (baselines too) plays the same seeds, so that differences owe nothing to
    the deal. A reply that names no action forfeits the episode, and counts.

    Args:
        policy: who is evaluated: a policy or a string for `make_policy`.
        game: id of a registered game, or the rules.
        opponents: who plays all other seats, in turn; `"self"` is the policy itself.
        num_episodes: per opponent and seat.
        seats: where the policy sits: all seats, or these.
        seed: seeds are `seed .. seed + num_episodes - 1`.
        prompt: options of the `PromptWrapper`.
        baselines: whether the baselines of the game play, too: uniform random play, the
            solver, and the best of the constant policies (chosen by this same play, so
            its row flatters it).
        timeout: seconds that one call of a policy may take, see `play`.
        out: a file to which finished episodes are appended as JSON lines.

    Raises:
        ValueError: a policy, the game, a seat or a number is out of range, or a solver
            refuses the game.
        ModuleNotFoundError: scipy is missing.

    >>> found = evaluate("random", "tic_tac_toe", ["random"], 20, baselines=False)
    >>> [(row.seat, row.num_episodes) for row in found.rows]
    [(0, 20), (1, 20), ('all', 40)]
    """
    rules = arena_envs.make_game(game) if isinstance(game, str) else game
    if type(num_episodes) is not int or num_episodes < 1:
        raise ValueError(f"want num_episodes of at least 1, got {num_episodes!r}")
    chosen = _checked_seats(rules, seats)
    env = GameEnv(rules, id=game if isinstance(game, str) else None)
    table = _Table(
        PromptWrapper(env, **{"on_invalid": "forfeit", **(prompt or {})}),
        chosen,
        range(seed, seed + num_episodes),
        timeout,
        EpisodeLog(out) if out is not None else None,
    )
    evaluated = prepared(policy, rules)
    others = [o if o == "self" else prepared(o, rules) for o in opponents]
    rows: list[Row] = []
    for opponent in others:
        own = table.rows(evaluated, opponent)
        compared: list[Row] = []
        if baselines:
            named = baselines_of(rules)
            found = {b: table.rows(p, opponent) for b, p in named.items()}
            own = _normalised(own, found)
            shown = _without_worse_constants(found)
            compared = [r for b in shown for r in _normalised(b, found)]
        rows += own + compared
    return Evaluation(
        game=env.id or type(rules).__name__,
        params=table.params,
        known_value=known_value(rules),
        rows=tuple(rows),
    )


def known_value(game: AnyGame) -> str:
    """The row "Known value" of the game's page; empty without a page."""
    for line in page_of(game).splitlines():
        if line.startswith("| Known value"):
            return line.strip("| ").partition("|")[2].strip()
    return ""


@dataclass
class _Table:
    """Where the matches of an evaluation are played."""

    wrapper: PromptWrapper
    seats: Sequence[int]
    seeds: range
    timeout: float | None
    log: EpisodeLog | None

    @property
    def params(self) -> Mapping[str, Any]:
        return self._params

    def rows(self, policy: Policy, opponent: Policy | str) -> list[Row]:
        """A row per seat, and one of all seats where there are several."""
        other = policy if opponent == "self" else opponent
        name = opponent if isinstance(opponent, str) else opponent.name
        episodes = {seat: self._play(policy, other, seat) for seat in self.seats}
        summary = partial(_row, self.wrapper.env.game, policy.name, name)
        rows = [summary(seat, [(seat, e) for e in episodes[seat]]) for seat in episodes]
        if len(episodes) > 1:
            every = [(seat, e) for seat in episodes for e in episodes[seat]]
            rows.append(summary("all", every))
        return rows

    def _play(self, policy: Policy, other: Any, seat: int) -> list[Episode]:
        num_players = self.wrapper.env.game.num_players
        sitting = [policy if s == seat else other for s in range(num_players)]
        make = self.wrapper.clone
        plans = [EpisodePlan(make, sitting, seed) for seed in self.seeds]
        episodes: list[Episode] = []
        for start in range(0, len(plans), CHUNK):
            done = play_plans(plans[start : start + CHUNK], timeout=self.timeout)
            if self.log is not None:
                self.log.append(done)
            episodes += done
        self._params = episodes[0].params
        return episodes


def _checked_seats(game: AnyGame, seats: Any) -> Sequence[int]:
    if seats == "all":
        return range(game.num_players)
    for seat in seats:
        if type(seat) is not int or seat not in range(game.num_players):
            last = game.num_players - 1
            raise ValueError(f"want seats from 0 to {last}, got {seat!r}")
    return sorted(set(seats))


def _row(
    game: AnyGame,
    policy: str,
    opponent: str,
    seat: Any,
    played: Sequence[tuple[int, Episode]],
) -> Row:
    returns = [episode.returns[own] for own, episode in played]
    low, high = mean_interval(returns, game.min_return, game.max_return)
    turns = [t for own, e in played for t in e.turns if t.seat == own]
    reasons = Counter(turn.invalid for turn in turns if turn.invalid)
    tokens = [turn.token_ids for turn in turns if turn.token_ids is not None]
    results = Counter(_result(own, episode) for own, episode in played)
    shares = {name: results[name] / len(played) for name in ("win", "draw", "loss")}
    has_rivals = game.kind != "cooperative" and game.num_players > 1
    return Row(
        policy=policy,
        opponent=opponent,
        seat=seat,
        num_episodes=len(played),
        mean_return=sum(returns) / len(returns),
        low=low,
        high=high,
        wins=shares["win"] if has_rivals else None,
        draws=shares["draw"] if has_rivals else None,
        losses=shares["loss"] if has_rivals else None,
        invalid={reason: n / len(turns) for reason, n in sorted(reasons.items())},
        num_turns=len(turns) / len(played),
        num_tokens=sum(map(len, tokens)) / len(played) if tokens else None,
    )


def _result(seat: int, episode: Episode) -> str:
    if episode.forfeited_by == seat:
        return "loss"
    own = episode.returns[seat]
    best = max((r for s, r in enumerate(episode.returns) if s != seat), default=own)
    return "win" if own > best else "draw" if own == best else "loss"


def _without_worse_constants(found: Mapping[str, list[Row]]) -> list[list[Row]]:
    """The rows of each baseline, of the constant policies those of the best alone."""

    def mean(role: str) -> float:
        return found[role][-1].mean_return

    constants = [role for role in found if role.startswith("constant:")]
    best = max(constants, key=mean, default=None)
    return [
        rows for role, rows in found.items() if role not in constants or role == best
    ]


def _normalised(
    rows: Sequence[Row], baselines: Mapping[str, Sequence[Row]]
) -> list[Row]:
    """The rows with their normalised scores, where the game has a solver."""
    if "solver" not in baselines:
        return list(rows)
    scored = []
    for row in rows:
        zero, full = (
            next(r.mean_return for r in baselines[name] if r.seat == row.seat)
            for name in ("uniform", "solver")
        )
        score = None
        if abs(full - zero) > 1e-9:
            score = 100 * (row.mean_return - zero) / (full - zero)
        scored.append(Row(**{**asdict(row), "normalised": score}))
    return scored
