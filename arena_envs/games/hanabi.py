"""Hanabi: everybody sees the cards of the others and nobody sees their own.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("mini_hanabi-v0")`; parameters: see `Hanabi`          |
| Agents      | `player_0` to `player_{N-1}`, `num_players` from 2 to 5                |
| Kind        | cooperative, imperfect information                                     |
| Actions     | `Discrete(2H + (N - 1)(C + R))`: discard, play, reveal color or rank   |
| Rewards     | 1 to every seat per card played; the last lost life takes all back     |
| Length      | at most 2D + I + N - 1 turns, D > 0 being the deck after the deal      |
| Known value | Mini: at most 4; always "play 0" 2.3, uniform random play 1.436136     |
| Source      | A. Bauza (2010); Bard et al., *The Hanabi Challenge* (2020)            |

N players hold H cards each of C colors and R ranks: three of rank 1, one of rank R, two of
each rank between. Together they build one firework per color, upwards from rank 1. A
player plays a card (a wrong one costs a life token), discards one (and regains one of I
information tokens) or pays an information token to show another player all cards of one
color or rank in that player's hand. A completed firework regains a token. The episode
ends when all fireworks are complete, when no life is left, or when everybody has had one
turn after the last card was drawn. Actions, seats, chance nodes (card = R * color + rank,
both from 0) and all rules are OpenSpiel's.
"""

import random
from bisect import bisect
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from math import perm
from typing import ClassVar, TypeVar

import numpy as np
from numpy.typing import NDArray

import arena_envs.games._hanabi_views as views
from arena_envs.game import CHANCE, TERMINAL, BaseGame, Information, Kind
from arena_envs.games._hanabi_state import Setup, State, Turn

T = TypeVar("T")


@dataclass(frozen=True)
class Hanabi(Setup, BaseGame[State, int]):
    """Hanabi.

    Args:
        num_players: 2 to 5.
        num_colors: 1 to 5.
        num_ranks: 1 to 5.
        hand_size: 1 to 10; None is 5 for two or three players and 4 for more.
        max_information_tokens: at the start and ever, 0 to 100.
        max_life_tokens: at the start, 1 to 100.

    Raises:
        ValueError: a parameter is out of range, or the deck is too small to deal.
    """

    kind: ClassVar[Kind] = "cooperative"
    information: ClassVar[Information] = "imperfect"
    min_return = 0.0

    @property
    def num_actions(self) -> int:
        return len(self.moves)

    @property
    def max_return(self) -> float:
        return float(self.num_colors * self.num_ranks)

    @property
    def max_turns(self) -> int:
        # D plays and discards empty the deck. Each regains at most one token, the last
        # of them too late, so at most I + D - 1 hints come before. Then all have a turn.
        left = sum(self.copies) - self.num_players * self.cards_per_hand
        before = 2 * left + self.max_information_tokens - 1 if left else 0
        return before + self.num_players

    @property
    def teams(self) -> Sequence[int]:
        return (0,) * self.num_players

    def initial_state(self) -> State:
        return State(
            player=CHANCE,
            deck=self.copies,
            hands=((),) * self.num_players,
            hints=((),) * self.num_players,
            fireworks=(0,) * self.num_colors,
            discards=(0,) * len(self.copies),
            information_tokens=self.max_information_tokens,
            life_tokens=self.max_life_tokens,
            turns_left=self.num_players,
        )

    def current_player(self, state: State) -> int:
        return state.player

    def chance_outcomes(self, state: State) -> list[tuple[int, float]]:
        size = sum(state.deck)
        return [(card, num / size) for card, num in enumerate(state.deck) if num]

    def legal_actions(self, state: State) -> Sequence[int]:
        if state.player < 0:
            return ()
        n, tokens, bits = self.num_players, state.information_tokens, self.card_bits
        num_cards = len(state.hands[state.player])
        legal = []
        for action, (verb, where, bit) in enumerate(self.moves):
            if verb == "reveal":
                hand = state.hands[(state.player + where) % n]
                allowed = tokens > 0 and any(bits[card] & bit for card in hand)
            else:
                full = tokens == self.max_information_tokens
                allowed = where < num_cards and not (full and verb == "discard")
            if allowed:
                legal.append(action)
        return legal

    def apply(self, state: State, action: int) -> State:
        if state.player == CHANCE:
            state = self._deal(state, action)
        else:
            if not any(state.deck):
                state = state._replace(turns_left=state.turns_left - 1)
            reveals = self.moves[action].verb == "reveal"
            state = self._reveal(state, action) if reveals else self._use(state, action)
        return state._replace(player=self._next_player(state))

    def returns(self, state: State) -> Sequence[float]:
        score = sum(state.fireworks) if state.life_tokens else 0
        return (float(score),) * self.num_players

    def observe(self, state: State, seat: int) -> str:
        return views.text(self, state, seat)

    def information_state(self, state: State, seat: int) -> Hashable:
        """All turns, and the others' hands, from which their earlier hands follow."""
        num_own, others = len(state.hands[seat]), _put(state.hands, seat, ())
        return (seat, num_own, others, state.history)

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
        return views.features(self, state, seat)

    def action_text(self, state: State, action: int) -> str:
        return views.action_text(self, state.player, action)

    def rules(self, seat: int) -> str:
        return views.rules(self, seat)

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Deals the own hand again; all deals that fit the hints are equally likely."""
        copies = list(state.deck)
        for card in state.hands[seat]:
            copies[card] += 1
        hints = state.hints[seat]
        fits = [
            sum(1 << slot for slot, hint in enumerate(hints) if bits & hint == bits)
            for bits in self.card_bits
        ]
        hand = _sample_hand(copies, fits, len(hints), rng)
        for card in hand:
            copies[card] -= 1
        return state._replace(deck=tuple(copies), hands=_put(state.hands, seat, hand))

    def _deal(self, state: State, card: int) -> State:
        hands, hints = state.hands, state.hints
        seat = next(s for s, hand in enumerate(hands) if self._is_short(hand))
        anything = (1 << self.num_colors + self.num_ranks) - 1
        return state._replace(
            deck=_put(state.deck, card, state.deck[card] - 1),
            hands=_put(hands, seat, (*hands[seat], card)),
            hints=_put(hints, seat, (*hints[seat], anything)),
        )

    def _use(self, state: State, action: int) -> State:
        """Plays or discards a card."""
        seat, (verb, slot, _) = state.player, self.moves[action]
        hand, hints = state.hands[seat], state.hints[seat]
        color, rank = divmod(hand[slot], self.num_ranks)
        scored = verb == "play" and state.fireworks[color] == rank
        fireworks, discards = state.fireworks, state.discards
        if scored:
            fireworks = _put(fireworks, color, rank + 1)
        else:
            discards = _put(discards, hand[slot], discards[hand[slot]] + 1)
        regained = verb == "discard" or (scored and rank + 1 == self.num_ranks)
        tokens = min(state.information_tokens + regained, self.max_information_tokens)
        return state._replace(
            hands=_put(state.hands, seat, hand[:slot] + hand[slot + 1 :]),
            hints=_put(state.hints, seat, hints[:slot] + hints[slot + 1 :]),
            fireworks=fireworks,
            discards=discards,
            information_tokens=tokens,
            life_tokens=state.life_tokens - (verb == "play" and not scored),
            history=(*state.history, Turn(action, hand[slot], scored)),
        )

    def _reveal(self, state: State, action: int) -> State:
        _, offset, bit = self.moves[action]
        target = (state.player + offset) % self.num_players
        colors = (1 << self.num_colors) - 1
        same_kind = colors if bit & colors else ~colors
        hints, touched = list(state.hints[target]), 0
        for slot, card in enumerate(state.hands[target]):
            if self.card_bits[card] & bit:
                hints[slot] &= bit | ~same_kind
                touched |= 1 << slot
            else:
                hints[slot] &= ~bit
        return state._replace(
            hints=_put(state.hints, target, tuple(hints)),
            information_tokens=state.information_tokens - 1,
            history=(*state.history, Turn(action, touched=touched)),
        )

    def _next_player(self, state: State) -> int:
        complete = sum(state.fireworks) == len(self.copies)
        if complete or not state.life_tokens or not state.turns_left:
            return TERMINAL
        if any(state.deck) and any(map(self._is_short, state.hands)):
            return CHANCE
        return len(state.history) % self.num_players

    def _is_short(self, hand: tuple[int, ...]) -> bool:
        return len(hand) < self.cards_per_hand


def _put(items: tuple[T, ...], index: int, item: T) -> tuple[T, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _sample_hand(
    copies: Sequence[int], fits: Sequence[int], num_slots: int, rng: random.Random
) -> tuple[int, ...]:
    """A hand, as likely as the number of ways to deal it.

    Args:
        copies: number of unseen copies of each card.
        fits: slots that each card may be in, as bits.
        num_slots: size of the hand.
        rng: draws one number for each card.
    """

    @cache
    def num_deals(card: int, empty: int) -> int:
        """Ways to fill the empty slots with this card and the following ones."""
        if card == len(copies):
            return int(not empty)
        return sum(ways for _, ways in choices(card, empty))

    def choices(card: int, empty: int) -> Iterator[tuple[int, int]]:
        """Sets of slots that may hold the copies of this card, with the ways to do so."""
        allowed = slots = empty & fits[card]
        while True:
            if ways := perm(copies[card], slots.bit_count()):
                ways *= num_deals(card + 1, empty & ~slots)
                yield slots, ways
            if not slots:
                return
            slots = (slots - 1) & allowed

    hand, empty = [0] * num_slots, (1 << num_slots) - 1
    for card in range(len(copies)):
        sets, weights = zip(*choices(card, empty), strict=True)
        pick = bisect(list(accumulate(weights)), rng.randrange(sum(weights)))
        empty &= ~sets[pick]
        for slot in range(num_slots):
            if sets[pick] >> slot & 1:
                hand[slot] = card
    return tuple(hand)
