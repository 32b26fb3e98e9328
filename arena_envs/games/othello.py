"""Othello (Reversi): enclose discs of the other side to turn them over.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("othello-v0", size=8)`                                |
| Agents      | `player_0` has B (black) and starts, `player_1` has W (white)          |
| Kind        | competitive, perfect information, zero-sum                             |
| Actions     | `Discrete(size**2 + 1)`: "a1", "b1", ... row by row; the last "pass"   |
| Rewards     | at the end: 1 to the winner, -1 to the loser, 0 for a draw             |
| Length      | at most 119 turns; 60.3 on average in 2,000 random games (seed 0)      |
| Known value | size 4: W wins by 8 discs. Size 8: 1,396 ways to play the first 5      |
|             | turns, 55,092 ways to play the first 7                                 |
| Source      | L. Waterman and J. W. Mollett, *Reversi* (1883); G. Hasegawa (1973)    |

The board starts with two discs of each side crosswise in the middle; white has the upper left.
In turn, a player puts a disc on an empty square so that in at least one straight line, in any
of the eight directions, one or more discs of the other side lie between it and another own
disc without a gap. All discs enclosed in this way turn over. A player without such a square
must pass; other players may not pass. When both sides lack such a square, the game is over and
the side with more discs wins. Row 1 is on top. Actions, seats and rules are OpenSpiel's, which
has size 8 only; `size` can also be 4 or 6.
"""

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from operator import lshift, rshift
from typing import Any, NamedTuple

from arena_envs.game import (
    TERMINAL,
    AnyAction,
    AnyGame,
    AnyState,
    Vector,
    filled,
)
from arena_envs.games.kits.board import (
    Squares,
    TwoPlayerGame,
    piece_cells,
    turn_text,
)
from arena_envs.scenes.shapes import Cell, Shapes, board_grid


class State(NamedTuple):
    """The discs of each seat as bits of the grid, and the seat to move.

    Attributes:
        moves: where that seat can put a disc; follows from the others.
    """

    black: int
    white: int
    player: int
    moves: int


@dataclass(frozen=True)
class Othello(TwoPlayerGame[State]):
    """Othello.

    Args:
        size: of a side of the board: 4, 6 or 8.

    Raises:
        ValueError: another size.
    """

    seat_tones = ("dark", "light")
    size: int = 8

    def __post_init__(self) -> None:
        super().__post_init__()
        if type(self.size) is not int or self.size not in (4, 6, 8):
            raise ValueError(f"want size 4, 6 or 8, got {self.size!r}")

    @property
    def num_actions(self) -> int:
        return self.size**2 + 1

    @property
    def max_turns(self) -> int:
        # Every disc but the last can be followed by a pass.
        return 2 * (self.size**2 - 4) - 1

    def initial_state(self) -> State:
        bits, middle = self.grid.bits, self.size // 2
        upper, lower = (row * self.size + middle for row in (middle - 1, middle))
        black, white = bits[upper] | bits[lower - 1], bits[upper - 1] | bits[lower]
        return State(black, white, 0, self._moves(black, white))

    def legal_actions(self, state: State) -> Sequence[int]:
        if state.player == TERMINAL:
            return ()
        moves, actions = state.moves, []
        while moves:
            square = moves & -moves
            actions.append(self._numbers[square])
            moves ^= square
        return actions or (self.size**2,)

    def apply(self, state: State, action: int) -> State:
        own_discs, other_discs = state[state.player], state[1 - state.player]
        if action < self.size**2:
            square = self.grid.bits[action]
            turned = self._turned(own_discs, other_discs, square)
            own_discs, other_discs = own_discs | square | turned, other_discs ^ turned
        player, moves = 1 - state.player, self._moves(other_discs, own_discs)
        if not moves and not self._moves(own_discs, other_discs):
            player = TERMINAL
        black, white = (
            (other_discs, own_discs) if state.player else (own_discs, other_discs)
        )
        return State(black, white, player, moves)

    def returns(self, state: State) -> Sequence[float]:
        if state.player != TERMINAL:
            return (0.0, 0.0)
        lead = state.black.bit_count() - state.white.bit_count()
        return (1.0, -1.0) if lead > 0 else (-1.0, 1.0) if lead else (0.0, 0.0)

    @property
    def known_value(self) -> str | None:
        return "W wins with 8 discs more" if self.size == 4 else None

    def observe(self, state: State, seat: int) -> str:
        turn = turn_text(state.player, seat, self.returns(state))
        black, white = state.black.bit_count(), state.white.bit_count()
        rows = self.grid.row_texts("BW.", state.black, state.white)
        return "\n".join(
            [
                f"You are {'BW'[seat]}. {turn} Discs: B {black}, W {white}.",
                f"  {self.grid.header}",
                *[f"{number} {row}" for number, row in enumerate(rows, 1)],
            ]
        )

    def features(self, state: State, seat: int) -> Vector:
        """Two numbers per square, from the top: own disc, other's; then: is to move."""
        to_move = state.player == seat
        return self.grid.values(state[seat], state[1 - seat], to_move)

    def action_text(self, state: State, action: int) -> str:
        row, column = divmod(action, self.size)
        return "pass" if row == self.size else f"{'abcdefgh'[column]}{row + 1}"

    def rules(self, seat: int) -> str:
        return filled("othello", self, letter="abcdefgh"[self.size - 1])

    @cached_property
    def grid(self) -> Squares:
        """The squares of the board."""
        return Squares(self.size, self.size)

    @cached_property
    def _numbers(self) -> dict[int, int]:
        return {bit: number for number, bit in enumerate(self.grid.bits)}

    @cached_property
    def _steps(self) -> Sequence[tuple[Callable[[int, int], int], int]]:
        stride = self.grid.stride
        return [*product((lshift, rshift), (1, stride - 1, stride, stride + 1))]

    def _moves(self, own_discs: int, other_discs: int) -> int:
        """The squares where a disc of `own_discs` would enclose some of `other_discs`."""
        ends = 0
        for shift, step in self._steps:
            run = shift(own_discs, step) & other_discs
            while run:
                run = shift(run, step)
                ends |= run
                run &= other_discs
        return ends & self.grid.full & ~(own_discs | other_discs)

    def _turned(self, own_discs: int, other_discs: int, square: int) -> int:
        """The discs of `other_discs` that a new disc of `own_discs` encloses."""
        turned = 0
        for shift, step in self._steps:
            run, end = 0, shift(square, step)
            while end & other_discs:
                run |= end
                end = shift(end, step)
            if end & own_discs:
                turned |= run
        return turned


@dataclass(frozen=True)
class OthelloGreedy:
    """Takes a corner of the board if possible, else turns over as many discs as possible.

    Ties are broken at random.

    Raises:
        ValueError: when it plays, the game is not Othello.
    """

    def __call__(self, game: AnyGame, state: AnyState, rng: random.Random) -> Any:
        size = getattr(game, "size", None)
        if size is None or not hasattr(state, "black"):
            raise ValueError(f"want Othello, got {game!r}")
        last = size - 1
        corners = {0, last, size * last, size * size - 1}
        player = game.current_player(state)

        def worth(action: AnyAction) -> tuple[bool, int]:
            return action in corners, game.apply(state, action)[player].bit_count()

        legal = game.legal_actions(state)
        best = max(map(worth, legal))
        return rng.choice([action for action in legal if worth(action) == best])


def scene(game: Othello, state: State, viewer: int | None) -> Shapes:
    """Black and white discs, and how many there are."""
    discs = (Cell("B", "dark", disc=True), Cell("W", "light", disc=True))
    black, white = state.black.bit_count(), state.white.bit_count()
    title = f"player_0 has B: {black}, player_1 has W: {white}"
    squares = piece_cells(game.grid.bits, state.black, state.white, discs)
    return [board_grid(squares, game.size, title)]
