"""Blackjack: one player draws cards towards 21 against a dealer who must follow a rule.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("blackjack-v0")`                                      |
| Agents      | `player_0` alone; the dealer is chance                                 |
| Kind        | competitive, imperfect information, not zero-sum (one seat)            |
| Actions     | `Discrete(2)`: 0 "hit", 1 "stand"                                      |
| Rewards     | at the end: 1 for a win, -1 for a loss, 0 for a tie                    |
| Length      | 1 to 10 turns; 1.374734 on average in uniform random play              |
| Known value | optimal play -0.042462, uniform random play -0.392658                  |
| Source      | traditional; W. R. Baldwin et al., *The Optimum Strategy in Blackjack* |
|             | (1956)                                                                 |

The deck has 52 cards. Cards count their number; J, Q and K count 10; an ace counts 11, or 1
where 11 would make more than 21. The player and the dealer get two cards each. One of the
dealer's cards is hidden. The player hits (draws a card) or stands; above 21 the player
loses at once. Then the dealer shows the hidden card and draws up to a total of 17 or
more. A dealer above 21 loses; else the higher total wins and equal totals tie. There are no
other bets, and 21 with two cards counts like any 21. Actions and chance
nodes (card = 13 * suit + rank, ranks from the ace) are OpenSpiel's.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    IllegalAction,
    Vector,
    filled,
    fold,
    np,
)
from arena_envs.scenes.shapes import Card, Cards, Shapes

HIT, STAND = 0, 1
ACTIONS = {"hit": HIT, "stand": STAND}
SPELLINGS = {**ACTIONS, "hit me": HIT, "draw": HIT, "stay": STAND, "stick": STAND}
RANKS = ("A", "2", "3", "4", "5", "6", "7", "8", "9", "10", "J", "Q", "K")
VALUES = (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 10, 10, 10) * 4  # by card
DECK = range(52)
ACES = frozenset({0, 13, 26, 39})
HIGHEST, DEALER_STANDS = 21, 17


class State(NamedTuple):
    """Cards in the order in which they were dealt, and what the player has done.

    The dealer's first card is hidden until the player's turns are over.
    """

    player: tuple[int, ...] = ()
    dealer: tuple[int, ...] = ()
    num_hits: int = 0
    stood: bool = False


@dataclass(frozen=True)
class Blackjack(BaseGame[State, int]):
    """Blackjack with one player and one deck; it has no parameters."""

    first_state = State()
    num_players = 1
    num_actions = 2
    kind = "competitive"
    # 11 cards of the player make 21; the dealer draws 3, 4, 4, 4 and one more
    max_chance_nodes = 16
    min_return = -1.0
    max_return = 1.0
    # 2 cards dealt and 9 drawn make 21 (aces, 2s, 3s); then one turn more
    max_turns = 10
    default_value = "optimal play -0.042462; uniform random play -0.392658"

    def current_player(self, state: State) -> int:
        player, dealer, num_hits, stood = state
        if len(player) < 2 + num_hits or len(dealer) < 2:
            return CHANCE
        if stood:
            return CHANCE if total_of(dealer) < DEALER_STANDS else TERMINAL
        return TERMINAL if total_of(player) > HIGHEST else 0

    def chance_outcomes(self, state: State) -> Sequence[tuple[int, float]]:
        if self.current_player(state) != CHANCE:
            return ()
        dealt = {*state.player, *state.dealer}
        chance = 1 / (52 - len(dealt))
        return [(card, chance) for card in DECK if card not in dealt]

    def legal_actions(self, state: State) -> Sequence[int]:
        return (HIT, STAND) if self.current_player(state) == 0 else ()

    def apply(self, state: State, action: int) -> State:
        player, dealer, num_hits, stood = state
        if len(player) < 2 + num_hits:
            return State((*player, action), dealer, num_hits, stood)
        if stood or len(dealer) < 2:
            return State(player, (*dealer, action), num_hits, stood)
        if action == HIT:
            return State(player, dealer, num_hits + 1, stood)
        return State(player, dealer, num_hits, True)

    def returns(self, state: State) -> Sequence[float]:
        if self.current_player(state) != TERMINAL:
            return (0.0,)
        player_total, dealer_total = total_of(state.player), total_of(state.dealer)
        if player_total > HIGHEST or player_total < dealer_total <= HIGHEST:
            return (-1.0,)
        return (0.0,) if player_total == dealer_total else (1.0,)

    def observe(self, state: State, seat: int) -> str:
        player = self.current_player(state)
        now = "You are to move." if player == 0 else "Cards are being dealt."
        if player == TERMINAL:
            end = {1.0: "you have won", -1.0: "you have lost", 0.0: "a tie"}
            now = f"The game is over: {end[self.returns(state)[0]]}."
        dealer_cards = self._shown(state)
        dealers = "Dealer's cards" if self._is_open(state) else "Dealer's open card"
        return (
            f"You are player_0. {now}\nYour cards: {_hand(state.player)}.\n"
            f"{dealers}: {_hand(dealer_cards)}."
        )

    def information_state(self, state: State, seat: int) -> Any:
        return (state.player, self._shown(state), state.num_hits, state.stood)

    def features(self, state: State, seat: int) -> Vector:
        """Own cards and the dealer's open cards: number by rank, total, and whether an ace counts 11.

        Soft: an ace counts 11. Then whether the player's turns are over.
        """
        values = [0.0] * 31
        for start, cards in ((0, state.player), (15, self._shown(state))):
            for card in cards:
                values[start + card % 13] += 0.25
            values[start + 13] = total_of(cards) / HIGHEST
            values[start + 14] = is_soft(cards)
        values[30] = self._is_open(state)
        return np.array(values, np.float32)

    def action_text(self, state: State, action: int) -> str:
        return "stand" if action == STAND else "hit"

    def parse(self, state: State, text: str) -> int:
        """Reads "hit" and "stand", also "hit me", "draw", "stay" and "stick"."""
        action = SPELLINGS.get(fold(text))
        if action is None or not self.legal_actions(state):
            raise IllegalAction(f"want one of {list(ACTIONS)}, got {text[:80]!r}")
        return action

    def rules(self, seat: int) -> str:
        return filled("blackjack", self)

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the hidden card, uniformly, from those that the player does not see."""
        if not state.dealer or self._is_open(state):
            return state
        visible = {*state.player, *state.dealer[1:]}
        hidden = rng.choice([card for card in DECK if card not in visible])
        return state._replace(dealer=(hidden, *state.dealer[1:]))

    def _is_open(self, state: State) -> bool:
        return state.stood or total_of(state.player) > HIGHEST

    def _shown(self, state: State) -> tuple[int, ...]:
        return state.dealer if self._is_open(state) else state.dealer[1:]


@lru_cache(10_000)
def total_of(cards: tuple[int, ...]) -> int:
    """The total of a hand: the highest up to 21, else the lowest.

    >>> total_of((0, 13, 8))  # two aces and a 9
    21
    """
    low = sum([VALUES[card] for card in cards])
    return low + 10 if low <= HIGHEST - 10 and has_ace(cards) else low


@lru_cache(10_000)
def is_soft(cards: tuple[int, ...]) -> bool:
    """Whether an ace counts 11."""
    return has_ace(cards) and sum([VALUES[card] for card in cards]) <= HIGHEST - 10


def has_ace(cards: Sequence[int]) -> bool:
    """Whether there is an ace."""
    return not ACES.isdisjoint(cards)


@lru_cache(10_000)
def _hand(cards: tuple[int, ...]) -> str:
    if not cards:
        return "none"
    names = ", ".join(RANKS[card % 13] for card in cards)
    return f"{names} (total {total_of(cards)}{', soft' if is_soft(cards) else ''})"


def scene(game: Blackjack, state: State, viewer: int | None) -> Shapes:
    """The hand of the player, and the dealer's, whose first card is hidden at first."""
    hands = state.player, state.dealer if viewer is None else game._shown(state)
    mine, theirs = ([Card(RANKS[card % 13]) for card in hand] for hand in hands)
    hidden = [Card(None)] * (len(state.dealer) - len(theirs))
    player_total, dealer_total = map(total_of, hands)
    return [
        Cards(f"player_0: {player_total}", mine, 0),
        Cards(f"dealer: {dealer_total}", [*hidden, *theirs]),
    ]
