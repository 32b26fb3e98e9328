"""The games of the comparison, and how each is trained."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Literal

from arena_envs import make_game
from arena_envs.game import AnyGame
from arena_envs.games.goofspiel import Goofspiel
from arena_trainers.bench.graph import Graph, KeyOf, tree_columns

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
    graph = Graph(game, hints_and_fireworks(game) if chosen.coarse else None)
    if chosen.exact:
        tree_columns(graph)  # rows in an order that does not depend on play
    return graph


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
