"""Scenes of games in which one player walks on a map."""

from arena_envs.games.frozen_lake import NAMES, FrozenLake
from arena_envs.games.frozen_lake import State as LakeState
from arena_envs.games.sokoban import Sokoban
from arena_envs.games.sokoban import State as SokobanState
from arena_envs.scenes.registry import turn_title
from arena_envs.scenes.shapes import Cell, Grid, Scene, Track

LAKE = {
    "S": Cell("start", "light"),
    "F": Cell("", "light"),
    "H": Cell("hole", "dark"),
    "G": Cell("goal", "green"),
}
ROOM = {
    "#": Cell("", "dark"),
    "_": Cell(),
    ".": Cell("goal", "green"),
    "$": Cell("box", "yellow"),
    "*": Cell("box", "green", mark=True),
    "@": Cell("P0", "seat0"),
    "+": Cell("P0", "seat0", mark=True),
}


def frozen_lake(game: FrozenLake, state: LakeState, viewer: int | None) -> Scene:
    """The map and the player on it."""
    title, lake = turn_title(game, state, viewer), game.lake(state)
    if state.map < 0:
        return Scene(title, [Track("the map is being drawn", [])])
    cells = [LAKE[kind] for kind in lake.cells]
    cells[state.cell] = cells[state.cell]._replace(text="P0", mark=True)
    width = lake.num_columns
    rows = [cells[i : i + width] for i in range(0, len(cells), width)]
    told = f"{state.num_moves} of {game.max_moves} moves made"
    if state.chosen >= 0:
        told += f"; player_0 chose {NAMES[state.chosen]}"
    left = [str(row + 1) for row in range(len(rows))]
    top = [str(column + 1) for column in range(width)]
    return Scene(title, [Grid(rows, told, left, top)])


def sokoban(game: Sokoban, state: SokobanState, viewer: int | None) -> Scene:
    """The room, the boxes and the player; a frame is around what stands on a goal."""
    title = turn_title(game, state, viewer)
    if state.level < 0:
        return Scene(title, [Track("the level is being drawn", [])])
    cells = [ROOM[symbol] for symbol in game.symbols(state)]
    width = game.level_at(state).room.num_columns
    rows = [cells[i : i + width] for i in range(0, len(cells), width)]
    told = f"{state.num_moves} of {game.max_moves} moves made; a frame: on a goal"
    return Scene(title, [Grid(rows, told)])
