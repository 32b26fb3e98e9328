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
import struct
from bisect import bisect
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, fields
from functools import cache, cached_property, lru_cache, partial
from itertools import accumulate
from math import perm
from operator import getitem
from typing import Any, NamedTuple, TypeVar

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    AnyState,
    BaseGame,
    Pays,
    Vector,
    check_int,
    filled,
    np,
    param,
)
from arena_envs.scenes.shapes import (
    Card,
    Cards,
    Cell,
    Shapes,
    Table,
    Track,
    cells,
    seat_cell,
)

COLORS = ("red", "yellow", "green", "white", "blue")


class Move(NamedTuple):
    """The effect of an action, the same for every seat."""

    verb: str  # "discard", "play" or "reveal"
    where: int  # own slot, or offset from the own seat to the seat that is told
    bit: int = 0  # of the color or rank that is revealed


class Turn(NamedTuple):
    """An action that was played, with what all seats saw of it."""

    action: int
    card: int = -1  # that left the hand
    scored: bool = False
    touched: int = 0  # slots that a hint pointed at, as bits


NO_TURN = Turn(action=-1)


class State(NamedTuple):
    """A game in progress; `bytes` are small integers, quick to copy and to hash.

    A hint has bits of the possible colors, then of the ranks.
    """

    player: int  # to move, CHANCE or TERMINAL
    deck: bytes  # copies, by card
    deck_size: int
    hands: tuple[bytes, ...]  # cards, by seat and slot
    hints: tuple[tuple[int, ...], ...]  # by seat and slot
    fireworks: bytes  # height, by color
    discards: tuple[bytes, ...]  # copies, by color and rank
    information_tokens: int
    life_tokens: int
    turns_left: int  # counts down once the deck is empty
    history: tuple[Turn, ...] = ()


K = TypeVar("K")
V = TypeVar("V")

MAX_PIECES = 10_000  # cached pieces of each kind


class Pieces(dict[K, V]):
    """Pieces by what they show; a piece is made at its first use."""

    def __init__(self, make: Callable[[K], V]) -> None:
        self._make = make

    def __missing__(self, key: K) -> V:
        if len(self) >= MAX_PIECES:
            self.clear()
        piece = self[key] = self._make(key)
        return piece


def pieces(make: Callable[..., Any]) -> cached_property[Pieces[Any, Any]]:
    """A method as the `Pieces` of a game by its first argument, each of them by the next one."""
    num_keys = make.__code__.co_argcount - 1

    def by_next(game: Any, *keys: Any) -> Any:
        more = len(keys) + 1 < num_keys
        return Pieces(partial(by_next if more else make, game, *keys))

    return cached_property(by_next)


@lru_cache(MAX_PIECES)
def places(bits: int, first: int) -> tuple[int, ...]:
    """Places of the bits that are set, the lowest place being `first`.

    >>> places(0b101, 7)
    (7, 9)
    """
    return tuple(first + i for i in range(bits.bit_length()) if bits >> i & 1)


def latest(state: State, seat: int) -> tuple[Turn, ...]:
    """The actions of the other seats, from the next one on, since this seat's last turn."""
    num_players, history = len(state.hands), state.history
    first = len(history) - (len(history) - 1 - seat) % num_players
    turns = history[first:] if first >= 0 else (NO_TURN,) * -first + history
    return turns + (NO_TURN,) * (num_players - 1 - len(turns))


@lru_cache(MAX_PIECES)
def _fireworks_text(tops: bytes) -> str:
    pairs = zip(COLORS, tops, strict=False)
    return f"Fireworks: {', '.join(f'{color} {top}' for color, top in pairs)}."


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
        card_slots, _ = sets[pick]
        empty &= ~card_slots
        for slot in range(num_slots):
            if card_slots >> slot & 1:
                hand[slot] = card
    return bytes(hand)


@cache
def _placements(slots: int, copies: int) -> list[tuple[int, int]]:
    """Sets of slots that may hold copies of a card, with the ways to place them there."""
    placements, subset = [], slots
    while True:
        if ways := perm(copies, subset.bit_count()):
            placements.append((subset, ways))
        if not subset:
            return placements
        subset = (subset - 1) & slots


def _one_hot(index: int, size: int) -> bytes:
    return struct.pack(f"{size}f", *(i == index for i in range(size)))


def _bits(number: int, size: int) -> bytes:
    return struct.pack(f"{size}f", *(number >> i & 1 for i in range(size)))


T = TypeVar("T")
BYTES = [bytes([number]) for number in range(256)]


@dataclass(frozen=True)
class Hanabi(BaseGame[State, int]):
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

    num_players: int = param(2, 2, 5)
    num_colors: int = param(5, 1, len(COLORS))
    num_ranks: int = param(5, 1, 5, knob=(1, 2, 3, 4, 5))
    hand_size: int | None = None
    max_information_tokens: int = param(8, 0, 100)
    max_life_tokens: int = param(3, 1, 100)

    kind = "cooperative"
    min_return = 0.0
    heuristic = "hanabi_convention"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_int("hand_size", self.cards_per_hand, 1, 10)
        num_dealt, size = self.num_players * self.cards_per_hand, sum(self.copies)
        if num_dealt > size:
            raise ValueError(
                f"num_players {self.num_players} with hand_size {self.cards_per_hand} want "
                f"{num_dealt} cards; num_colors {self.num_colors} with num_ranks "
                f"{self.num_ranks} make a deck of {size}"
            )

    def __getstate__(self) -> dict[str, Any]:
        """The parameters only; a copy computes the rest again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @cached_property
    def cards_per_hand(self) -> int:
        """`hand_size`, or its default for this number of players."""
        if self.hand_size is None:
            return 5 if self.num_players < 4 else 4
        return self.hand_size

    @cached_property
    def copies(self) -> bytes:
        """Number of copies of each card in the full deck."""
        last = self.num_ranks - 1
        copies = [3 if r == 0 else 1 if r == last else 2 for r in range(self.num_ranks)]
        return bytes(copies * self.num_colors)

    @cached_property
    def others(self) -> tuple[tuple[int, ...], ...]:
        """The other seats in order of turns, by seat."""
        n = self.num_players
        return tuple(tuple((s + i) % n for i in range(1, n)) for s in range(n))

    @cached_property
    def card_bits(self) -> tuple[int, ...]:
        """The color's and the rank's bit of each card."""
        first = self.num_colors
        colors, ranks = range(first), range(first, first + self.num_ranks)
        return tuple(1 << color | 1 << rank for color in colors for rank in ranks)

    @cached_property
    def any_card(self) -> int:
        """The hint that all colors and ranks are possible."""
        return (1 << self.num_colors + self.num_ranks) - 1

    @cached_property
    def moves(self) -> tuple[Move, ...]:
        """The effect of each action."""
        slots, first = range(self.cards_per_hand), self.num_colors
        moves = [Move(verb, slot) for verb in ("discard", "play") for slot in slots]
        for values in (range(first), range(first, first + self.num_ranks)):
            for offset in range(1, self.num_players):
                moves += [Move("reveal", offset, 1 << value) for value in values]
        return tuple(moves)

    @cached_property
    def own_actions(self) -> list[list[tuple[int, ...]]]:
        """Legal plays and discards, by whether a token is missing and by cards in hand."""
        h = self.cards_per_hand
        return [
            [(*range(num * can), *range(h, h + num)) for num in range(h + 1)]
            for can in (False, True)
        ]

    @cached_property
    def draws(self) -> list[list[list[tuple[int, float] | None]]]:
        """Each card with its chance, if any, by size of the deck, card and copies."""
        cards = list(enumerate(self.copies))
        return [
            [
                [None, *[(card, num / size) for num in range(1, copies + 1)]]
                for card, copies in cards
            ]
            for size in (1, *range(1, sum(self.copies) + 1))  # nobody draws from size 0
        ]

    @cached_property
    def scores(self) -> list[tuple[float, ...]]:
        """Returns of all seats, by the number of cards in the fireworks."""
        num_scores = len(self.copies) + 1
        return [(float(score),) * self.num_players for score in range(num_scores)]

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
        for player in self.others[seat]:
            bits = 0
            for card in state.hands[player]:
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
        """The table, all hands but the own one, hints, and the latest turns."""
        _, _, size, hands, hints, tops, discards, tokens, lives, left, _ = state
        end = "" if size else f" Turns left: {left}."
        gone_by_color, own_texts, by_card, titles = self._texts
        gone = filter(None, map(getitem, gone_by_color, discards))
        lines = [
            f"You are player_{seat}. {self._turn_text(state, seat)} Life tokens: {lives}. "
            f"Information tokens: {tokens}. Deck: {size}.{end}",
            _fireworks_text(tops),
            f"Discards: {', '.join(gone) or 'none'}.",
            "Your cards, as far as you know:",
            *map(getitem, own_texts, hints[seat]),
        ]
        others = self.others[seat]
        for player in others:
            lines.append(titles[player])
            lines += map(getitem, map(getitem, by_card, hands[player]), hints[player])
        turns = zip(others, latest(state, seat), strict=True)
        news = [
            self._news[player_of_turn][turn]
            for player_of_turn, turn in turns
            if turn is not NO_TURN
        ]
        if news:
            lines += ["Since your last turn:", *news]
        return "\n".join(lines)

    @cached_property
    def _texts(self) -> tuple[list[Any], list[Any], list[Any], list[str]]:
        """Discards by color, own and other cards by slot, titles by seat."""
        slots, seats = range(self.cards_per_hand), range(self.num_players)
        return (
            [self._discards_text[color] for color in COLORS[: self.num_colors]],
            [self._own_text[slot] for slot in slots],
            [self._card_text[slot] for slot in slots],
            [f"Cards of player_{s} (as far as player_{s} knows):" for s in seats],
        )

    @pieces
    def _discards_text(self, color: str, row: bytes) -> str:
        copies = enumerate(row, start=1)
        return ", ".join(f"{color} {rank}" for rank, num in copies for _ in range(num))

    @pieces
    def _own_text(self, slot: int, hint: int) -> str:
        """A slot, and possible colors and ranks, such as "0: red/blue, rank 1"."""
        num_colors, num_ranks = self.num_colors, self.num_ranks
        colors = [COLORS[c] for c in range(num_colors) if hint >> c & 1]
        ranks = [str(r + 1) for r in range(num_ranks) if hint >> num_colors + r & 1]
        color = "any color" if len(colors) == num_colors else "/".join(colors)
        rank = "any rank" if len(ranks) == num_ranks else f"rank {'/'.join(ranks)}"
        return f"{slot}: {color}, {rank}"

    @pieces
    def _card_text(self, slot: int, card: int, hint: int) -> str:
        _, hint_text = self._own_text[slot][hint].split(": ")
        return f"{slot}: {self._name(card)} ({hint_text})"

    def _name(self, card: int) -> str:
        color, rank = divmod(card, self.num_ranks)
        return f"{COLORS[color]} {rank + 1}"

    def _turn_text(self, state: State, seat: int) -> str:
        """The seat to move, or the score."""
        if state.player == seat:
            return "You are to move."
        if state.player == CHANCE:
            return "A card is being drawn."
        if state.player != TERMINAL:
            return f"player_{state.player} is to move."
        score = sum(state.fireworks) if state.life_tokens else 0
        return f"The game is over: the score is {score}."

    @pieces
    def _news(self, seat: int, turn: Turn) -> str:
        """A turn as the others read it."""
        played = f"player_{seat}: {self.seat_action_text(seat, turn.action)}"
        verb = self.moves[turn.action].verb
        if verb == "reveal":
            slots = list(map(str, places(turn.touched, 0)))
            cards = "card" if len(slots) == 1 else "cards"
            return f"{played} ({cards} {', '.join(slots)})"
        outcome = {"discard": "", "play": ", added" if turn.scored else ", life lost"}[
            verb
        ]
        return f"{played} ({self._name(turn.card)}{outcome})"

    def information_state(self, state: State, seat: int) -> Hashable:
        """All turns and the hands of the others, which also determine their earlier hands."""
        others = tuple(map(tuple, _put(state.hands, seat, b"")))
        return (seat, len(state.hands[seat]), others, state.history)

    def features(self, state: State, seat: int) -> Vector:
        """The knowledge of the text as numbers, seats counted from the own one."""
        player, _, size, hands, hints, tops, discards, tokens, lives, left, _ = state
        to_move = (player - seat) % self.num_players if player >= 0 else -1
        decks, infos, lives_left, turns = self._left_numbers
        seats, cards = (
            self._one_hots[self.num_players],
            self._one_hots[len(self.copies)],
        )
        numbers = [
            seats[seat],
            seats[to_move],
            decks[size],
            infos[tokens],
            lives_left[lives],
            turns[left],
            *map(self._one_hots[self.num_ranks + 1].__getitem__, tops),
            *map(self._discard_numbers.__getitem__, discards),
            *map(self._hint_numbers.__getitem__, hints[seat]),
            self._no_numbers[len(hints[seat])][0],
        ]
        for other_seat in self.others[seat]:
            no_hints, no_cards = self._no_numbers[len(hints[other_seat])]
            numbers += map(self._hint_numbers.__getitem__, hints[other_seat])
            numbers.append(no_hints)
            numbers += map(cards.__getitem__, hands[other_seat])
            numbers.append(no_cards)
        numbers += map(self._turn_numbers.__getitem__, latest(state, seat))
        return np.frombuffer(bytearray().join(numbers), np.float32)

    @cached_property
    def _no_numbers(self) -> list[tuple[bytes, bytes]]:
        """Zeros for the hints and the cards that a hand lacks, by the number of its cards."""
        sizes = 4 * (self.num_colors + self.num_ranks), 4 * len(self.copies)
        lacks = range(self.cards_per_hand, -1, -1)
        return [(bytes(sizes[0] * num), bytes(sizes[1] * num)) for num in lacks]

    @cached_property
    def _left_numbers(self) -> list[list[bytes]]:
        """Shares of the deck, of tokens of both kinds and of turns, by the number that is left."""
        tokens = (self.max_information_tokens, self.max_life_tokens)
        most = (sum(self.copies), *tokens, self.num_players)
        return [[struct.pack("f", n / (m or 1)) for n in range(m + 1)] for m in most]

    @pieces
    def _one_hots(self, size: int, index: int) -> bytes:
        return _one_hot(index, size)

    @pieces
    def _discard_numbers(self, row: bytes) -> bytes:
        pairs = zip(row, self.copies, strict=False)
        return struct.pack(f"{len(row)}f", *(num / of for num, of in pairs))

    @pieces
    def _hint_numbers(self, hint: int) -> bytes:
        return _bits(hint, self.num_colors + self.num_ranks)

    @pieces
    def _turn_numbers(self, turn: Turn) -> bytes:
        action, card, scored, touched = turn
        ones = _one_hot(action, len(self.moves)) + _one_hot(card, len(self.copies))
        return ones + _bits(scored, 1) + _bits(touched, self.cards_per_hand)

    def action_text(self, state: State, action: int) -> str:
        return self.seat_action_text(state.player, action)

    def seat_action_text(self, seat: int, action: int) -> str:
        """Canonical text of an action of a seat."""
        verb, where, bit = self.moves[action]
        if verb != "reveal":
            return f"{verb} {where}"
        value, first_rank = bit.bit_length() - 1, self.num_colors
        is_color = value < first_rank
        name = COLORS[value] if is_color else f"rank {value - first_rank + 1}"
        return f"reveal {name} to player_{(seat + where) % self.num_players}"

    def rules(self, seat: int) -> str:
        per_color = enumerate(self.copies[: self.num_ranks], start=1)
        copies = ", ".join(f"{num} of rank {rank}" for rank, num in per_color)
        colors, hint_target = COLORS[: self.num_colors], (seat + 1) % self.num_players
        return filled(
            "hanabi", self, copies=copies, colors=colors, hint_target=hint_target
        )

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

    @cached_property
    def hidden_answers(self) -> tuple[str, ...]:
        """All cards."""
        return tuple(map(self._name, range(self.num_colors * self.num_ranks)))

    def hidden(self, state: State, seat: int) -> tuple[str, str] | None:
        """Which card is in the seat's slot 0; None before all cards are dealt, or if it is empty."""
        is_dealt = len(state.hands) == self.num_players and all(state.hands)
        if not is_dealt or not state.hands[seat]:
            return None
        question = "Which card do you hold in your slot 0?"
        return question, self._name(state.hands[seat][0])

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
        size -= 1
        return State(
            player, deck, size, hands, hints, tops, discards, tokens, lives, left, past
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
        target = (seat + offset) % self.num_players
        colors = (1 << self.num_colors) - 1
        same_kind = colors if bit & colors else ~colors
        hint, touched, card_bits = list(hints[target]), 0, self.card_bits
        for slot, card in enumerate(hands[target]):
            if card_bits[card] & bit:
                hint[slot] &= bit | ~same_kind
                touched |= 1 << slot
            else:
                hint[slot] &= ~bit
        left -= not size
        player = (seat + 1) % self.num_players if left else TERMINAL
        hints = _put(hints, target, tuple(hint))
        past = (*past, Turn(action, touched=touched))
        tokens -= 1
        return State(
            player, deck, size, hands, hints, tops, discards, tokens, lives, left, past
        )


def _put(items: tuple[T, ...], index: int, item: T) -> tuple[T, ...]:
    return (*items[:index], item, *items[index + 1 :])


def _put_byte(items: bytes, index: int, item: int) -> bytes:
    return items[:index] + BYTES[item] + items[index + 1 :]


@dataclass(frozen=True)
class HanabiConvention:
    """Plays a playable card, else hints at one, else discards.

    In this order:

    1. Play a card that is playable whatever it is, by its hints and the cards in sight.
    2. Give a new hint about a playable card to the next player who holds one: first a hint
       that makes it known as playable, then one that touches the fewest cards.
    3. Discard a card that is known to be useless, else the oldest.
    4. If discarding is not allowed, give any hint; without tokens, play any card.

    Ties are broken at random. The bot knows what its seat sees: hints, fireworks, the hands
    of the others, and so the cards of the deck and its own hand together.

    Raises:
        ValueError: when it plays, the game is not Hanabi.
    """

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
        if not hasattr(game, "card_bits") or not isinstance(state, State):
            raise ValueError(f"want Hanabi, got {game!r}")
        view = _View(game, state)
        legal = game.legal_actions(state)
        for actions in (view.plays(), view.hints(), view.discards()):
            allowed = [action for action in actions if action in legal]
            if allowed:
                return rng.choice(allowed)
        verb = "reveal" if state.information_tokens else "play"
        return rng.choice([action for action in legal if view.verb(action) == verb])


class _View:
    """The view of the seat to move."""

    def __init__(self, game: Any, state: State) -> None:
        self.game = game
        self.state = state
        self.seat: int = state.player
        self.cards = range(len(game.copies))
        # the deck and the own hand together are what is not in sight
        self.unseen = list(state.deck)
        for card in state.hands[self.seat]:
            self.unseen[card] += 1

    def plays(self) -> list[int]:
        """Cards that fit for sure."""
        return [
            self._action("play", slot)
            for slot, hint in enumerate(self.state.hints[self.seat])
            if self._fits_for_sure(hint, self.unseen)
        ]

    def hints(self) -> list[int]:
        """News for the next player who holds a card that fits and may not know it."""
        if not self.state.information_tokens:
            return []
        for offset in range(1, self.game.num_players):
            if options := self._hints_for(offset):
                best = max(option[:2] for option in options)
                return sorted({action for *rank, action in options if (*rank,) == best})
        return []

    def discards(self) -> list[int]:
        """Cards that are useless for sure, else the oldest."""
        ranks = self.game.num_ranks
        return [
            self._action("discard", slot)
            for slot, hint in enumerate(self.state.hints[self.seat])
            if not any(
                self.state.fireworks[card // ranks] <= card % ranks
                for card in self._possible(hint)
            )
        ] or [self._action("discard", 0)]

    def verb(self, action: int) -> str:
        """The verb of an action: "play", "discard" or "reveal"."""
        return str(self.game.moves[action][0])

    def _hints_for(self, offset: int) -> list[tuple[bool, int, int]]:
        """Whether a card is known to fit then, minus the cards touched, and the action."""
        game, state = self.game, self.state
        target = (self.seat + offset) % game.num_players
        hand, hints = state.hands[target], state.hints[target]
        colors = (1 << game.num_colors) - 1
        options = []
        for action, (verb, where, bit) in enumerate(game.moves):
            if verb != "reveal" or where != offset:
                continue
            kind = colors if bit & colors else ~colors
            touched = sum(bool(game.card_bits[card] & bit) for card in hand)
            for card, hint in zip(hand, hints, strict=True):
                new_hint = hint & (bit | ~kind)
                is_news = game.card_bits[card] & bit and new_hint != hint
                if is_news and self._fits(card) and not self._fits_for_sure(hint):
                    options.append((self._fits_for_sure(new_hint), -touched, action))
        return options

    def _possible(self, hint: int, unseen: Sequence[int] = ()) -> list[int]:
        bits, left = self.game.card_bits, unseen or self.unseen
        return [c for c in self.cards if bits[c] & hint == bits[c] and left[c] > 0]

    def _fits_for_sure(self, hint: int, unseen: Sequence[int] = ()) -> bool:
        """Judges by the hint and, for the own cards, by the cards that are not in sight."""
        return all(map(self._fits, self._possible(hint, unseen or self.game.copies)))

    def _fits(self, card: int) -> bool:
        color, rank = divmod(card, self.game.num_ranks)
        return bool(self.state.fireworks[color] == rank)

    def _action(self, verb: str, slot: int) -> int:
        return int(self.game.moves.index((verb, slot, 0)))


MAX_ACTIONS = 8  # latest actions that are shown


def scene(game: Hanabi, state: State, viewer: int | None) -> Shapes:
    """Fireworks, tokens, hands with the known hints, discards and the latest actions."""
    ends = zip(COLORS, state.fireworks, strict=False)
    fireworks = [Card(_name(color, height), color) for color, height in ends]
    tokens = cells(
        f"{state.life_tokens} of {game.max_life_tokens}",
        f"{state.information_tokens} of {game.max_information_tokens}",
        str(state.deck_size),
    )
    hands = []
    for seat, hand in enumerate(state.hands):
        visible_cards = [None] * len(hand) if seat == viewer else hand
        cards_with_hints = zip(visible_cards, state.hints[seat], strict=True)
        cards = [_card(game, card, hint) for card, hint in cards_with_hints]
        hands.append(Cards(f"player_{seat}; below: what it knows", cards, seat))
    gone = [
        Cell(_name(color, rank + 1), color)
        for color, row in zip(COLORS, state.discards, strict=False)
        for rank, copies in enumerate(row)
        for _ in range(copies)
    ]
    return [
        Table("", ("lives", "information tokens", "deck"), [tokens]),
        Cards("fireworks", fireworks),
        *hands,
        Track("discards", gone),
        _latest(game, state),
    ]


def _card(game: Hanabi, card: int | None, hint: int) -> Card:
    colors = [i for i in range(game.num_colors) if hint >> i & 1]
    ranks = [i for i in range(game.num_ranks) if hint >> game.num_colors + i & 1]
    hint_lines = [
        "any color"
        if len(colors) == game.num_colors
        else "/".join(COLORS[color][0].upper() for color in colors)
        if len(colors) > 1
        else COLORS[colors[0]],
        "any rank"
        if len(ranks) == game.num_ranks
        else "/".join(str(rank + 1) for rank in ranks),
    ]
    note = "\n".join(hint_lines)
    if card is None:
        return Card(None, note=note)
    color, rank = divmod(card, game.num_ranks)
    return Card(_name(COLORS[color], rank + 1), COLORS[color], note)


def _name(color: str, rank: int) -> str:
    """A card in two characters, such as "R1", for those who cannot see its color."""
    return f"{color[0].upper()}{rank}"


def _latest(game: Hanabi, state: State) -> Any:
    """The latest actions, with the card that left a hand, which everybody saw."""
    first = max(0, len(state.history) - MAX_ACTIONS)
    items = []
    for number, turn in enumerate(state.history[first:], first):
        if turn == NO_TURN:
            continue
        seat = number % game.num_players
        text = game.seat_action_text(seat, turn.action)
        text += f" ({game._name(turn.card)})" if turn.card >= 0 else ""
        items.append(seat_cell(seat, text))
    return Track("latest actions", items)
