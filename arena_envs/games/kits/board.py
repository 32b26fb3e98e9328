"""Boards of squares as bits of an integer, shared by games with two kinds of pieces.

Squares are numbered row by row, and columns are lettered from "a" on. Between two rows lies
one bit that is no square, so that shifting a board by a step in any direction never brings
a piece from the end of one row to the start of another.
"""

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, TypeVar

from arena_envs.game import TERMINAL, BaseGame, Vector, np
from arena_envs.scenes.shapes import Cell

S = TypeVar("S")

MAX_ROWS = 20_000  # cached rows
EMPTY, LETTERS = Cell(), "abcdefghijklmnopqrstuvwxyz"
FLAGS = (struct.pack("f", 0), struct.pack("f", 1))


class TwoPlayerGame(BaseGame[S, int]):
    """Defaults of two-player games without chance: 1 to the winner, -1 to the loser."""

    num_players = 2
    kind = "competitive"
    information = "perfect"
    max_chance_nodes = 0
    zero_sum = True
    min_return = -1.0
    max_return = 1.0

    def current_player(self, state: Any) -> int:
        """`state.player`, unless a game says otherwise."""
        player: int = state.player
        return player


class Squares:
    """The squares of a board, with texts and features of two sets of squares.

    Attributes:
        stride: how far the bits of a square and of that in the next row are apart.
        bits: the bit of each square, by its number.
        full: the bits of all squares.
        header: the letters of the columns.
    """

    def __init__(self, rows: int, columns: int) -> None:
        self.stride = columns + 1
        self.bits = tuple(
            1 << row * self.stride + column
            for row in range(rows)
            for column in range(columns)
        )
        self.full = sum(self.bits)
        self.header = " ".join(LETTERS[:columns])
        self._columns = columns
        self._row = (1 << columns) - 1
        self._shifts = [row * self.stride for row in range(rows)]

    def row_texts(self, marks: str, first: int, second: int) -> list[str]:
        """Each row as text; the marks are of squares in `first`, `second` and neither."""
        columns, row = self._columns, self._row
        return [
            _row_text(columns, marks, first >> shift & row, second >> shift & row)
            for shift in self._shifts
        ]

    def values(self, own_pieces: int, other_pieces: int, *flags: bool) -> Vector:
        """Two numbers per square, then the flags.

        They are 1, 0 if the square is in `own_pieces`, 0, 1 if it is in `other_pieces`, else 0, 0.
        """
        columns, row = self._columns, self._row
        rows = [
            _row_values(columns, own_pieces >> shift & row, other_pieces >> shift & row)
            for shift in self._shifts
        ]
        rows += [FLAGS[flag] for flag in flags]
        return np.frombuffer(bytearray().join(rows), np.float32)


def turn_text(player: int, seat: int, returns: Sequence[float]) -> str:
    """Says to a seat whose turn it is, or how the game ended."""
    if player == seat:
        return "You are to move."
    if player != TERMINAL:
        return f"player_{player} is to move."
    own_return = returns[seat]
    result = (
        "you have won"
        if own_return > 0
        else "you have lost"
        if own_return < 0
        else "a draw"
    )
    return f"The game is over: {result}."


@lru_cache(MAX_ROWS)
def _row_text(columns: int, marks: str, first: int, second: int) -> str:
    return " ".join(
        marks[0 if first >> column & 1 else 1 if second >> column & 1 else 2]
        for column in range(columns)
    )


@lru_cache(MAX_ROWS)
def _row_values(columns: int, own_bits: int, other_bits: int) -> bytes:
    pairs = [
        (own_bits >> column & 1, other_bits >> column & 1) for column in range(columns)
    ]
    return np.array(pairs, np.float32).tobytes()


def piece_cells(
    bits: Sequence[int], first: int, second: int, pieces: tuple[Cell, Cell]
) -> list[Cell]:
    """The squares in order, with a piece where `first` or `second` has the bit."""
    return [
        pieces[0] if first & bit else pieces[1] if second & bit else EMPTY
        for bit in bits
    ]
