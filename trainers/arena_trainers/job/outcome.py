"""What a training run measures of a policy, game by game."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

from arena_envs.env import GameEnv
from arena_envs.game import AnyGame
from arena_envs.solvers import Table, information_states, nash_conv, uniform_table
from arena_trainers.evaluate import (
    Evaluation,
    EvaluationPlan,
    Row,
    legal_rate,
    tabular,
)
from arena_trainers.evaluate.baselines import solver_of
from arena_trainers.evaluate.result_rows import measured, rows_of
from arena_trainers.evaluate.scores import exact_scales, scored
from arena_trainers.job.beside_equilibrium import Comparison, beside_equilibrium
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.game_plans import GamePlan
from arena_wrappers import (
    Episode,
    Policy,
    PromptWrapper,
    ScoringPolicy,
    make_policy,
    play,
)

MAX_MEASURED_STATES = 20_000  # of a game whose NashConv is measured
MAX_EPISODES = 500  # per opponent and seat at the end; 3 s for a tiny model
EXACT_SOLVERS = ("minimax", "cfr")  # a search would take minutes


class Interval(NamedTuple):
    """A mean with its 95 % interval, whose ends are None where nothing bounds them."""

    mean: float
    low: float | None
    high: float | None


@dataclass(frozen=True)
class Stage:
    """What a policy reached in self-play of one game.

    Attributes:
        name: of the stage.
        nash_conv: exact; None where the game or its prompts cannot be enumerated.
        legal_rate: valid replies per reply; None where nothing was played.
        num_episodes: that were played.
        returns: of each seat.
        measures: means of what the game measures of episodes, by name.
    """

    name: str
    nash_conv: float | None
    legal_rate: float | None = None
    num_episodes: int = 0
    returns: tuple[Interval, ...] = ()
    measures: Mapping[str, Interval] = field(default_factory=dict)


class GameMeter:
    """Measures policies in one of the games of a run.

    Args:
        plan: the game.
        args: the trainer's settings, whose prompts are used.
        num_episodes: of self-play for each stage.

    Attributes:
        game: the rules, if they and the prompts can be enumerated; else None.
        uniform: NashConv of uniform random play in it.
        stages: what was measured so far; begins with uniform random play.
    """

    def __init__(self, plan: GamePlan, args: TurnGRPOConfig, num_episodes: int) -> None:
        self.plan, self.num_episodes = plan, num_episodes
        self._prompt = args.prompt_options
        self.options = args.prompt
        # a transcript is more than the state, whose prompts are enumerated
        can_enumerate = args.history == "state" and _is_small(plan.game)
        self.game: AnyGame | None = plan.game if can_enumerate else None
        self.uniform = (
            None
            if self.game is None
            else nash_conv(self.game, uniform_table(self.game))
        )
        self.stages = [Stage("uniform random", self.uniform)]
        self._table: Table | None = None  # of the policy of the last stage

    def measure(
        self, name: str, policy: ScoringPolicy, table: Table | None = None
    ) -> list[Episode]:
        """Adds a stage: self-play on fixed seeds and, where possible, exact NashConv.

        Args:
            name: of the stage.
            policy: who is measured.
            table: its action probabilities by information state, if they are known.
        """
        episodes = play(self.plan.env_fn, policy, range(self.num_episodes))
        conv = None
        if self.game is not None:
            if table is None:
                table, _ = tabular(policy, self.game, self.options)
            self._table, conv = table, nash_conv(self.game, table)
        stage = Stage(
            name,
            conv,
            legal_rate(episodes) if any(e.turns for e in episodes) else None,
            len(episodes),
            _returns(self.plan.game, policy.name, episodes),
            {
                measure: Interval(*found)
                for measure, found in measured(self.plan.game, episodes).items()
            },
        )
        self.stages.append(stage)
        return episodes

    def evaluate(self, policy: Policy) -> Evaluation | None:
        """The policy in each seat against random play and the solver, if that is exact.

        With scores where uniform play and the solver have exact values.

        Of each `MAX_EPISODES`, or as many as are played in self-play if these are fewer.
        None in games of one seat and in cooperative ones, where self-play says it all.
        """
        game = self.plan.game
        if game.num_players < 2 or game.kind == "cooperative":
            return None
        solver = solver_of(game)
        is_exact = solver in EXACT_SOLVERS
        made: Any = self.plan.env_fn()
        env: GameEnv = made.env if isinstance(made, PromptWrapper) else made
        names = ["random", solver] if solver is not None and is_exact else ["random"]
        found = EvaluationPlan(
            policy,
            env,
            names,
            min(self.num_episodes, MAX_EPISODES),
            prompt=self._prompt,
            baselines=False,
        ).run()
        if solver is None or not is_exact:
            return found
        rows: list[Row] = []
        for name in names:
            own = [row for row in found.rows if row.opponent == name]
            scales = exact_scales(
                env, make_policy(solver), make_policy(name), range(game.num_players)
            )
            rows += own if scales is None else scored(game, own, scales)
        return replace(found, rows=tuple(rows))

    def compare(self) -> Comparison | None:
        """The policy of the last stage beside an equilibrium; None in larger games."""
        if self.game is None or self._table is None:
            return None
        return beside_equilibrium(self.plan.name, self.game, self._table)


class Outcome(NamedTuple):
    """What a run reached in one of its games."""

    name: str
    stages: Sequence[Stage]
    evaluation: Evaluation | None
    comparison: Comparison | None

    def to_dict(self) -> dict[str, Any]:
        """The outcome as JSON can hold it."""
        rows = [] if self.evaluation is None else self.evaluation.rows
        return {
            "stages": [_plain(stage) for stage in self.stages],
            "evaluation": [
                {**asdict(row), "measures": {n: [*i] for n, i in row.measures.items()}}
                for row in rows
            ],
            "policy": None if self.comparison is None else _decisions(self.comparison),
        }


def _plain(stage: Stage) -> dict[str, Any]:
    return {
        **asdict(stage),
        "returns": [interval._asdict() for interval in stage.returns],
        "measures": {name: i._asdict() for name, i in stage.measures.items()},
    }


def _decisions(found: Comparison) -> dict[str, Any]:
    decisions = [decision._asdict() for decision in found.decisions]
    return {**found._asdict(), "decisions": decisions}


def _returns(
    game: AnyGame, policy: str, episodes: Sequence[Episode]
) -> tuple[Interval, ...]:
    by_seat = dict.fromkeys(range(game.num_players), episodes)
    rows = rows_of(game, policy, "policy", "self", by_seat)
    rows = [row for row in rows if row.seat != "all"]
    return tuple(Interval(row.mean_return, row.low, row.high) for row in rows)


def _is_small(game: AnyGame) -> bool:
    if game.num_actions is None:
        return False
    try:
        information_states(game, MAX_MEASURED_STATES)
    except ValueError:
        return False
    return True
