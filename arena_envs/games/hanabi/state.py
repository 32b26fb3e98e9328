"""States of Hanabi, its parameters, and numbers computed from them."""

from collections.abc import Callable
from dataclasses import dataclass, fields
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

from arena_envs.game import BaseGame, check_int, param

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


@dataclass(frozen=True)
class Setup(BaseGame[State, int]):
    """The parameters of `Hanabi`."""

    num_players: int = param(2, 2, 5)
    num_colors: int = param(5, 1, len(COLORS))
    num_ranks: int = param(5, 1, 5, knob=(1, 2, 3, 4, 5))
    hand_size: int | None = None
    max_information_tokens: int = param(8, 0, 100)
    max_life_tokens: int = param(3, 1, 100)

    def __post_init__(self) -> None:
        super().__post_init__()
        check_int("hand_size", self.cards_per_hand, 1, 10)
        wanted, size = self.num_players * self.cards_per_hand, sum(self.copies)
        if wanted > size:
            raise ValueError(
                f"num_players {self.num_players} with hand_size {self.cards_per_hand} want "
                f"{wanted} cards; num_colors {self.num_colors} with num_ranks "
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
