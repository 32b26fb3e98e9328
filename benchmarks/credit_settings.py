"""What the comparison of credit runs: games with their training, and variants of estimators."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from arena_credit import default_options, needed_columns
from arena_envs import make_game
from arena_envs.game import AnyGame
from arena_envs.games.goofspiel import Goofspiel
from arena_trainers.cli.suggest import variant_name
from tabular import COLUMNS, EXACT, Graph, KeyOf, tree_columns

NUM_STARTS, NUM_SAMPLES = 16, 8  # starts of a batch, samples of each start
NUM_EPISODES = NUM_STARTS * NUM_SAMPLES  # of a batch
NUM_POINTS = 20  # points of a curve

Measure = Literal["nash_conv", "return", "score"]


@dataclass(frozen=True)
class Setting:
    """A game and its training, the same for all estimators.

    Args:
        title: of the game.
        id: of the game.
        num_batches: number of batches of `NUM_EPISODES` episodes.
        step: size of the first step; it falls to 0 linearly.
        bonus: weight of the entropy.
        params: of the game.
        measure: "nash_conv" and "return" are exact, of the policy; "score" is the mean of
            the training episodes.
        by_round: whether goofspiel pays after each round; the sum is the same.
        coarse: whether a row of logits covers several information states of Hanabi
            (`hints_and_fireworks`).
        num_samples: samples of each start; they share the draws of chance.
    """

    title: str
    id: str
    num_batches: int
    step: float
    bonus: float
    params: Mapping[str, Any] = field(default_factory=dict)
    measure: Measure = "nash_conv"
    by_round: bool = False
    coarse: bool = False
    num_samples: int = NUM_SAMPLES

    @property
    def num_starts(self) -> int:
        """Starts of a batch."""
        return NUM_EPISODES // self.num_samples

    @property
    def num_episodes(self) -> int:
        """Episodes of a run."""
        return self.num_batches * NUM_EPISODES

    @property
    def exact(self) -> bool:
        """Whether the game is small enough for exact values of a policy."""
        return self.measure != "score"

    @property
    def higher(self) -> bool:
        """Whether more is better."""
        return self.measure != "nash_conv"

    def game(self) -> AnyGame:
        """The rules."""
        if self.by_round:
            return PaidByRound(**self.params)
        return make_game(self.id, **self.params)


class PaidByRound(Goofspiel):
    """Goofspiel that pays the difference of the points after each round."""

    pays = "on_the_way"

    def returns(self, state: Any) -> Sequence[float]:
        points = self.points(state)
        return tuple(value - sum(points) / len(points) for value in points)


SETTINGS: Mapping[str, Setting] = {
    "kuhn": Setting("Kuhn poker", "kuhn_poker-v0", 400, 2.0, 0.1),
    "kuhn_small_groups": Setting(
        "Kuhn poker, small groups", "kuhn_poker-v0", 400, 2.0, 0.1, num_samples=2
    ),
    "kuhn3": Setting(
        "Kuhn poker, 3 players", "kuhn_poker-v0", 400, 6.0, 0.1, {"num_players": 3}
    ),
    "leduc": Setting("Leduc poker", "leduc_poker-v0", 400, 16.0, 0.1),
    "liars_dice": Setting(
        "Liar's dice, 4 sides", "liars_dice-v0", 400, 16.0, 0.1, {"num_sides": 4}
    ),
    "goofspiel": Setting(
        "Goofspiel, 4 cards, paid by round",
        "goofspiel-v0",
        400,
        16.0,
        0.1,
        {"num_cards": 4, "returns_type": "point_difference"},
        by_round=True,
    ),
    "tiny_hanabi": Setting(
        "Tiny Hanabi", "tiny_hanabi-v0", 200, 4.0, 0.4, measure="return"
    ),
    "mini_hanabi": Setting(
        "Mini Hanabi", "mini_hanabi-v0", 400, 16.0, 0.02, measure="score", coarse=True
    ),
    "speaker_listener": Setting(
        "Speaker and listener", "speaker_listener-v0", 200, 4.0, 0.1, measure="return"
    ),
}


@cache
def graph_of(setting: str) -> Graph:
    """The graph of a setting, shared by all runs of this process."""
    chosen = SETTINGS[setting]
    game = chosen.game()
    coarse = (hints_and_fireworks(game), without_history) if chosen.coarse else ()
    graph = Graph(game, *coarse)
    if chosen.exact:
        tree_columns(graph)  # rows in an order that does not depend on play
    return graph


def without_history(state: Any) -> Any:
    """A state of Hanabi with as many turns as decide whose turn it is; 2.5 times fewer states."""
    past = state.history
    return type(state)._make((*state[:-1], past[: len(past) % len(state.hands)]))


def hints_and_fireworks(game: Any) -> KeyOf:
    """The key of a row in Hanabi: a part of what a seat knows, so that rows recur.

    Hints about the own cards, fireworks, which of the others' cards can be played now, and
    the legal actions.
    """

    def key(state: Any, seat: int) -> Hashable:
        others = tuple(
            state.fireworks[card // game.num_ranks] == card % game.num_ranks
            for ahead in range(1, game.num_players)
            for card in state.hands[(seat + ahead) % game.num_players]
        )
        legal = tuple(game.legal_actions(state))
        return state.hints[seat], state.fireworks, others, legal

    return key


POOLS: Mapping[str, tuple[str, ...]] = {
    "game, seat": ("game", "seat"),
    "game, seat, turn": ("game", "seat", "turn"),
    "group, seat": ("group", "seat"),
    "group, seat, turn": ("group", "seat", "turn"),
}  # by the title of a column of the crossing


@dataclass(frozen=True)
class Variant:
    """An estimator with options.

    Args:
        estimator: its name.
        options: besides the defaults.
    """

    estimator: str
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The estimator, and the options that differ from the published form."""
        return variant_name(self.estimator, self.options)

    @property
    def all_options(self) -> dict[str, Any]:
        """The options of a run: undiscounted."""
        options = {**default_options(self.estimator), **self.options}
        return options | ({"discount": 1.0} if "discount" in options else {})


@dataclass(frozen=True)
class Line:
    """A line of the crossing: one estimator and scale, with each pool that it can have.

    Args:
        level: "turn", "episode" or "critic".
        title: in the table.
        cells: variant by the title of the pool; a pool that is missing cannot be combined.
    """

    level: str
    title: str
    cells: Mapping[str, Variant]


def _line(
    level: str, estimator: str, num_pools: int, title: str = "", **options: str
) -> Line:
    pools = list(POOLS.items()) if num_pools == 4 else _OF_TRAJECTORIES
    cells = {name: Variant(estimator, {**options, "pool": p}) for name, p in pools}
    return Line(level, f"`{estimator}`{title}", cells)


_OF_TRAJECTORIES = [(name, p) for name, p in POOLS.items() if "turn" not in p]
CROSSING = (
    _line("turn", "mars", 4),
    _line("turn", "mars", 4, " scale=std", scale="std"),
    _line("turn", "mars_loo", 4),
    _line("episode", "dr_grpo", 2),
    _line("episode", "episode", 2),
)
CRITIC = Line("critic", "`gae`", {"no pool": Variant("gae")})


# the estimators that docs/credit compares; one that is added here needs runs in every game
MEASURED = (
    "adca",
    "advevo_public_baseline",
    "aepo",
    "agentprm",
    "archer",
    "at_grpo",
    "bi_level_gae",
    "bnpo",
    "canon",
    "control_variates",
    "counterfactual",
    "dr_grpo",
    "episode",
    "flow_grpo",
    "gae",
    "gigpo",
    "grpo_passk",
    "hapo",
    "mars",
    "mars_loo",
    "mars_released",
    "matpo",
    "mt_grpo",
    "normalise_then_sum",
    "poad",
    "rae",
    "random_effects",
    "reinforce_plus_plus_baseline",
    "rloo",
    "salt",
    "stratified_grpo",
    "turn_ppo",
)


def variants() -> dict[str, Variant]:
    """Everything that is compared, by name: the published forms, then the crossing.

    Only estimators of `MEASURED`.
    """
    published = [Variant(name) for name in MEASURED]
    crossed = [variant for line in CROSSING for variant in line.cells.values()]
    return {variant.name: variant for variant in (*published, *crossed)}


def runnable(setting: str) -> list[str]:
    """The names of the variants whose columns a setting has."""
    columns = COLUMNS | EXACT if SETTINGS[setting].exact else COLUMNS
    return [
        name
        for name, variant in variants().items()
        if columns.issuperset(needed_columns(variant.estimator))
    ]
