"""Parts of Hanabi: a cache of parts of texts and features that many states share."""

from collections.abc import Callable
from functools import lru_cache
from typing import TypeVar

from arena_envs.games._hanabi_state import NO_TURN, State, Turn

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
    """What the other seats, from the next one on, did since this seat's last turn."""
    num_players, history = len(state.hands), state.history
    first = len(history) - (len(history) - 1 - seat) % num_players
    turns = history[first:] if first >= 0 else (NO_TURN,) * -first + history
    return turns + (NO_TURN,) * (num_players - 1 - len(turns))
