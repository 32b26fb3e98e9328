"""Measurements of policies in the games of a run."""

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, cast

from arena_envs.game import AnyGame
from arena_envs.solvers import information_states, nash_conv, uniform_table
from arena_eval import Evaluation, EvaluationPlan, legal_rate, tabular
from arena_eval.baselines import is_small, solver_of
from arena_eval.exploit import Scores, requests_of
from arena_eval.recorded_luck import EXACT_VALUES, LuckByLineup
from arena_eval.result_rows import ResultRow, measured, rows_of
from arena_trainers.matchmaking.protocol import SELF
from arena_trainers.processes import (
    gather_patiently,
    gather_shares,
    is_main_process,
    process_share,
)
from arena_trainers.runs.results.equilibrium import Comparison, compare_with_equilibrium
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import GamePlan
from arena_wrappers import (
    Episode,
    EpisodePlan,
    Policy,
    PromptWrapper,
    ScoringPolicy,
    stream_plans,
)

MAX_COUNTED_STATES = 20_000  # of a game whose information states are counted
ANNOUNCED_SECONDS = 10.0  # seconds of an exact measurement that is announced
# information states of a game that costs less than the episodes of a stage
CHEAP_STATES = 100
NUM_TIMED_STATES = 8  # information states that are scored to tell how long all take
MAX_PAIRING_EPISODES = 500  # per opponent and seat at the end; 3 s for a tiny model
EXACT_SOLVERS = ("minimax", "cfr")  # a search would take minutes


@dataclass(frozen=True)
class Interval:
    """A mean with its 95 % interval; an end is None if it cannot be estimated."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Measurement:
    """A policy's measurements in self-play of one game, at one stage of the run.

    Attributes:
        name: name of the stage.
        nash_conv: exact NashConv; None if the game or its prompts cannot be enumerated.
        legal_rate: valid replies / replies; None if there was no turn.
        num_episodes: number of episodes.
        returns: mean return of each seat.
        measures: means of the game's measures, by name.
        learner: against the opponents of training, in the seats that learn; None in self-play.
    """

    name: str
    nash_conv: float | None
    legal_rate: float | None = None
    num_episodes: int = 0
    returns: tuple[Interval, ...] = ()
    measures: Mapping[str, Interval] = field(default_factory=dict)
    learner: ResultRow | None = None


class GameMeter:
    """Measures policies in one of the games of a run.

    All processes call `measure` and `outcome`, and play their shares; NashConv is measured by the main one.

    Args:
        plan: the game.
        args: the trainer's settings, for the prompts.
        num_episodes: episodes of self-play at each stage.
        opponents: who plays the seats that do not learn, by policy string.
        exact_states: most information states of a game whose NashConv is measured.

    Attributes:
        num_states: information states, if they and the prompts can be enumerated; else 0.
        game: the rules, if NashConv is measured; else None.
        uniform: NashConv of uniform random play; None without `game`.
        stages: the stages that were measured; the first is uniform random play.
        on_progress: called after each episode and each exact measurement.
    """

    def __init__(
        self,
        plan: GamePlan,
        args: TurnGRPOConfig,
        num_episodes: int,
        opponents: Mapping[str, Policy] | None = None,
        exact_states: int = 1000,
    ) -> None:
        self.plan, self.num_episodes = plan, num_episodes
        self._opponents = opponents or {}
        self._prompt = args.prompt_options
        self.options = args.prompt
        # only prompts of states can be enumerated, not transcripts
        self.num_states, self.exact_states = 0, exact_states
        can_score = args.history == "state" and not (args.agent or args.roles)
        if can_score and plan.game.num_actions is not None:
            with suppress(ValueError):  # too many states
                states = information_states(plan.game, MAX_COUNTED_STATES)
                self.num_states = len(states)
        is_measured = 0 < self.num_states <= exact_states
        self.game: AnyGame | None = plan.game if is_measured else None
        self.uniform = (
            None
            if self.game is None
            else nash_conv(self.game, uniform_table(self.game))
        )
        self.stages = [Measurement("uniform random", self.uniform)]
        self.on_progress: Callable[[], object] = lambda: None
        self._measured: Policy | None = None  # at the last stage
        self._scores: Scores | None = None  # of this policy

    def exact_note(self, policy: ScoringPolicy, every: int) -> str | None:
        """A line if NashConv is not measured for its cost, or if a measurement takes long.

        Args:
            policy: who is measured.
            every: steps between measurements in training; 0 for none.
        """
        subject = f"exact NashConv of {self.plan.name}, {self.num_states:,} information states"
        if self.game is None:
            if not self.num_states or not self.exact_states:
                return None
            return f"{subject}: not measured; --callbacks exact_states={self.num_states} measures it"
        if self.num_states <= CHEAP_STATES:
            return None
        requests = list(requests_of(self.game, self.options).values())[
            :NUM_TIMED_STATES
        ]
        began = time.monotonic()
        policy.action_probs(requests)
        each = (time.monotonic() - began) / len(requests)
        if (seconds := each * self.num_states) < ANNOUNCED_SECONDS:
            return None
        when = (
            f"before, every {every} steps of and after" if every else "before and after"
        )
        return (
            f"{subject}: about {seconds:,.0f} s each time, {when} training; "
            "--callbacks exact_states=0 measures none"
        )

    def measure(
        self, name: str, policy: Policy, scores: Scores | None = None
    ) -> list[Episode]:
        """Adds a stage: play on fixed seeds and, where possible, exact NashConv.

        Play is self-play and, in a run against others, at most `MAX_PAIRING_EPISODES` for each of its
        line-ups.

        Args:
            name: of the stage.
            policy: who is measured; with `action_probs` where `game` is given.
            scores: its action probabilities by information state, if they are known.
        """
        num_players = self.plan.game.num_players
        episodes = self._play([policy] * num_players, self.num_episodes)
        conv = None
        if self.game is not None:
            if is_main_process():
                if scores is None:
                    scoring = cast(ScoringPolicy, policy)
                    scores = tabular(scoring, self.game, self.options)
                conv = nash_conv(self.game, scores[0])
            self._measured, self._scores = policy, gather_patiently(scores)[0]
            self.on_progress()
        by_seat = dict.fromkeys(range(num_players), episodes)
        rows = rows_of(self.plan.game, policy.name, "policy", "self", by_seat)
        has_turns = any(episode.turns for episode in episodes)
        measures = measured(self.plan.game, episodes)
        self.stages.append(
            Measurement(
                name=name,
                nash_conv=conv,
                legal_rate=legal_rate(episodes) if has_turns else None,
                num_episodes=len(episodes),
                returns=tuple(
                    Interval(row.mean_return, row.low, row.high)
                    for row in rows
                    if row.seat != "all"
                ),
                measures={
                    measure: Interval(*interval[:3])
                    for measure, interval in measures.items()
                },
                learner=self._against_others(policy) if self.plan.lineups else None,
            )
        )
        return episodes

    def _against_others(self, policy: Policy) -> ResultRow:
        num = min(self.num_episodes, MAX_PAIRING_EPISODES)
        by_seat: dict[int, list[Episode]] = {}
        for lineup in self.plan.lineups:
            policies = [
                policy if name == SELF else self._opponents[name] for name in lineup
            ]
            episodes = self._play(policies, num)
            for seat, name in enumerate(lineup):
                if name == SELF:
                    by_seat[seat] = episodes
        names = dict.fromkeys(name for lineup in self.plan.lineups for name in lineup)
        opponents = "+".join(name for name in names if name != SELF)
        rows = rows_of(self.plan.game, policy.name, "policy", opponents, by_seat)
        if len(by_seat) == len(self.plan.lineups) and "+" not in opponents:
            luck = LuckByLineup(self.plan.wrapper, self._values_name)
            rows = luck.rows(
                "policy", policy, self._opponents[opponents], by_seat, rows
            )
        return rows[-1]

    @property
    def _values_name(self) -> str | None:
        """Exact values, or none: fitting others takes seconds, and `arena eval` does it."""
        return EXACT_VALUES if is_small(self.plan.game) else None

    def _play(self, policies: Sequence[Policy], num: int) -> list[Episode]:
        """Episodes in the order of their seeds."""
        plans = [EpisodePlan(self.plan.env_fn, policies, seed) for seed in range(num)]
        return [episode for _, episode in self._stream(plans, on_error="raise")]

    def _stream(
        self,
        plans: Sequence[EpisodePlan],
        *,
        batch_size: int | None = None,
        timeout: float | None = None,
        on_error: Literal["lose", "raise"] | None = None,
    ) -> Iterator[tuple[int, Episode]]:
        """As `stream_plans`; every process plays its share, and gets the episodes of all in order."""
        share = process_share(plans)
        done: dict[int, Episode] = {}
        for index, episode in stream_plans(
            share, batch_size=batch_size, timeout=timeout, on_error=on_error
        ):
            done[index] = episode
            self.on_progress()
        yield from enumerate(gather_shares([done[i] for i in range(len(share))]))

    def evaluate(self, policy: Policy) -> Evaluation | None:
        """The policy in each seat against random play, and against the solver if exact.

        Each pairing has `MAX_PAIRING_EPISODES` episodes, or `num_episodes` if that is fewer. None in
        games of one seat and in cooperative games, where self-play is the whole evaluation.
        """
        game = self.plan.game
        if game.num_players < 2 or game.kind == "cooperative":
            return None
        solver = solver_of(game)
        is_exact = solver in EXACT_SOLVERS
        env: Any = self.plan.env_fn()
        if isinstance(env, PromptWrapper):
            env = env.env
        names = ["random", solver] if solver is not None and is_exact else ["random"]
        return EvaluationPlan(
            policy,
            env,
            names,
            min(self.num_episodes, MAX_PAIRING_EPISODES),
            prompt=self._prompt,
            baselines=False,
            values=self._values_name,
            on_error="raise",
            scores=self._scores if policy is self._measured else None,
            stream=self._stream,
        ).run()

    def compare(self) -> Comparison | None:
        """The policy of the last stage and an equilibrium; None in larger games."""
        if self.game is None or self._scores is None:
            return None
        return compare_with_equilibrium(self.plan.name, self.game, self._scores[0])

    def outcome(self, policy: Policy) -> "GameOutcome":
        """The results in the game, with an evaluation of the policy of the last stage."""
        evaluation, comparison = self.evaluate(policy), self.compare()
        return GameOutcome(self.plan.name, self.stages, evaluation, comparison)


@dataclass(frozen=True)
class GameOutcome:
    """The results of a run in one of its games."""

    name: str
    stages: Sequence[Measurement]
    evaluation: Evaluation | None
    comparison: Comparison | None

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON can hold it."""
        fields = asdict(self)
        rows = (fields["evaluation"] or {"rows": ()})["rows"]
        policy = fields["comparison"]
        return {"stages": fields["stages"], "evaluation": [*rows], "policy": policy}
