"""The scene of chess."""

from arena_envs.games.chess import Chess, State
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import Cell, Grid, Scene, Table

PIECES = "PNBRQK"  # in the order of the fields of a position


def chess_board(game: Chess, state: State, viewer: int | None) -> Scene:
    """The board from White's side, with the letters of the pieces."""
    position = state.position
    kinds = list(zip(PIECES, position[:6], strict=True))

    def cell(square: int) -> Cell:
        bit = 1 << square
        for letter, places in kinds:
            if places & bit:
                tone = "light" if position.white & bit else "dark"
                return Cell(letter, tone, disc=True)
        return Cell()

    rows = [[cell(8 * row + column) for column in range(8)] for row in range(7, -1, -1)]
    title = "player_0 has White, player_1 has Black"
    board = Grid(rows, title, "87654321", "abcdefgh", checkered=True)
    facts = [
        [Cell("turns"), Cell(f"{state.num_turns} of {game.max_plies}")],
        [Cell("turns without capture or pawn"), Cell(str(state.clock))],
    ]
    if state.ending:
        facts.append([Cell("end"), Cell(state.ending)])
    table = Table("", (), facts)
    return Scene(turn_title(game, state, viewer), [board, table])
