"""The scene of the collaborative maze."""

from typing import Any

from arena_envs import talk
from arena_envs.games.collaborative_maze import CollaborativeMaze
from arena_envs.games.collaborative_maze.state import LETTERS, State
from arena_envs.scenes.shapes import Cell, Grid, Scene, talk_of, turn_title


def scene(game: CollaborativeMaze, state: State, viewer: int | None) -> Scene:
    """The map as the viewer knows it, the way, and the talk."""
    size, drawn = game.size, len(state.rows) == game.size
    shapes: list[Any] = [Grid([], "the maze is being drawn")]
    if drawn:
        known = state.rows if viewer is None else game.known(state, viewer)
        tones = {"#": Cell("#", "dark"), "?": Cell("?"), ".": Cell("", "light")}
        cells = [tones[mark] for row in known for mark in row]
        for cell in (0, *state.path):
            cells[cell] = cells[cell]._replace(mark=True)
        cells[game.goal] = Cell("goal", "green")
        cells[game.here(state)] = Cell("here", "yellow", mark=True)
        rows = [cells[row * size : (row + 1) * size] for row in range(size)]
        numbers = [str(row + 1) for row in range(size)]
        title = "walls are dark; cells of the way have a frame"
        shapes = [Grid(rows[::-1], title, numbers[::-1], LETTERS[:size])]

    def action(turn: int, said: talk.Utterance) -> str:
        did = f"names {said.values[0]}" if said.values else "waits"
        return f"{did} (step {turn // game.num_players + 1})"

    shapes += talk_of(state.said, viewer, game.speaker_of, action)
    return Scene(turn_title(game, state, viewer), shapes)
