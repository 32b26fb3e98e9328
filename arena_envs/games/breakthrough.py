"""Breakthrough: the first piece on the other side of the board wins.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("breakthrough-v0", rows=8, columns=8)`                |
| Agents      | `player_0` has B, moves down and starts; `player_1` has W, moves up    |
| Kind        | competitive, perfect information, zero-sum                             |
| Actions     | `Discrete(12 * rows * columns)`: "b7c6", or "b7xc6" if it captures     |
| Rewards     | at the end: 1 to the winner, -1 to the loser                           |
| Length      | at most 177 turns; 64.4 on average in 5,000 random games (seed 0)      |
| Known value | player_0 wins 4 by 3 (10,689 positions), 4 by 4, 5 by 4 and 4 by 5     |
| Source      | Dan Troyka (2000)                                                      |

Each side fills the two rows nearest to it with pieces; on boards of less than six rows only
one. In turn, a player moves one piece to the next row, straight or diagonally. The square
must be empty, but a diagonal move may also capture a piece of the other side there. The first
player with a piece on the last row, or who captures all pieces of the other side, wins. A
player always has a legal action. Columns are "a" to "h" and rows count from the
bottom. Actions, seats and sizes are OpenSpiel's; its bound on the length is looser.
"""

import re
from collections.abc import Iterator, Sequence
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

LETTERS = "abcdefgh"
MOVE = re.compile(r"([a-h][1-8]) ?(?:-|(x)|to)? ?([a-h][1-8])(\*)?")

# By the bit of a piece: how far to shift a board so that its lowest three bits are the
# squares ahead; then actions by the three bits of own pieces and, times 8, of others.
Moves = dict[int, tuple[int, list[tuple[int, ...]]]]


class State(NamedTuple):
    """The pieces of each seat as bits of the grid, downwards, and the seat to move."""

    black: int
    white: int
    player: int = 0


@dataclass(frozen=True)
class Breakthrough(TwoPlayerGame[State]):
    """Breakthrough on a board of any size.

    Args:
        rows: 3 to 8; from 6 on, each side has two rows of pieces, else one.
        columns: 2 to 8.

    Raises:
        ValueError: a parameter is out of range.
    """

    seat_tones = ("dark", "light")
    rows: int = param(8, 3, 8)
    columns: int = param(8, 2, 8)

    @property
    def num_actions(self) -> int:
        return 12 * self.rows * self.columns

    @property
    def max_turns(self) -> int:
        # Before the last turn, no piece has gone further than the last row but one.
        steps = 2 * self.rows - 5 if self._num_home_rows == 2 else self.rows - 2
        return 2 * steps * self.columns + 1

    def initial_state(self) -> State:
        squares, num_pieces = self.grid.bits, self._num_home_rows * self.columns
        return State(sum(squares[:num_pieces]), sum(squares[-num_pieces:]))

    def legal_actions(self, state: State) -> Sequence[int]:
        player = state.player
        if player == TERMINAL:
            return ()
        moves, pieces = _moves(self.rows, self.columns, player), state[player]
        own_pieces, other_pieces = pieces << 1, state[1 - player] << 1
        actions: list[int] = []
        while pieces:
            piece = pieces & -pieces
            shift, by_pattern = moves[piece]
            actions += by_pattern[
                own_pieces >> shift & 7 | (other_pieces >> shift & 7) << 3
            ]
            pieces ^= piece
        return actions

    def apply(self, state: State, action: int) -> State:
        source, direction = self.grid.bits[action // 12], action // 2 % 6
        if state.player == 0:
            target = source << self.columns + direction
        else:
            target = source >> self.columns + 5 - direction
        own_pieces = state[state.player] ^ (source | target)
        other_pieces = state[1 - state.player] & ~target
        player = 1 - state.player
        if target & self._last_rows or not other_pieces:
            player = TERMINAL
        return (
            State(other_pieces, own_pieces, player)
            if state.player
            else State(own_pieces, other_pieces, player)
        )

    def returns(self, state: State) -> Sequence[float]:
        if state.player != TERMINAL:
            return (0.0, 0.0)
        bottom = self.grid.bits[-self.columns]
        return (1.0, -1.0) if state.black >= bottom or not state.white else (-1.0, 1.0)

    @property
    def known_value(self) -> str | None:
        solved = (4, 3), (4, 4), (5, 4), (4, 5)
        return "player_0 wins" if (self.rows, self.columns) in solved else None

    def observe(self, state: State, seat: int) -> str:
        rows = self.grid.row_texts("BW.", state.black, state.white)
        lines = [f"{self.rows - i} {row}" for i, row in enumerate(rows)]
        direction = ("You are B and move down.", "You are W and move up.")[seat]
        headline = f"{direction} {turn_text(state.player, seat, self.returns(state))}"
        return "\n".join([headline, f"  {self.grid.header}", *lines])

    def features(self, state: State, seat: int) -> Vector:
        """Two numbers per square, from the top: own piece, other's; then two flags.

        The flags are whether the seat moves up, and whether it is to move.
        """
        to_move = state.player == seat
        return self.grid.values(state[seat], state[1 - seat], seat == 1, to_move)

    def action_text(self, state: State, action: int) -> str:
        return _action_texts(self.rows, self.columns)[action]

    def parse(self, state: State, text: str) -> int:
        """Reads two squares, such as "b7c6", "b7-c6", "b7 to c6", "b7xc6" and "b7c6*".

        A capture need not be marked, and what is none must not be.
        """
        if match := MOVE.fullmatch(fold(text)):
            marked = match[2] or match[4]
            for action in self.legal_actions(state):
                move_text = self.action_text(state, action)
                same = (move_text[:2], move_text[-2:]) == (match[1], match[3])
                if same and (action % 2 or not marked):
                    return action
        return super().parse(state, text)

    def rules(self, seat: int) -> str:
        front, last = self.rows - (self._num_home_rows == 2), LETTERS[self.columns - 1]
        return filled("breakthrough", self, last=last, front=front, ahead=front - 1)

    @property
    def _num_home_rows(self) -> int:
        return 2 if self.rows >= 6 else 1

    @cached_property
    def grid(self) -> Squares:
        """The squares of the board."""
        return Squares(self.rows, self.columns)

    @cached_property
    def _last_rows(self) -> int:
        squares = self.grid.bits
        return sum(squares[: self.columns] + squares[-self.columns :])


@cache
def _moves(rows: int, columns: int, player: int) -> Moves:
    grid, moves = Squares(rows, columns), {}
    step = -grid.stride if player else grid.stride
    last = range(columns) if player else range((rows - 1) * columns, rows * columns)
    for square, bit in enumerate(grid.bits):
        if square not in last:
            shift = bit.bit_length() - 1 + step
            by_pattern = [
                tuple(_actions(columns, player, square, pattern & 7, pattern >> 3))
                for pattern in range(64)
            ]
            moves[bit] = (shift, by_pattern)
    return moves


def _actions(
    columns: int, player: int, square: int, own_bits: int, other_bits: int
) -> Iterator[int]:
    """Actions of a piece, by the three squares ahead: bits of own and of other pieces."""
    for side in range(3):
        on_board = 0 <= square % columns + side - 1 < columns
        captures = other_bits >> side & 1
        if on_board and not own_bits >> side & 1 and not (captures and side == 1):
            yield ((6 * square + 3 * player + side) * 2) + captures


@cache
def _action_texts(rows: int, columns: int) -> list[str]:
    names = [f"{c}{rows - row}" for row in range(rows) for c in LETTERS[:columns]]
    texts = []
    for action in range(12 * rows * columns):
        square, direction, captures = action // 12, action // 2 % 6, action % 2
        row_step = columns if direction < 3 else -columns
        target = square + row_step + direction % 3 - 1
        to = names[target] if 0 <= target < len(names) else ""  # no legal action
        texts.append(f"{names[square]}{'x' * captures}{to}")
    return texts


def scene(game: Breakthrough, state: State, viewer: int | None) -> Shapes:
    """Black pieces, which move down, and white ones, which move up."""
    discs = (Cell("B", "dark", disc=True), Cell("W", "light", disc=True))
    squares = piece_cells(game.grid.bits, state.black, state.white, discs)
    title = "player_0 has B and moves down, player_1 has W and moves up"
    board = board_grid(squares, game.columns, title)
    return [board._replace(left=board.left[::-1], checkered=True)]
