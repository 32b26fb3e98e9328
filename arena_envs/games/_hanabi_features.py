"""Parts of Hanabi: what a player knows, as numbers."""

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from arena_envs.games._hanabi_pieces import Pieces, latest
from arena_envs.games._hanabi_state import Setup, State, Turn

FLOAT32 = np.dtype(np.float32)


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

    def __call__(self, state: State, seat: int) -> NDArray[np.float32]:
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
        return np.frombuffer(bytearray(b"".join(pieces)), FLOAT32)

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
    return np.array(list(values), FLOAT32).tobytes()


def _one_hot(index: int, size: int) -> bytes:
    return _floats(i == index for i in range(size))


def _bits(number: int, size: int) -> bytes:
    return _floats(number >> i & 1 for i in range(size))


def _shares(of: int) -> list[bytes]:
    """The numbers from 0 to the largest, as shares of it."""
    return [_floats([number / max(1, of)]) for number in range(of + 1)]
