"""Connect Four: four in a row on an upright board where discs fall down.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("connect_four-v0", rows=6, columns=7, x_in_row=4)`    |
| Agents      | `player_0` has X and starts, `player_1` has O                          |
| Kind        | competitive, perfect information, zero-sum                             |
| Actions     | `Discrete(columns)`: the columns "a", "b", ... from left to right      |
| Rewards     | at the end: 1 to the winner, -1 to the loser, 0 for a draw             |
| Length      | 7 to 42 turns; 21.3 on average in 10,000 random games (seed 0)         |
| Known value | 4 by 4: a draw, 161,029 positions; random play: X wins .559, O .439    |
| Source      | Howard Wexler and Ned Strongin (1974)                                  |

The players drop one disc in turn into a column that is not full; it falls to the lowest
empty square. The first player with `x_in_row` own discs in a row, a column or a diagonal wins;
a full board without such a line is a draw. The numbers of turns and of random play hold for the
default board. With perfect play its first player wins (James Allen and Victor Allis, 1988).
Actions and seats are OpenSpiel's. OpenSpiel numbers the columns from 0; here they have letters,
which do not depend on where counting starts.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import NamedTuple

from arena_envs.game import TERMINAL, Vector, filled, fold, param
from arena_envs.games.kits.board import (
    Squares,
    TwoPlayerGame,
    piece_cells,
    turn_text,
)
from arena_envs.scenes.shapes import Cell, Shapes, board_grid

COUNTS = ["three", "four", "five", "six", "seven", "eight", "nine", "ten"]


class State(NamedTuple):
    """The discs of each seat as bits of the grid, upwards, and the seat to move."""

    crosses: int = 0
    noughts: int = 0
    player: int = 0


@dataclass(frozen=True)
class ConnectFour(TwoPlayerGame[State]):
    """Connect Four on a board of any size.

    Args:
        rows: 3 to 10.
        columns: 3 to 10.
        x_in_row: how many in a row win, from 3 to the longer side of the board.

    Raises:
        ValueError: a parameter is out of range.
    """

    rows: int = param(6, 3, 10)
    columns: int = param(7, 3, 10)
    x_in_row: int = param(4, 3, lambda game: max(game.rows, game.columns))

    first_state = State()

    @property
    def num_actions(self) -> int:
        return self.columns

    @property
    def max_turns(self) -> int:
        return self.rows * self.columns

    def legal_actions(self, state: State) -> Sequence[int]:
        if state.player == TERMINAL:
            return ()
        discs = state.crosses | state.noughts
        return _open_columns(self.columns, discs >> self._top_row)

    def apply(self, state: State, action: int) -> State:
        crosses, noughts, player = state
        height = ((crosses | noughts) & self._column_bits[action]).bit_count()
        disc = self.grid.bits[height * self.columns + action]
        if player:
            noughts |= disc
        else:
            crosses |= disc
        full = crosses | noughts == self.grid.full
        if full or self._has_line(noughts if player else crosses):
            return State(crosses, noughts, TERMINAL)
        return State(crosses, noughts, 1 - player)

    def returns(self, state: State) -> Sequence[float]:
        if state.player == TERMINAL:
            if self._has_line(state.crosses):
                return (1.0, -1.0)
            if self._has_line(state.noughts):
                return (-1.0, 1.0)
        return (0.0, 0.0)

    @property
    def known_value(self) -> str | None:
        if (self.rows, self.columns, self.x_in_row) == (4, 4, 4):
            return "a draw"
        return "random play: X wins .559, O .439" if self == type(self)() else None

    def observe(self, state: State, seat: int) -> str:
        rows = self.grid.row_texts("XO.", state.crosses, state.noughts)
        turn = turn_text(state.player, seat, self.returns(state))
        rows += [self.grid.header, f"You are {'XO'[seat]}. {turn}"]
        return "\n".join(reversed(rows))

    def features(self, state: State, seat: int) -> Vector:
        """Two numbers per square, from the lowest row up: own disc, other's disc."""
        return self.grid.values(state[seat], state[1 - seat])

    def action_text(self, state: State, action: int) -> str:
        return "abcdefghij"[action]

    def parse(self, state: State, text: str) -> int:
        """Reads "d", "column d" and "col d"."""
        return super().parse(state, re.sub(r"^(column|col) (?=.$)", "", fold(text)))

    def rules(self, seat: int) -> str:
        last, row_length = "abcdefghij"[self.columns - 1], COUNTS[self.x_in_row - 3]
        return filled("connect_four", self, last=last, row_length=row_length)

    @cached_property
    def grid(self) -> Squares:
        """The squares of the board."""
        return Squares(self.rows, self.columns)

    @cached_property
    def _top_row(self) -> int:
        return (self.rows - 1) * self.grid.stride

    @cached_property
    def _column_bits(self) -> list[int]:
        bits = self.grid.bits
        return [sum(bits[column :: self.columns]) for column in range(self.columns)]

    @cached_property
    def _line_shifts(self) -> list[list[int]]:
        """The shifts after which a bit stands for a whole line, by direction."""
        shifts, length = [], 1
        while length < self.x_in_row:
            shifts.append(min(length, self.x_in_row - length))
            length += shifts[-1]
        stride = self.grid.stride
        directions = (1, stride - 1, stride, stride + 1)
        return [[step * shift for shift in shifts] for step in directions]

    def _has_line(self, discs: int) -> bool:
        for shifts in self._line_shifts:
            starts = discs
            for shift in shifts:
                starts &= starts >> shift
            if starts:
                return True
        return False


@cache
def _open_columns(columns: int, top_row: int) -> tuple[int, ...]:
    return tuple(column for column in range(columns) if not top_row >> column & 1)


def scene(game: ConnectFour, state: State, viewer: int | None) -> Shapes:
    """The upright board, with the lowest row at the bottom."""
    discs = (Cell("X", "seat0", disc=True), Cell("O", "seat1", disc=True))
    squares = piece_cells(game.grid.bits, state.crosses, state.noughts, discs)
    return [board_grid(squares, game.columns, upwards=True)._replace(left=())]
