"""Dots and boxes: the player who draws the fourth side of a box owns it and draws again.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("dots_and_boxes-v0", num_rows=2, num_cols=2)`         |
| Agents      | `player_0`, who starts, and `player_1`                                 |
| Kind        | competitive, perfect information, zero-sum                             |
| Actions     | `Discrete(12)`: lines "a1-b1", first the horizontal, then the vertical |
| Rewards     | at the end: 1 for more boxes, -1 for fewer, 0 for a draw               |
| Length      | always 12 turns: the number of lines                                   |
| Known value | `player_0` wins by 3 to 1; random play: 42.0 % wins of each, see below |
| Source      | E. Lucas, *La Pipopipette* (1889)                                      |

There are `num_rows` by `num_cols` boxes (1 to 9 each) between dots, which are named by column
and row. In turn, the players draw a line between two neighbouring dots. A player who draws the
last missing side of one or two boxes owns them and draws another line; else the other player is
to move. When all lines are drawn, the player with more boxes wins. With `utility_margin=True`
the return is the number of own boxes minus the number of the other seat's boxes.

There are 5,559 states. In random play `player_0` wins .420491, `player_1` wins .420645, and
.158865 are draws. With best play `player_0` ends with 2 boxes more than `player_1` on 2 by 2
boxes, with 2 fewer on 2 by 3, and with 1 fewer on 1 by 1 and on 1 by 3; 1 by 2 is a draw (found
by search).

Actions, seats and parameters are OpenSpiel's.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
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
from arena_envs.games.kits.board import TwoPlayerGame, piece_cells, turn_text
from arena_envs.scenes.shapes import Cell, Grid, Shapes, cut, seat_cell

MAX_SIZE = 9
LINE = re.compile(r"([a-j][0-9]{1,2}) ?(?:-|to)? ?([a-j][0-9]{1,2})")


class State(NamedTuple):
    """Lines that are drawn and boxes of each seat, as bits; whose turn is next."""

    lines: int = 0
    boxes: tuple[int, int] = (0, 0)
    seat: int = 0


class Lines(NamedTuple):
    """The lines of a board by action."""

    names: tuple[str, ...]
    actions: dict[frozenset[str], int]  # by the two dots
    sides: tuple[int, ...]  # bits of the lines around each box
    beside: tuple[tuple[int, ...], ...]  # the boxes on either side of a line


@cache
def grid_of(num_rows: int, num_cols: int) -> Lines:
    """The grid of a board with so many boxes."""
    rows, cols = range(num_rows), range(num_cols)
    ends = [((r, c), (r, c + 1)) for r in range(num_rows + 1) for c in cols]
    ends += [((r, c), (r + 1, c)) for r in rows for c in range(num_cols + 1)]
    around = [
        [
            ends.index(((r, c), (r, c + 1))),
            ends.index(((r + 1, c), (r + 1, c + 1))),
            ends.index(((r, c), (r + 1, c))),
            ends.index(((r, c + 1), (r + 1, c + 1))),
        ]
        for r in rows
        for c in cols
    ]
    dots = [tuple(f"{chr(97 + c)}{r + 1}" for r, c in line) for line in ends]
    return Lines(
        names=tuple("-".join(pair) for pair in dots),
        actions={frozenset(pair): action for action, pair in enumerate(dots)},
        sides=tuple(sum(1 << line for line in lines) for lines in around),
        beside=tuple(
            tuple(box for box, lines in enumerate(around) if line in lines)
            for line in range(len(ends))
        ),
    )


@dataclass(frozen=True)
class DotsAndBoxes(TwoPlayerGame[State]):
    """Dots and boxes.

    Args:
        num_rows: rows of boxes, 1 to 9.
        num_cols: columns of boxes, 1 to 9.
        utility_margin: whether the return is the difference in boxes.

    Raises:
        ValueError: a parameter out of range.
    """

    num_rows: int = param(2, 1, MAX_SIZE)
    num_cols: int = param(2, 1, MAX_SIZE)
    utility_margin: bool = False

    first_state = State()
    default_value = "player_0 wins by 3 to 1; random play: 42.0 % wins of each"

    @property
    def num_actions(self) -> int:
        return len(self._grid.names)

    @property
    def max_turns(self) -> int:
        return self.num_actions

    @property
    def max_return(self) -> float:  # type: ignore[override]  # depends on a parameter
        return float(self.num_rows * self.num_cols) if self.utility_margin else 1.0

    @property
    def min_return(self) -> float:  # type: ignore[override]  # depends on a parameter
        return -self.max_return

    def current_player(self, state: State) -> int:
        return TERMINAL if self._is_full(state) else state.seat

    def legal_actions(self, state: State) -> Sequence[int]:
        lines = state.lines
        return [line for line in range(self.num_actions) if not lines >> line & 1]

    def apply(self, state: State, action: int) -> State:
        grid, lines = self._grid, state.lines | 1 << action
        closed = 0
        for box in grid.beside[action]:
            if lines & grid.sides[box] == grid.sides[box]:
                closed |= 1 << box
        if not closed:
            return State(lines, state.boxes, 1 - state.seat)
        first, second = state.boxes
        boxes = (first, second | closed) if state.seat else (first | closed, second)
        return State(lines, boxes, state.seat)

    def returns(self, state: State) -> Sequence[float]:
        if not self._is_full(state):
            return (0.0, 0.0)
        first, second = (boxes.bit_count() for boxes in state.boxes)
        margin = float(first - second)
        if not self.utility_margin:
            margin = float((first > second) - (first < second))
        return (margin, 0.0 - margin)

    def observe(self, state: State, seat: int) -> str:
        own_boxes, other_boxes = (state.boxes[s].bit_count() for s in (seat, 1 - seat))
        head = f"You are player_{seat}. Boxes: you {own_boxes}, player_{1 - seat} {other_boxes}."
        turn = turn_text(self.current_player(state), seat, self.returns(state))
        return "\n".join([head, *self._drawing(state), turn])

    def features(self, state: State, seat: int) -> Vector:
        """Lines drawn, own boxes, boxes of the other seat; whether the next turn is own."""
        boxes = range(self.num_rows * self.num_cols)
        own_boxes, other_boxes = state.boxes[seat], state.boxes[1 - seat]
        bits = [state.lines >> line & 1 for line in range(self.num_actions)]
        bits += [own_boxes >> box & 1 for box in boxes] + [
            other_boxes >> box & 1 for box in boxes
        ]
        return np.array([*bits, state.seat == seat], np.float32)

    def action_text(self, state: State, action: int) -> str:
        return self._grid.names[action]

    def parse(self, state: State, text: str) -> int:
        """Reads the two dots in either order: "a1-b1", "b1-a1", "a1 to b1", "a1b1"."""
        match = LINE.fullmatch(fold(text))
        action = self._grid.actions.get(frozenset(match.groups())) if match else None
        if action is None:
            raise IllegalAction(
                f"want a line between neighbouring dots such as 'a1-b1', "
                f"got {text[:80]!r}"
            )
        if state.lines >> action & 1:
            raise IllegalAction(
                f"want a line that is not drawn yet, got {self._grid.names[action]}"
            )
        return action

    def rules(self, seat: int) -> str:
        last = f"{chr(97 + self.num_cols)}{self.num_rows + 1}"
        return filled("dots_and_boxes", self, last=last)

    @property
    def _grid(self) -> Lines:
        return grid_of(self.num_rows, self.num_cols)

    def _is_full(self, state: State) -> bool:
        return state.lines == (1 << self.num_actions) - 1

    def _drawing(self, state: State) -> list[str]:
        cols, width = self.num_cols, len(str(self.num_rows + 1))
        letters = "   ".join(chr(97 + col) for col in range(cols + 1))
        line_bits = [state.lines >> line & 1 for line in range(self.num_actions)]
        verticals = line_bits[(self.num_rows + 1) * cols :]
        picture = [f"{'':{width}} {letters}"]
        for row in range(self.num_rows + 1):
            horizontals = line_bits[row * cols : (row + 1) * cols]
            dots = "+" + "".join("---+" if line else "   +" for line in horizontals)
            picture.append(f"{row + 1:>{width}} {dots}")
            if row < self.num_rows:
                sides = verticals[row * (cols + 1) : (row + 1) * (cols + 1)]
                inside = [self._owner(state, row * cols + col) for col in range(cols)]
                cells = zip(sides, [*inside, ""], strict=True)
                line = "".join(
                    f"{'|' if side else ' '} {mark} " for side, mark in cells
                )
                picture.append(f"{'':{width}} {line}".rstrip())
        return picture

    def _owner(self, state: State, box: int) -> str:
        first, second = state.boxes
        return "0" if first >> box & 1 else "1" if second >> box & 1 else " "


def scene(game: DotsAndBoxes, state: State, viewer: int | None) -> Shapes:
    """Dots, the lines that are drawn, and who owns which box."""
    num_rows, num_columns = game.num_rows, game.num_cols
    num_lines = len(grid_of(num_rows, num_columns).names)
    line_cells = [
        Cell(tone="dark") if state.lines >> i & 1 else Cell() for i in range(num_lines)
    ]
    first, second = state.boxes
    owners = (seat_cell(0, "0"), seat_cell(1, "1"))
    bits = [1 << box for box in range(num_rows * num_columns)]
    num_lying = (num_rows + 1) * num_columns
    lying = cut(line_cells[:num_lying], num_columns)
    upright = cut(line_cells[num_lying:], num_columns + 1)
    boxes = cut(piece_cells(bits, first, second, owners), num_columns)
    rows = [
        [Cell(tone="gone")] * (2 * num_columns + 1) for _ in range(2 * num_rows + 1)
    ]
    for row, line in enumerate(lying):
        rows[2 * row][1::2] = line
    for row, (line, owned) in enumerate(zip(upright, boxes, strict=True)):
        rows[2 * row + 1][::2], rows[2 * row + 1][1::2] = line, owned
    left = [str(i // 2 + 1) if i % 2 == 0 else "" for i in range(len(rows))]
    top = [chr(97 + i // 2) if i % 2 == 0 else "" for i in range(len(rows[0]))]
    title = f"boxes: player_0 {first.bit_count()}, player_1 {second.bit_count()}"
    return [Grid(rows, title, left, top, narrow=True)]
