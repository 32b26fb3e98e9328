"""Leduc poker: two betting rounds, one private and one public card.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("leduc_poker-v0", num_players=2)`                     |
| Agents      | `player_0` to `player_{N-1}`, `num_players` 2 or 3                     |
| Kind        | competitive, imperfect information, zero-sum                           |
| Actions     | `Discrete(3)`: 0 "fold", 1 "call", 2 "raise"                           |
| Rewards     | at the end: the net chips won or lost                                  |
| Length      | 2 to 8 turns with two players, 3 to 14 with three                      |
| Known value | two players: -0.085606 for `player_0`; uniform NashConv 4.747222       |
| Source      | Southey et al., *Bayes' Bluff* (2005)                                  |

The deck has two suits of N + 1 ranks: J, Q, K for two players, 10, J, Q, K for three.
Everybody pays an ante of one chip and is dealt one card. After a round of betting a public
card is turned up, and a second round follows. In turn, from `player_0` on, a player calls
(pays as much as the highest so far, which may be nothing: a check), raises that by 2 chips
in the first round and by 4 in the second, or folds if there is something to pay. A round
has at most two raises and ends when all players who have not folded have paid the same. If all
but one fold, that player takes the pot. In the end a pair with the public card wins, then the
higher card; equal ranks share the pot.

With two players there are 936 information states and 5,520 ways to play to the end, dealt
cards included. Actions, seats and chance nodes (card = 2 * rank + suit) are OpenSpiel's.
Suits do not matter, so texts and features leave them out; information states keep them,
as OpenSpiel does. Hands are shown at a showdown; OpenSpiel never shows them.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from arena_envs.game import TERMINAL, Vector, filled, param
from arena_envs.games.kits import cards as limit
from arena_envs.games.kits.cards import FixedLimit, Hand, betting_shapes, hand_of
from arena_envs.scenes.shapes import Card, Cards, Shapes

SIZES = (2, 4)  # of a raise, by round
MAX_RAISES = 2  # in a round
MAX_PAID = 1 + MAX_RAISES * sum(SIZES)
NUM_SUITS = 2


@dataclass(frozen=True)
class LeducPoker(FixedLimit):
    """Leduc poker.

    Args:
        num_players: 2 or 3.

    Raises:
        ValueError: `num_players` is out of range.
    """

    num_players: int = param(2, 2, 3)

    num_own, board_sizes = 1, (0, 1)
    max_raises, max_paid = MAX_RAISES, MAX_PAID
    default_value = "-0.085606 for player_0; NashConv of uniform play 4.747222"

    @property
    def num_cards(self) -> int:
        return NUM_SUITS * (self.num_players + 1)

    def raise_size(self, number: int) -> int:
        return SIZES[number]

    @property
    def max_turns(self) -> int:
        # everybody calls; then each raise comes last and gives all others a turn again
        n = self.num_players
        return len(SIZES) * (n + MAX_RAISES * (n - 1))

    def initial_state(self) -> Hand:
        n = self.num_players
        return Hand((), limit.new_round((1,) * n, (False,) * n, 0), ((),))

    def returns(self, state: Hand) -> Sequence[float]:
        if self.current_player(state) != TERMINAL:
            return (0.0,) * self.num_players

        def strength(seat: int) -> int:
            own_rank, public_rank = (
                state.cards[i] // NUM_SUITS for i in (seat, self.num_players)
            )
            return self.num_players + 1 if own_rank == public_rank else own_rank

        return limit.net_chips(state.betting, strength)

    def observe(self, state: Hand, seat: int) -> str:
        hands, public = self.visible(state, seat)
        no_card, no_board = ("no card yet", "not dealt")
        names = [self._name(card) for card in hands]
        return "\n".join(
            [
                f"You are player_{seat} and hold {names[seat] or no_card}.",
                f"Public card: {self._name(public) or no_board}.",
                self.betting_text(state, seat, ("Round 1", "Round 2"), names),
            ]
        )

    def features(self, state: Hand, seat: int) -> Vector:
        """One-hot: own seat, own rank, public rank, whose turn; then chips and actions.

        Ranks and turns have one more place, for none. Chips are shares of the most that a
        seat can pay. Turn, chips and actions go from the own seat on; actions are
        one-hot by round, seat and turn of the seat in that round.
        """
        n = self.num_players
        hands, public = self.visible(state, seat)
        own_rank, public_rank = (
            n + 1 if card is None else card // NUM_SUITS
            for card in (hands[seat], public)
        )
        ones = [seat, n + own_rank, 2 * n + 2 + public_rank]
        return self.encoded(state, seat, ones, 3 * n + 4)

    def rules(self, seat: int) -> str:
        ranks = [self._name(NUM_SUITS * rank) for rank in range(self.num_players + 1)]
        small, big = SIZES
        most = MAX_RAISES
        return filled("leduc_poker", self, ranks=ranks, small=small, big=big, most=most)

    def visible(
        self, state: Hand, seat: int
    ) -> tuple[tuple[int | None, ...], int | None]:
        """The hands that a seat sees, None for those it does not, and the public card."""
        num, cards = self.num_players, state.cards
        hands = tuple(
            cards[s] if s < len(cards) and is_seen else None
            for s, is_seen in enumerate(self.seen(state, seat))
        )
        return hands, cards[num] if len(cards) > num else None

    def hidden(self, state: Hand, seat: int) -> tuple[str, str] | None:
        """A question about the next player's card, and its answer; None before it is dealt."""
        next_player = (seat + 1) % self.num_players
        card = (
            self._name(state.cards[next_player])
            if next_player < len(state.cards)
            else None
        )
        return (
            None
            if card is None
            else (f"Which card does player_{next_player} hold?", card)
        )

    def _name(self, card: int | None) -> str | None:
        if card is None:
            return None
        return ("10", "J", "Q", "K")[card // NUM_SUITS + 3 - self.num_players]


def scene(game: LeducPoker, state: Hand, viewer: int | None) -> Shapes:
    """A card for each seat, the public card, the rounds and the chips."""
    num, cards = game.num_players, state.cards
    hands: Sequence[int | None] = cards[:num]
    if viewer is not None:
        key: Any = game.information_state(state, viewer)
        hands = key[1][: len(hands)]
    hand_shapes = [hand_of(seat, [game._name(card)]) for seat, card in enumerate(hands)]
    public = Cards("public card", [Card(game._name(card)) for card in cards[num:]])
    rounds = betting_shapes(state.betting, ("round 1", "round 2"), state.history)
    return [*hand_shapes, public, *rounds]
