"""Kuhn poker: the smallest poker with bluffing, for two to four players.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("kuhn_poker-v0", num_players=2)`                      |
| Agents      | `player_0` to `player_{N-1}`, `num_players` from 2 to 4                |
| Kind        | competitive, imperfect information, zero-sum                           |
| Actions     | `Discrete(2)`: 0 "pass", 1 "bet"                                       |
| Rewards     | at the end: the net chips won or lost                                  |
| Length      | 2 to 3 turns with two players, at most 2N - 1                          |
| Known value | two players: -1/18 for `player_0`; NashConv of uniform play 11/12      |
| Source      | H. W. Kuhn, *A Simplified Two-Person Poker* (1950)                     |

The deck has one card more than there are players. Everybody pays an ante of one chip and is
dealt one card. In turn, a player passes or bets one chip. After a bet, every other player has
one more turn: "bet" calls, "pass" folds. The highest card among those who bet, or among all if
nobody did, takes the pot; cards that are compared are shown. The three cards of the game for
two are J, Q, K; larger decks start lower (10, 9). Actions, seats and chance nodes are
OpenSpiel's.
"""

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    Vector,
    by_player,
    filled,
    np,
    param,
)
from arena_envs.games.kits.cards import hand_of, hand_over_text, pot_table, taken_track
from arena_envs.scenes.shapes import Shapes

PASS, BET = 0, 1
NAMES = ("pass", "bet")


class State(NamedTuple):
    """The cards dealt so far, by seat, and the actions taken, in order."""

    cards: tuple[int, ...] = ()
    bets: tuple[int, ...] = ()


@dataclass(frozen=True)
class KuhnPoker(BaseGame[State, int]):
    """Kuhn poker with `num_players + 1` cards."""

    num_players: int = param(2, 2, 4)

    first_state = State()
    num_actions = 2
    kind = "competitive"
    zero_sum = True
    min_return = -2.0
    default_value = "-1/18 for player_0; NashConv of uniform play 11/12"

    @property
    def max_return(self) -> float:
        return 2.0 * (self.num_players - 1)

    @property
    def max_turns(self) -> int:
        return 2 * self.num_players - 1

    @property
    def max_chance_nodes(self) -> int:
        return self.num_players

    def current_player(self, state: State) -> int:
        if len(state.cards) < self.num_players:
            return CHANCE
        num_bets = len(state.bets)
        first = state.bets.index(BET) if BET in state.bets else None
        last = self.num_players if first is None else first + self.num_players
        return TERMINAL if num_bets == last else num_bets % self.num_players

    def chance_outcomes(self, state: State) -> list[tuple[int, float]]:
        left = [c for c in range(self.num_players + 1) if c not in state.cards]
        return [(card, 1 / len(left)) for card in left]

    def legal_actions(self, state: State) -> Sequence[int]:
        return (PASS, BET) if self.current_player(state) >= 0 else ()

    def apply(self, state: State, action: int) -> State:
        if len(state.cards) < self.num_players:
            return State((*state.cards, action), state.bets)
        return State(state.cards, (*state.bets, action))

    def returns(self, state: State) -> Sequence[float]:
        if self.current_player(state) != TERMINAL:
            return (0.0,) * self.num_players
        payments = self._paid(state)
        winner = max(self._in_showdown(payments), key=lambda seat: state.cards[seat])
        return tuple(
            float(sum(payments) - chips if seat == winner else -chips)
            for seat, chips in enumerate(payments)
        )

    def observe(self, state: State, seat: int) -> str:
        card = self._card_name(state.cards[seat]) if seat < len(state.cards) else None
        hand = f"and hold {card}" if card else "and have no card yet"
        bets = enumerate(state.bets)
        actions = by_player((i % self.num_players, NAMES[bet]) for i, bet in bets)
        return (
            f"You are player_{seat} {hand}. Actions: {actions or 'none'}. "
            f"{self._turn_text(state, seat)}"
        )

    def information_state(self, state: State, seat: int) -> Hashable:
        card = state.cards[seat] if seat < len(state.cards) else None
        showdown = self._shown(state)
        return (
            (seat, card, state.bets, showdown) if showdown else (seat, card, state.bets)
        )

    def features(self, state: State, seat: int) -> Vector:
        """One-hot seat, one-hot own card, then one-hot pass or bet for each turn."""
        n = self.num_players
        values = np.zeros(n + (n + 1) + 2 * self.max_turns, np.float32)
        values[seat] = 1
        if seat < len(state.cards):
            values[n + state.cards[seat]] = 1
        for turn, bet in enumerate(state.bets):
            values[2 * n + 1 + 2 * turn + bet] = 1
        return values

    def action_text(self, state: State, action: int) -> str:
        return NAMES[action]

    def rules(self, seat: int) -> str:
        cards = [self._card_name(card) for card in range(self.num_players + 1)]
        return filled("kuhn_poker", self, cards=cards)

    def hidden(self, state: State, seat: int) -> tuple[str, str] | None:
        """A question about the next player's card, and its answer; None before it is dealt."""
        next_player = (seat + 1) % self.num_players
        if next_player >= len(state.cards):
            return None
        card = self._card_name(state.cards[next_player])
        return f"Which card does player_{next_player} hold?", card

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Deals the hidden hands again, uniformly, from the cards this seat cannot see."""
        visible_seats = {seat, *(player for player, _ in self._shown(state))}
        visible_cards = {
            card for s, card in enumerate(state.cards) if s in visible_seats
        }
        unseen = [
            card for card in range(self.num_players + 1) if card not in visible_cards
        ]
        rng.shuffle(unseen)
        cards = (
            card if s in visible_seats else unseen.pop()
            for s, card in enumerate(state.cards)
        )
        return State(tuple(cards), state.bets)

    def _in_showdown(self, payments: Sequence[int]) -> list[int]:
        """Seats that paid the most: at the end, their cards are compared."""
        return [seat for seat, chips in enumerate(payments) if chips == max(payments)]

    def _shown(self, state: State) -> tuple[tuple[int, int], ...]:
        """Seats and cards that everybody sees: at the end, those that are compared."""
        seats = self._in_showdown(self._paid(state))
        if self.current_player(state) != TERMINAL or len(seats) == 1:
            return ()
        return tuple((seat, state.cards[seat]) for seat in seats)

    def _turn_text(self, state: State, seat: int) -> str:
        """The seat to move, or the cards of a showdown and the result."""
        player = self.current_player(state)
        if player == CHANCE:
            return "The next card is being dealt."
        if player != TERMINAL:
            return "Your turn." if player == seat else f"player_{player} is to move."
        others = by_player(
            (s, self._card_name(c)) for s, c in self._shown(state) if s != seat
        )
        showdown = f"Shown: {others}. " if others else ""
        return showdown + hand_over_text(self.returns(state))

    def _paid(self, state: State) -> list[int]:
        num = self.num_players
        return [1 + sum(state.bets[seat::num]) for seat in range(num)]

    def _card_name(self, card: int) -> str:
        return ("9", "10", "J", "Q", "K")[card + 4 - self.num_players]


def scene(game: KuhnPoker, state: State, viewer: int | None) -> Shapes:
    """A card for each seat, the actions and the chips."""
    num = game.num_players
    visible_cards = dict(enumerate(state.cards))
    if viewer is not None:
        key: Any = game.information_state(state, viewer)
        visible_cards = dict(key[3]) if len(key) > 3 else {}
        if key[1] is not None:
            visible_cards[viewer] = key[1]
    hands = [
        hand_of(
            seat,
            [game._card_name(visible_cards[seat]) if seat in visible_cards else None],
        )
        for seat in range(len(state.cards))
    ]
    actions = [(turn % num, NAMES[bet]) for turn, bet in enumerate(state.bets)]
    pot = pot_table(game._paid(state), [False] * num)
    return [*hands, taken_track("actions", actions), pot]
