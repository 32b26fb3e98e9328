"""Mazes: cells that are free or walls, shortest paths, and what a seat knows of them.

A maze is a tuple of rows from the bottom, each a string of `.` (free), `#` (wall) and `?` (not
known). Cells are numbered row by row from a1, which is 0.
"""

import random
from collections.abc import Sequence
from functools import lru_cache
from itertools import product
from typing import NamedTuple

from arena_envs import talk
from arena_envs.game import split_of
from arena_envs.talk import Utterance

Rows = tuple[str, ...]

DIRECTIONS = ("up", "down", "left", "right")
STEPS = {"up": (1, 0), "down": (-1, 0), "left": (0, -1), "right": (0, 1)}  # row, column
LETTERS = "abcdefghi"


def name(cell: int, size: int) -> str:
    """Letter of the column and number of the row.

    >>> name(0, 4), name(6, 4)
    ('a1', 'c2')
    """
    row, column = divmod(cell, size)
    return f"{LETTERS[column]}{row + 1}"


def neighbor(cell: int, direction: str, size: int) -> int | None:
    """The cell beside a cell; None outside the maze."""
    row, column = divmod(cell, size)
    up, right = STEPS[direction]
    row, column = row + up, column + right
    return row * size + column if 0 <= row < size > column >= 0 else None


@lru_cache(65_536)
def _bits(row: str) -> int:
    """A bit for each cell that may be free."""
    return sum(1 << column for column, cell in enumerate(row) if cell != "#")


@lru_cache(8192)
def distance(rows: Rows, start: int, goal: int) -> int | None:
    """Number of moves of a shortest path, with unknown cells as free; None without a path.

    >>> distance(("..", "#."), 0, 3), distance((".#", "#."), 0, 3)
    (2, None)
    """
    size = len(rows)
    stride = size + 1  # a bit between rows, so that no shift leads around the edge
    free = sum(_bits(row) << stride * number for number, row in enumerate(rows))
    here, there = (1 << cell + cell // size for cell in (start, goal))
    reached, moves = here & free, 0
    while not reached & there:
        ahead = reached | reached << 1 | reached >> 1
        ahead = (ahead | reached << stride | reached >> stride) & free
        if ahead == reached:
            return None
        reached, moves = ahead, moves + 1
    return moves


@lru_cache(8192)
def row_chances(
    known: Rows, drawn: Rows, percent: int, longest: int, split: str
) -> tuple[tuple[str, float], ...]:
    """The rows that may follow the rows drawn so far, with their probabilities.

    Each unknown cell is a wall with the same probability, but for rows after which no path of
    at most `longest` moves would be left, or no maze of the split.

    Args:
        known: what is known of the cells of all rows.
        drawn: the lowest rows.
        percent: probability that a cell is a wall.
        longest: moves of the longest path that is allowed.
        split: of instances; empty for all mazes.
    """
    size, number = len(known), len(drawn)
    cells = [".#" if cell == "?" else cell for cell in known[number]]
    found = []
    for row in map("".join, product(*cells)):
        moves = distance((*drawn, row, *known[number + 1 :]), 0, size**2 - 1)
        walls = sum(
            a == "?" and b == "#" for a, b in zip(known[number], row, strict=True)
        )
        chance = (percent / 100) ** walls
        chance *= (1 - percent / 100) ** (known[number].count("?") - walls)
        if not chance or moves is None or moves > longest:
            continue
        if _leads_to((*drawn, row), known, longest, split):
            found.append((row, chance))
    total = sum(chance for _, chance in found)
    return tuple((row, chance / total) for row, chance in found)


def _leads_to(drawn: Rows, known: Rows, longest: int, split: str) -> bool:
    """Whether a maze of the split has these rows; early rows leave mazes of both splits."""
    size, number = len(known), len(drawn)
    if not split or number < size - 1:
        return True
    cells = [".#" if cell == "?" else cell for row in known[number:] for cell in row]
    for row in map("".join, product(*cells)):
        if split_of("".join(drawn) + row) == split:
            rows = (*drawn, row) if row else drawn
            moves = distance(rows, 0, size**2 - 1)
            if moves is not None and moves <= longest:
                return True
    return False


def unknown(size: int) -> Rows:
    """A maze of which only the first and the last cell are known, as free."""
    middle = ("?" * size,) * (size - 2)
    return ("." + "?" * (size - 1), *middle, "?" * (size - 1) + ".")


def drawn_again(
    known: Rows,
    num_rows: int,
    percent: int,
    longest: int,
    split: str,
    rng: random.Random,
) -> Rows:
    """The lowest rows of a random maze that agrees with what is known.

    Whole mazes of the other split are drawn again, as what is known may leave an early row
    without a last one.
    """
    ahead = split if num_rows < len(known) else ""
    while True:
        rows: Rows = ()
        for _ in range(num_rows):
            outcomes = row_chances(known, rows, percent, longest, ahead)
            names, chances = zip(*outcomes, strict=True)
            rows = (*rows, rng.choices(names, chances)[0])
        if ahead or not split or split_of("".join(rows)) == split:
            return rows


def color(cell: int, size: int) -> int:
    """0 for cells of the color of a1 on a chessboard, 1 for the others.

    >>> color(0, 4), color(1, 4), color(4, 4)
    (0, 1, 1)
    """
    return sum(divmod(cell, size)) % 2


@lru_cache(8192)
def half(rows: Rows, size: int, seen: int) -> Rows:
    """The rows with the cells of one color, and with the first and the last cell."""
    shown = (0, size**2 - 1)
    return tuple(
        "".join(
            cell
            if (place := number * size + column) in shown or color(place, size) == seen
            else "?"
            for column, cell in enumerate(row)
        )
        for number, row in enumerate(rows)
    )


def with_cells(rows: Rows, cells: dict[int, str]) -> Rows:
    """The rows with some cells replaced."""
    found = list(rows)
    for cell, mark in cells.items():
        number, column = divmod(cell, len(rows[0]))
        row = found[number]
        found[number] = f"{row[:column]}{mark}{row[column + 1 :]}"
    return tuple(found)


def drawing(rows: Rows, here: int) -> Sequence[str]:
    """The maze as lines from the top, with `@` at a cell and `G` at the goal."""
    size = len(rows)
    shown = with_cells(rows, {size**2 - 1: "G", here: "@"})
    lines = [
        f"{number + 1} {' '.join(shown[number])}" for number in reversed(range(size))
    ]
    return [*lines, f"  {' '.join(LETTERS[:size])}"]


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
    """The cell to which the move leads that all named; None outside the maze or without such a move."""
    direction = agreed_move(named)
    return None if direction is None else neighbor(here, direction, size)


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
