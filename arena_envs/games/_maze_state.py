"""States of the collaborative maze: moves, steps and features."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.games import _maze as maze
from arena_envs.games import _talk as talk
from arena_envs.games._maze import DIRECTIONS, Rows
from arena_envs.games._talk import Utterance

MOVES = (talk.Move("move", (talk.OneOf(DIRECTIONS),)), talk.Move("wait"))
CORE = (*(Utterance("move", (name,)) for name in DIRECTIONS), Utterance("wait"))
MEASURES = ("success", "path_share", "agreement")


class State(NamedTuple):
    """The rows drawn so far, from below; all utterances; and the cell after each step."""

    rows: Rows = ()
    said: tuple[Utterance, ...] = ()
    path: tuple[int, ...] = ()


def agreed_move(named: Sequence[Utterance]) -> str | None:
    """The direction that all named; None if they differ or wait."""
    moves = {each.values for each in named}
    (values, *others) = moves
    return values[0] if values and not others else None


def agreed_cell(named: Sequence[Utterance], here: int, size: int) -> int | None:
    """Where the move that all named leads to; None outside the maze or without such a move."""
    direction = agreed_move(named)
    return None if direction is None else maze.neighbor(here, direction, size)


def share_agreed(state: State, num: int) -> float:
    """Steps in which all players named the same move / all steps."""
    steps = range(len(state.path))
    same = [agreed_move(state.said[num * step :][:num]) is not None for step in steps]
    return sum(same) / len(same)


def learned(state: State, num: int, size: int) -> dict[int, str]:
    """Cells that the walk of `num` players has shown: free ones, and walls walked into."""
    cells = dict.fromkeys(state.path, ".")
    for step, (before, after) in enumerate(
        zip((0, *state.path), state.path, strict=False)
    ):
        if before == after:
            ahead = agreed_cell(state.said[num * step :][:num], before, size)
            if ahead is not None:
                cells[ahead] = "#"
    return cells


def features(
    state: State, seat: int, known: str, cells: int, max_steps: int
) -> NDArray[np.float32]:
    """The features of a seat, as the game describes them.

    Args:
        state: any state.
        seat: the seat.
        known: what the seat knows of each cell that is drawn.
        cells: number of cells.
        max_steps: of the game.
    """
    walked = 2 + 3 * cells
    values = np.zeros(walked + max_steps + 2 * max_steps * 5, np.float32)
    values[seat] = 1
    board = values[2:walked].reshape(cells, 3)
    for cell, mark in enumerate(known):
        if mark != "?":
            board[cell, ".#".index(mark)] = 1
    board[state.path[-1] if state.path else 0, 2] = 1
    way = (0, *state.path)
    for step, cell in enumerate(state.path):
        values[walked + step] = way[step] != cell
    named = values[walked + max_steps :].reshape(2 * max_steps, 5)
    for turn, said in enumerate(state.said):
        named[turn, DIRECTIONS.index(said.values[0]) if said.values else 4] = 1
    return values
