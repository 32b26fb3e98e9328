"""Hex: connect two opposite sides of a rhombus of hexagons.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("hex-v0", board_size=11, swap=False)`                 |
| Agents      | `player_0` is x, starts and joins top and bottom; `player_1` is o      |
| Kind        | competitive, perfect information, zero-sum                             |
| Actions     | `Discrete(121)`: cells "a1", "b1" to "k11", row by row; then "swap"    |
| Rewards     | at the end: 1 to the winner, -1 to the loser                           |
| Length      | 21 to 121 turns on the board of 11 by 11, without swap                 |
| Known value | `player_0` wins on every square board (with swap: `player_1`)          |
| Source      | P. Hein (1942), J. Nash (1948)                                         |

In turn, the players put one stone on an empty cell. A cell touches the two beside it in its
row, the one above and the one above to the right, the one below and the one below to the
left. `player_0` wins by a chain of touching x from the top row to the bottom row,
`player_1` by a chain of o from the leftmost to the rightmost column. A full board always
has exactly one such chain, so nobody can draw.

The winning first moves, found by search, are b1 and a2 on the board of 2 by 2; c1, a2, b2, c2
and a3 on 3 by 3; d1, c2, b3 and a4 on 4 by 4. On boards of 2 by 3 and 3 by 4 cells the player
with the shorter distance between its sides wins, also as second player.

`num_rows` and `num_cols` make boards that are not square; both default to `board_size`.
With `swap`, `player_1` may answer the first stone with "swap", the last action: it becomes
an o on the cell mirrored at the long diagonal (b1 becomes a2), and `player_0` is to move.

Actions, seats and parameters are OpenSpiel's, with two differences. OpenSpiel also allows `swap`
on boards that are not square; there a stone without a mirrored cell vanishes. It also has boards
of one row or column, on which the first stone does not win; these are not offered here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import product
from string import ascii_lowercase
from typing import NamedTuple

from arena_envs.game import (
    TERMINAL,
    IllegalAction,
    Vector,
    filled,
    fold,
    np,
    param,
)
from arena_envs.games.kits.board import Squares, TwoPlayerGame, piece_cells, turn_text
from arena_envs.scenes.shapes import Cell, Shapes, board_grid

MIN_SIZE, MAX_SIZE = 2, 26  # columns have letters
SIDES = ("top and bottom", "left and right")


class State(NamedTuple):
    """The stones of each seat as bits of a `Grid`; who has won, if anybody has."""

    x: int = 0
    o: int = 0
    swapped: bool = False
    winner: int | None = None


class Cells(Squares):
    """The cells of a board.

    Attributes:
        names: actions by name, in order.
        sides: the cells of both sides of each seat.
    """

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__(rows, columns)
        places = product(range(1, rows + 1), ascii_lowercase[:columns])
        self.names = {f"{col}{row}": i for i, (row, col) in enumerate(places)}
        ends = (self.bits[:columns], self.bits[-columns:])
        edges = (self.bits[::columns], self.bits[columns - 1 :: columns])
        self.sides = [list(map(sum, pair)) for pair in (ends, edges)]


grid_of = cache(Cells)


def group(stone: int, stones: int, stride: int) -> int:
    """All stones that are connected with this one."""
    diagonal, grown = stride - 1, 0
    while grown != stone:
        grown = stone
        stone |= stone << 1 | stone >> 1 | stone << stride | stone >> stride
        stone |= grown << diagonal | grown >> diagonal
        stone &= stones
    return stone


@dataclass(frozen=True)
class Hex(TwoPlayerGame[State]):
    """Hex.

    Args:
        board_size: rows and columns of the board, 2 to 26.
        num_rows: rows, if not `board_size`.
        num_cols: columns, if not `board_size`.
        swap: whether `player_1` may take over the first stone.

    Raises:
        ValueError: a parameter out of range, or `swap` on a board that is not square.
    """

    board_size: int = param(11, MIN_SIZE, MAX_SIZE)
    num_rows: int | None = param(None, MIN_SIZE, MAX_SIZE)
    num_cols: int | None = param(None, MIN_SIZE, MAX_SIZE)
    swap: bool = False

    first_state = State()

    def __post_init__(self) -> None:
        super().__post_init__()
        rows, cols = self._shape
        if self.swap and rows != cols:
            raise ValueError(f"want a square board for swap, got {rows} by {cols}")

    @property
    def num_actions(self) -> int:
        return len(self._grid.bits) + self.swap

    @property
    def max_turns(self) -> int:
        return len(self._grid.bits) + self.swap

    def current_player(self, state: State) -> int:
        if state.winner is not None:
            return TERMINAL
        return ((state.x | state.o).bit_count() + state.swapped) & 1

    def legal_actions(self, state: State) -> Sequence[int]:
        if state.winner is not None:
            return ()
        bits, filled = self._grid.bits, state.x | state.o
        legal = [action for action, bit in enumerate(bits) if not filled & bit]
        if self._may_swap(state):
            legal.append(len(bits))
        return legal

    def apply(self, state: State, action: int) -> State:
        grid = self._grid
        if action == len(grid.bits):
            cells, (_, cols) = grid.bits, self._shape
            row, col = divmod(cells.index(state.x), cols)
            return State(0, cells[col * cols + row], swapped=True)
        seat, stone = self.current_player(state), grid.bits[action]
        stones = (state.o if seat else state.x) | stone
        chain = group(stone, stones, grid.stride)
        start, end = grid.sides[seat]
        winner = seat if chain & start and chain & end else None
        if seat:
            return State(state.x, stones, state.swapped, winner)
        return State(stones, state.o, state.swapped, winner)

    def returns(self, state: State) -> Sequence[float]:
        if state.winner is None:
            return (0.0, 0.0)
        return (-1.0, 1.0) if state.winner else (1.0, -1.0)

    @property
    def known_value(self) -> str | None:
        rows, cols = self._shape
        if rows != cols:
            return None
        return f"player_{int(self.swap)} wins"

    def observe(self, state: State, seat: int) -> str:
        if state.winner is not None:
            turn = f"{'xo'[state.winner]} has won."
        else:
            turn = turn_text(self.current_player(state), seat, ())
        swapped = " player_1 has swapped." if state.swapped else ""
        lines = [f"You are {'xo'[seat]} and join {SIDES[seat]}.{swapped}"]
        width = len(str(self._shape[0]))
        lines.append(f"{'':{width}} {self._grid.header}")
        for row, marks in enumerate(self._grid.row_texts("xo.", state.x, state.o)):
            lines.append(" " * row + f"{row + 1:>{width}} {marks}")
        return "\n".join([*lines, turn])

    def features(self, state: State, seat: int) -> Vector:
        """Planes of own and of other stones; being o, being to move, `player_1` swapped."""
        bits = self._grid.bits
        own_stones, other_stones = (state.x, state.o)[:: -1 if seat else 1]
        values = np.zeros(2 * len(bits) + 3, np.float32)
        values[: len(bits)] = [own_stones & bit != 0 for bit in bits]
        values[len(bits) : -3] = [other_stones & bit != 0 for bit in bits]
        values[-3:] = (seat, self.current_player(state) == seat, state.swapped)
        return values

    def action_text(self, state: State, action: int) -> str:
        rows, cols = self._shape
        if action == rows * cols:
            return "swap"
        return f"{chr(97 + action % cols)}{action // cols + 1}"

    def parse(self, state: State, text: str) -> int:
        if (name := fold(text)) == "swap" and self._may_swap(state):
            return len(self._grid.bits)
        action = self._grid.names.get(name)
        if state.winner is None and action is not None:
            if not (state.x | state.o) & self._grid.bits[action]:
                return action
            raise IllegalAction(f"want an empty cell, got {name}, which has a stone")
        raise IllegalAction(f"want an empty cell such as 'a1', got {text[:80]!r}")

    def rules(self, seat: int) -> str:
        rows, cols = self._shape
        return filled("hex", self, cols=cols, rows=rows)

    @property
    def _shape(self) -> tuple[int, int]:
        return self.num_rows or self.board_size, self.num_cols or self.board_size

    @property
    def _grid(self) -> Cells:
        return grid_of(*self._shape)

    def _may_swap(self, state: State) -> bool:
        return self.swap and not state.o and state.x.bit_count() == 1


def scene(game: Hex, state: State, viewer: int | None) -> Shapes:
    """Stones on rows, each shifted to the right of the row above."""
    stones = (Cell("x", "seat0", disc=True), Cell("o", "seat1", disc=True))
    squares = piece_cells(game._grid.bits, state.x, state.o, stones)
    title = "player_0 joins top and bottom, player_1 left and right"
    return [board_grid(squares, game._shape[1], title)._replace(shift=0.5)]
