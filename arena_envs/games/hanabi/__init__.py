"""Hanabi: everybody sees the cards of the others and nobody sees their own.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("hanabi-v0")`; parameters: see `Hanabi`               |
| Agents      | `player_0` to `player_{N-1}`, `num_players` from 2 to 5                |
| Kind        | cooperative, imperfect information                                     |
| Actions     | `Discrete(2H + (N - 1)(C + R))`: discard, play, reveal color or rank   |
| Rewards     | 1 to every seat per card played; minus the score when the last life is |
|             | lost                                                                   |
| Length      | at most 2D + I + N - 1 turns, D > 0 being the deck after the deal      |
| Known value | at most 25; random play 0 in 2,000 games; smaller games: see below      |
| Source      | A. Bauza (2010); Bard et al., *The Hanabi Challenge* (2020)            |

N players hold H cards each of C colors and R ranks: three of rank 1, one of rank R, two of
each rank between. Together they build one firework per color, upwards from rank 1. A
player plays a card (a wrong one costs a life token), discards one (and regains one of I
information tokens) or pays an information token to show another player all cards of one
color or rank in that player's hand. A completed firework also regains a token. The episode
ends when all fireworks are complete, when no life is left, or when everybody has had one
turn after the last card was drawn.

Presets: `hanabi-v0` is the whole game; `simple_hanabi-v0` has 3 colors and 2 ranks (best
score 6), hands, tokens and lives as in the whole game; `mini_hanabi-v0` has 2 colors and 2
ranks (best score 4), hands of 3 cards, and 3 information tokens.

Mean scores to compare with: "play 0" in every turn gets 2.3 in Mini Hanabi (exact) and 2.54 in
Simple Hanabi (2,000 games, seed 0); uniform random play gets 1.436136 (exact) and 1.59 (2,000
games, seed 0). In the whole game both lose all lives in each of 2,000 games. Actions, seats,
chance nodes (card = R * color + rank, both from 0) and all rules are OpenSpiel's.

Measure of an episode: `score_share`, the score divided by the best score C * R. The score is 0
once the last life is lost, as in OpenSpiel.
"""

import random
from bisect import bisect
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import accumulate
from math import perm
from operator import getitem
from typing import TypeVar

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    Pays,
    Vector,
    np,
)
from arena_envs.games.hanabi.state import Pieces, Setup, State, Turn, latest, places
from arena_envs.games.hanabi.texts import Texts

__all__ = ["Hanabi", "State", "Turn"]


def sample_hand(
    copies: Sequence[int], fits: Sequence[int], num_slots: int, rng: random.Random
) -> bytes:
    """A random hand, with probability proportional to the number of ways to deal it.

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
        return sum(
            ways * num_deals(card + 1, empty & ~slots)
            for slots, ways in _placements(empty & fits[card], copies[card])
        )

    hand, empty = bytearray(num_slots), (1 << num_slots) - 1
    for card in range(len(copies)):
        sets = _placements(empty & fits[card], copies[card])
        weights = [ways * num_deals(card + 1, empty & ~slots) for slots, ways in sets]
        pick = bisect(list(accumulate(weights)), rng.randrange(sum(weights)))
        chosen, _ = sets[pick]
        empty &= ~chosen
        for slot in range(num_slots):
            if chosen >> slot & 1:
                hand[slot] = card
    return bytes(hand)


@cache
def _placements(slots: int, copies: int) -> list[tuple[int, int]]:
    """Sets of slots that may hold copies of a card, with the ways to place them there."""
    found, chosen = [], slots
    while True:
        if ways := perm(copies, chosen.bit_count()):
            found.append((chosen, ways))
        if not chosen:
            return found
        chosen = (chosen - 1) & slots


class Features:
    """The knowledge of the text as numbers, seats counted from the own one.

    They are joined from pieces, each of them some float32 as bytes.
    """

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        n, num_cards = setup.num_players, len(setup.copies)
        num_values = setup.num_colors + setup.num_ranks
        missing = range(setup.cards_per_hand, -1, -1)  # by number of cards
        self._seats = [_one_hot(seat, n) for seat in (*range(n), -1)]
        self._deck = _shares(sum(setup.copies))
        self._information_tokens = _shares(setup.max_information_tokens)
        self._life_tokens = _shares(setup.max_life_tokens)
        self._turns_left = _shares(n)
        self._fireworks = [
            _one_hot(top, setup.num_ranks + 1) for top in range(setup.num_ranks + 1)
        ]
        self._discards = Pieces(self._make_discards)
        self._hints: Pieces[int, bytes] = Pieces(lambda hint: _bits(hint, num_values))
        self._no_hints = [bytes(4 * num_values * num) for num in missing]
        self._cards = [_one_hot(card, num_cards) for card in range(num_cards)]
        self._no_cards = [bytes(4 * num_cards * num) for num in missing]
        self._turns = Pieces(self._make_turn)

    def __call__(self, state: State, seat: int) -> Vector:
        player, _, size, hands, hints, tops, discards, tokens, lives, left, _ = state
        to_move = (player - seat) % self._setup.num_players if player >= 0 else -1
        pieces = [
            self._seats[seat],
            self._seats[to_move],
            self._deck[size],
            self._information_tokens[tokens],
            self._life_tokens[lives],
            self._turns_left[left],
            *map(self._fireworks.__getitem__, tops),
            *map(self._discards.__getitem__, discards),
            *map(self._hints.__getitem__, hints[seat]),
            self._no_hints[len(hints[seat])],
        ]
        for other in self._setup.others[seat]:
            hand = hands[other]
            pieces += map(self._hints.__getitem__, hints[other])
            pieces.append(self._no_hints[len(hand)])
            pieces += map(self._cards.__getitem__, hand)
            pieces.append(self._no_cards[len(hand)])
        pieces += map(self._turns.__getitem__, latest(state, seat))
        return np.frombuffer(bytearray(b"".join(pieces)), np.float32)

    def _make_discards(self, row: bytes) -> bytes:
        copies = self._setup.copies[: len(row)]
        return _floats(num / of for num, of in zip(row, copies, strict=True))

    def _make_turn(self, turn: Turn) -> bytes:
        action, card, scored, touched = turn
        return (
            _one_hot(action, len(self._setup.moves))
            + _one_hot(card, len(self._setup.copies))
            + _floats([scored])
            + _bits(touched, self._setup.cards_per_hand)
        )


def _floats(values: Iterable[float]) -> bytes:
    return np.array(list(values), np.float32).tobytes()


def _one_hot(index: int, size: int) -> bytes:
    return _floats(i == index for i in range(size))


def _bits(number: int, size: int) -> bytes:
    return _floats(number >> i & 1 for i in range(size))


def _shares(of: int) -> list[bytes]:
    """The numbers from 0 to the largest, as shares of it."""
    return [_floats([number / max(1, of)]) for number in range(of + 1)]


T = TypeVar("T")
BYTES = [bytes([number]) for number in range(256)]


@dataclass(frozen=True)
class Hanabi(Setup):
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

    kind = "cooperative"
    min_return = 0.0
    heuristic = "hanabi_convention"
    scene = "arena_envs.games.hanabi.scene:scene"

    @property
    def num_actions(self) -> int:
        return len(self.moves)

    @property
    def max_return(self) -> float:
        return float(self.num_colors * self.num_ranks)

    @property
    def max_turns(self) -> int:
        # D plays and discards empty the deck. Each regains at most one token, and the last
        # one comes too late for a hint before it, so there are at most I + D - 1 hints
        # before the deck is empty. Then every seat has one turn.
        left = sum(self.copies) - self.num_players * self.cards_per_hand
        before = 2 * left + self.max_information_tokens - 1 if left else 0
        return before + self.num_players

    @cached_property
    def texts(self) -> Texts:
        """The texts of these settings."""
        return Texts(self)

    @cached_property
    def numbers(self) -> Features:
        """The features of the players."""
        return Features(self)

    @property
    def max_chance_nodes(self) -> int:
        return sum(self.copies)

    def initial_state(self) -> State:
        return State(
            player=CHANCE,
            deck=self.copies,
            deck_size=sum(self.copies),
            hands=(b"",) * self.num_players,
            hints=((),) * self.num_players,
            fireworks=bytes(self.num_colors),
            discards=(bytes(self.num_ranks),) * self.num_colors,
            information_tokens=self.max_information_tokens,
            life_tokens=self.max_life_tokens,
            turns_left=self.num_players,
        )

    def current_player(self, state: State) -> int:
        return state.player

    def chance_outcomes(self, state: State) -> list[tuple[int, float]]:
        draws = map(getitem, self.draws[state.deck_size], state.deck)
        return list(filter(None, draws))

    def legal_actions(self, state: State) -> Sequence[int]:
        seat, tokens = state.player, state.information_tokens
        if seat < 0:
            return ()
        can_discard = tokens < self.max_information_tokens
        legal = self.own_actions[can_discard][len(state.hands[seat])]
        if not tokens:
            return legal
        card_bits = self.card_bits
        num_colors, first_color = self.num_colors, 2 * self.cards_per_hand
        first_rank = first_color + (self.num_players - 1) * num_colors
        ranks: tuple[int, ...] = ()
        for other in self.others[seat]:
            bits = 0
            for card in state.hands[other]:
                bits |= card_bits[card]
            legal += places(bits & (1 << num_colors) - 1, first_color)
            ranks += places(bits >> num_colors, first_rank)
            first_color += num_colors
            first_rank += self.num_ranks
        return legal + ranks

    def apply(self, state: State, action: int) -> State:
        if state.player == CHANCE:
            return self._deal(state, action)
        if self.moves[action].verb == "reveal":
            return self._reveal(state, action)
        return self._use(state, action)

    def returns(self, state: State) -> Sequence[float]:
        return self.scores[sum(state.fireworks) if state.life_tokens else 0]

    @property
    def pays(self) -> Pays:
        return "on_the_way" if self.num_colors * self.num_ranks > 1 else "end"

    @property
    def known_value(self) -> str | None:
        return f"at most {self.num_colors * self.num_ranks}"

    def measures(self, state: State) -> dict[str, float]:
        """The score as a share of the best one."""
        return {"score_share": self.returns(state)[0] / self.max_return}

    def observe(self, state: State, seat: int) -> str:
        return self.texts.observation(state, seat)

    def information_state(self, state: State, seat: int) -> Hashable:
        """All turns and the hands of the others, which also determine their earlier hands."""
        others = tuple(map(tuple, _put(state.hands, seat, b"")))
        return (seat, len(state.hands[seat]), others, state.history)

    def features(self, state: State, seat: int) -> Vector:
        return self.numbers(state, seat)

    def action_text(self, state: State, action: int) -> str:
        return self.texts.action(state.player, action)

    def rules(self, seat: int) -> str:
        return self.texts.rules(seat)

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
        hand = sample_hand(copies, fits, len(hints), rng)
        for card in hand:
            copies[card] -= 1
        return state._replace(deck=bytes(copies), hands=_put(state.hands, seat, hand))

    def _deal(self, state: State, card: int) -> State:
        _, deck, size, hands, hints, tops, discards, tokens, lives, left, past = state
        seat, hand_size = 0, self.cards_per_hand
        while len(hands[seat]) == hand_size:
            seat += 1
        deck = deck[:card] + BYTES[deck[card] - 1] + deck[card + 1 :]
        hand, hint = hands[seat] + BYTES[card], (*hints[seat], self.any_card)
        hands = (*hands[:seat], hand, *hands[seat + 1 :])
        hints = (*hints[:seat], hint, *hints[seat + 1 :])
        is_ready = len(hands[-1]) == hand_size
        player = len(past) % self.num_players if is_ready else CHANCE
        return State(
            player,
            deck,
            size - 1,
            hands,
            hints,
            tops,
            discards,
            tokens,
            lives,
            left,
            past,
        )

    def _use(self, state: State, action: int) -> State:
        """Plays or discards a card."""
        seat, deck, size, hands, hints, tops, discards, tokens, lives, left, past = (
            state
        )
        verb, slot, _ = self.moves[action]
        card = hands[seat][slot]
        color, rank = divmod(card, self.num_ranks)
        scored = verb == "play" and tops[color] == rank
        if scored:
            tops = _put_byte(tops, color, rank + 1)
        else:
            row = discards[color]
            discards = _put(discards, color, _put_byte(row, rank, row[rank] + 1))
            lives -= verb == "play"
        if verb == "discard" or (scored and rank + 1 == self.num_ranks):
            tokens = min(tokens + 1, self.max_information_tokens)
        player = CHANCE
        if not size:
            left -= 1
            player = (seat + 1) % self.num_players if left else TERMINAL
        if not lives or sum(tops) == len(self.copies):
            player = TERMINAL
        hand, hint = hands[seat], hints[seat]
        hands = _put(hands, seat, hand[:slot] + hand[slot + 1 :])
        hints = _put(hints, seat, hint[:slot] + hint[slot + 1 :])
        past = (*past, Turn(action, card, scored))
        return State(
            player, deck, size, hands, hints, tops, discards, tokens, lives, left, past
        )

    def _reveal(self, state: State, action: int) -> State:
        seat, deck, size, hands, hints, tops, discards, tokens, lives, left, past = (
            state
        )
        _, offset, bit = self.moves[action]
        other = (seat + offset) % self.num_players
        colors = (1 << self.num_colors) - 1
        same_kind = colors if bit & colors else ~colors
        hint, touched, card_bits = list(hints[other]), 0, self.card_bits
        for slot, card in enumerate(hands[other]):
            if card_bits[card] & bit:
                hint[slot] &= bit | ~same_kind
                touched |= 1 << slot
            else:
                hint[slot] &= ~bit
        left -= not size
        player = (seat + 1) % self.num_players if left else TERMINAL
        hints = _put(hints, other, tuple(hint))
        past = (*past, Turn(action, touched=touched))
        tokens -= 1
        return State(
            player, deck, size, hands, hints, tops, discards, tokens, lives, left, past
        )


def _put(items: tuple[T, ...], index: int, item: T) -> tuple[T, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _put_byte(items: bytes, index: int, item: int) -> bytes:
    return items[:index] + BYTES[item] + items[index + 1 :]
