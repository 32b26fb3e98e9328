"""Tic-tac-toe: three in a row on a board of three by three.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("tic_tac_toe-v0", draw_return=0.0)`                   |
| Agents      | `player_0` is X and starts, `player_1` is O                            |
| Kind        | competitive, perfect information, zero-sum if `draw_return` is 0       |
| Actions     | `Discrete(9)`: the squares "a1", "b1", "c1", "a2" to "c3", row by row  |
| Rewards     | at the end: 1 to the winner, -1 to the loser, `draw_return` for a draw |
| Length      | 5 to 9 turns; 7.626190 on average in random play                       |
| Known value | a draw; random play: X wins .584921, O wins .288095, draw .126984      |
| Source      | traditional; `draw_return=0.1` is MARSHAL's reward for a draw          |

The players mark one empty square in turn. The first player with three own marks in a row, a
column or a diagonal wins; a full board without such a line is a draw. Actions and seats are
OpenSpiel's.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from arena_envs.game import TERMINAL, Vector, filled, np, param
from arena_envs.games.kits.board import TwoPlayerGame, piece_cells, turn_text
from arena_envs.scenes.shapes import Cell, Shapes, board_grid

SQUARES = tuple(column + row for row in "123" for column in "abc")
FULL = 2**9 - 1
LINES = (0o007, 0o070, 0o700, 0o111, 0o222, 0o444, 0o124, 0o421)

# By the bits of one seat's squares: whether it has won; of all marks: what is empty.
WON = tuple(any(marks & line == line for line in LINES) for marks in range(FULL + 1))
EMPTY = tuple(
    tuple(square for square in range(9) if not marks >> square & 1)
    for marks in range(FULL + 1)
)


class State(NamedTuple):
    """The squares of each seat; bit i is the square of action i."""

    crosses: int = 0
    noughts: int = 0


@dataclass(frozen=True)
class TicTacToe(TwoPlayerGame[State]):
    """Tic-tac-toe; a draw pays `draw_return` to both seats."""

    draw_return: float = param(0.0, -1, 1)

    first_state = State()
    num_actions = 9
    max_turns = 9
    default_value = "a draw; random play: X wins .584921, O .288095"

    @property
    def zero_sum(self) -> bool:  # type: ignore[override]  # depends on a parameter
        return self.draw_return == 0

    def current_player(self, state: State) -> int:
        crosses, noughts = state
        filled = crosses | noughts
        if filled == FULL or WON[crosses] or WON[noughts]:
            return TERMINAL
        return filled.bit_count() & 1

    def legal_actions(self, state: State) -> Sequence[int]:
        crosses, noughts = state
        if WON[crosses] or WON[noughts]:
            return ()
        return EMPTY[crosses | noughts]

    def apply(self, state: State, action: int) -> State:
        crosses, noughts = state
        if (crosses | noughts).bit_count() & 1:
            return State(crosses, noughts | 1 << action)
        return State(crosses | 1 << action, noughts)

    def returns(self, state: State) -> Sequence[float]:
        crosses, noughts = state
        if WON[crosses]:
            return (1.0, -1.0)
        if WON[noughts]:
            return (-1.0, 1.0)
        if crosses | noughts == FULL:
            return (float(self.draw_return),) * 2
        return (0.0, 0.0)

    def observe(self, state: State, seat: int) -> str:
        pairs = [(state.crosses >> n & 1, state.noughts >> n & 1) for n in range(9)]
        marks = ["XO"[nought] if cross | nought else "." for cross, nought in pairs]
        rows = [f"{n // 3 + 1} {' '.join(marks[n : n + 3])}" for n in (0, 3, 6)]
        won = float(WON[state.crosses]) - float(WON[state.noughts])
        turn = turn_text(self.current_player(state), seat, (won, -won))
        return "\n".join([f"You are {'XO'[seat]}. {turn}", "  a b c", *rows])

    def features(self, state: State, seat: int) -> Vector:
        """Three planes of nine squares: own marks, marks of the other seat, empty."""
        values = np.zeros(27, np.float32)
        for square in range(9):
            is_own, is_other = state[seat] >> square & 1, state[1 - seat] >> square & 1
            values[square + (0 if is_own else 9 if is_other else 18)] = 1
        return values

    def action_text(self, state: State, action: int) -> str:
        return SQUARES[action]

    def rules(self, seat: int) -> str:
        return filled("tic_tac_toe", self)


def scene(game: TicTacToe, state: State, viewer: int | None) -> Shapes:
    """Crosses and noughts, with the winning line pointed out."""
    won = [line for line in LINES if any(m & line == line for m in state)]
    bits = [1 << place for place in range(9)]
    squares = piece_cells(bits, *state, (Cell("X", "seat0"), Cell("O", "seat1")))
    marked = [
        cell._replace(mark=any(line & bit for line in won))
        for cell, bit in zip(squares, bits, strict=True)
    ]
    return [board_grid(marked, 3)]
