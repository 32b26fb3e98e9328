"""The scene of battleship."""

from arena_envs.games._battleship_board import HIT, MISS, SUNK, State
from arena_envs.games.battleship import Battleship
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import Cell, Grid, Scene

SHIPS = "ABCDE"
SHOTS = {
    MISS: Cell("o", "gone"),
    HIT: Cell("x", "red"),
    SUNK: Cell("#", "dark"),
}


def battleship(game: Battleship, state: State, viewer: int | None) -> Scene:
    """The fleets that the viewer sees, and the shots at those that it does not see."""
    boards = [
        _board(game, state, seat, shows_ships=viewer in (None, seat)) for seat in (0, 1)
    ]
    return Scene(turn_title(game, state, viewer), boards)


def _board(game: Battleship, state: State, seat: int, shows_ships: bool) -> Grid:
    """The board of a seat, with the other seat's shots."""
    ships, shots = game.ships(state, seat), state.shots[1 - seat :: 2]
    cells = [Cell()] * game.num_squares
    if shows_ships:
        for name, ship in zip(SHIPS, ships, strict=False):
            for square in game.squares[ship]:
                cells[square] = Cell(name, f"seat{seat}")
    for square, told in zip(shots, game.outcomes(ships, shots), strict=True):
        cell = SHOTS[told]
        name = cells[square].text if shows_ships and told != MISS else ""
        cells[square] = cell._replace(
            text=name if name in SHIPS and name else cell.text
        )
    width = game.board_width
    rows = [cells[i : i + width] for i in range(0, len(cells), width)]
    sunk, fired = sum(game.is_sunk(state, seat)), len(shots)
    title = f"player_{seat}: {sunk} of {len(game.ship_sizes)} ships sunk, "
    title += f"{fired} of {game.num_shots} shots received"
    numbers = [str(number) for number in range(1, game.board_height + 1)]
    return Grid(rows, title, numbers, "abcdefghij"[:width])
