"""Scenes of games on a board that everybody sees."""

from collections.abc import Sequence
from functools import lru_cache

from arena_envs.games._grid import Grid as Squares
from arena_envs.games.breakthrough import Breakthrough
from arena_envs.games.breakthrough import State as BreakthroughState
from arena_envs.games.connect_four import ConnectFour
from arena_envs.games.connect_four import State as ConnectFourState
from arena_envs.games.hex import Hex, grid_of
from arena_envs.games.hex import State as HexState
from arena_envs.games.othello import Othello
from arena_envs.games.othello import State as OthelloState
from arena_envs.games.tic_tac_toe import LINES, TicTacToe
from arena_envs.games.tic_tac_toe import State as TicTacToeState
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import Cell, Grid, Scene

EMPTY = Cell()
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@lru_cache(64)
def _bits(rows: int, columns: int) -> tuple[int, ...]:
    return Squares(rows, columns).bits


def _rows(
    bits: Sequence[int],
    columns: int,
    first: int,
    second: int,
    pieces: tuple[Cell, Cell],
) -> list[list[Cell]]:
    """The squares row by row, with a piece where `first` or `second` has the bit."""
    cells = [
        pieces[0] if first & bit else pieces[1] if second & bit else EMPTY
        for bit in bits
    ]
    return [cells[i : i + columns] for i in range(0, len(cells), columns)]


def tic_tac_toe(game: TicTacToe, state: TicTacToeState, viewer: int | None) -> Scene:
    """Crosses and noughts, with the winning line pointed out."""
    lines = [line for line in LINES if any(m & line == line for m in state)]
    marks = [Cell("X", "seat0"), Cell("O", "seat1")]
    rows = _rows([1 << i for i in range(9)], 3, *state, (marks[0], marks[1]))
    for place in range(9):
        if any(line >> place & 1 for line in lines):
            row, column = divmod(place, 3)
            rows[row][column] = rows[row][column]._replace(mark=True)
    return Scene(turn_title(game, state, viewer), [Grid(rows, "", "123", "abc")])


def connect_four(
    game: ConnectFour, state: ConnectFourState, viewer: int | None
) -> Scene:
    """The upright board, with the lowest row at the bottom."""
    discs = (Cell("X", "seat0", disc=True), Cell("O", "seat1", disc=True))
    bits = _bits(game.rows, game.columns)
    rows = _rows(bits, game.columns, state.crosses, state.noughts, discs)
    board = Grid(rows[::-1], top=LETTERS[: game.columns])
    return Scene(turn_title(game, state, viewer), [board])


def othello(game: Othello, state: OthelloState, viewer: int | None) -> Scene:
    """Black and white discs, and how many there are."""
    discs = (Cell("B", "dark", disc=True), Cell("W", "light", disc=True))
    bits = _bits(game.size, game.size)
    rows = _rows(bits, game.size, state.black, state.white, discs)
    black, white = state.black.bit_count(), state.white.bit_count()
    title = f"player_0 has B: {black}, player_1 has W: {white}"
    numbers = [str(number) for number in range(1, game.size + 1)]
    board = Grid(rows, title, numbers, LETTERS[: game.size])
    return Scene(turn_title(game, state, viewer), [board])


def breakthrough(
    game: Breakthrough, state: BreakthroughState, viewer: int | None
) -> Scene:
    """Black pieces, which move down, and white ones, which move up."""
    discs = (Cell("B", "dark", disc=True), Cell("W", "light", disc=True))
    bits = _bits(game.rows, game.columns)
    rows = _rows(bits, game.columns, state.black, state.white, discs)
    numbers = [str(game.rows - number) for number in range(game.rows)]
    title = "player_0 has B and moves down, player_1 has W and moves up"
    board = Grid(rows, title, numbers, LETTERS[: game.columns], checkered=True)
    return Scene(turn_title(game, state, viewer), [board])


def hex_board(game: Hex, state: HexState, viewer: int | None) -> Scene:
    """Stones on rows, each shifted to the right of the row above."""
    num_rows = game.num_rows or game.board_size
    num_columns = game.num_cols or game.board_size
    stones = (Cell("x", "seat0", disc=True), Cell("o", "seat1", disc=True))
    bits = grid_of(num_rows, num_columns).bits
    rows = _rows(bits, num_columns, state.x, state.o, stones)
    numbers = [str(number) for number in range(1, num_rows + 1)]
    title = "player_0 joins top and bottom, player_1 left and right"
    board = Grid(rows, title, numbers, LETTERS[:num_columns], shift=0.5)
    return Scene(turn_title(game, state, viewer), [board])
