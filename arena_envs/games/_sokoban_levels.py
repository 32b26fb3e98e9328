"""Levels of Sokoban: from rows of text, and generated ones that can be solved."""

import random
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from arena_envs.games._sokoban_search import Room, TooManyNodes, shortest

WALL, FLOOR, PLAYER, PLAYER_ON_GOAL = "#", "_", "@", "+"
GOAL, BOX, BOX_ON_GOAL = ".", "$", "*"
SYMBOLS = "#_.$*@+"
BLOCK_SHARE = (
    0.15  # of the cells inside the walls that are blocks of wall, before repairs
)
MIN_PER_BOX, MAX_PER_BOX = 4, 10  # moves of a shortest solution of a generated level
MAX_NODES = (
    5_000  # that the search of a generated level visits; else the level is drawn anew
)
NUM_PULLS = 20  # of the random play backwards, for each box


class Level(NamedTuple):
    """A room, and where player and boxes start."""

    room: Room
    player: int
    boxes: tuple[int, ...]  # ascending


@lru_cache(1000)
def level_of(rows: tuple[str, ...]) -> Level:
    """The level that rows show."""
    text = "".join(rows)
    room = Room(
        num_columns=len(rows[0]),
        walls=tuple(symbol == WALL for symbol in text),
        goals=_cells(text, GOAL + BOX_ON_GOAL + PLAYER_ON_GOAL),
    )
    (player,) = _cells(text, PLAYER + PLAYER_ON_GOAL)
    return Level(room, player, tuple(sorted(_cells(text, BOX + BOX_ON_GOAL))))


def _cells(text: str, symbols: str) -> frozenset[int]:
    return frozenset(cell for cell, symbol in enumerate(text) if symbol in symbols)


@lru_cache(1000)
def random_level(size: int, num_boxes: int, number: int) -> Level:
    """A level that can be solved, the same for equal arguments.

    The boxes start on the goals and are pulled away at random, so the way back solves the
    level. It is drawn anew until no box stands on a goal and the shortest solution has
    `MIN_PER_BOX` to `MAX_PER_BOX` moves per box.

    Args:
        size: rows and columns, with the walls around.
        num_boxes: boxes, and goals.
        number: of the level; the seed of its generator.
    """
    rng = random.Random(number)
    while True:
        level = _pulled_apart(_solved_level(size, num_boxes, rng), rng)
        if level.room.goals & frozenset(level.boxes):
            continue
        try:
            path = shortest(*level, max_nodes=MAX_NODES)
        except TooManyNodes:
            continue
        if path and MIN_PER_BOX <= len(path) / num_boxes <= MAX_PER_BOX:
            return level


def _solved_level(size: int, num_boxes: int, rng: random.Random) -> Level:
    """A room with its boxes on the goals; the player stands anywhere else."""
    while True:
        walls = [True] * size**2
        for row in range(1, size - 1):
            for column in range(1, size - 1):
                walls[row * size + column] = rng.random() < BLOCK_SHARE
        floor = [cell for cell, is_wall in enumerate(walls) if not is_wall]
        if len(floor) < num_boxes + 2:
            continue
        player, *goals = rng.sample(floor, num_boxes + 1)
        room = Room(size, tuple(walls), frozenset(goals))
        if len(room.reached_from(player)) == len(floor):  # in one piece
            return Level(room, player, tuple(sorted(goals)))


def _pulled_apart(level: Level, rng: random.Random) -> Level:
    """The level after random moves backwards, in which the player pulls boxes where it can."""
    room, player, boxes = level
    left = set(boxes)
    for _ in range(NUM_PULLS * len(boxes)):
        ways = [
            step
            for step in room.steps
            if not room.walls[player + step] and player + step not in left
        ]
        if not ways:
            break
        step = rng.choice(ways)
        behind = player - step
        if behind in left:
            left.remove(behind)
            left.add(player)
        player += step
    return Level(room, player, tuple(sorted(left)))


def check_rows(name: str, rows: Sequence[str], max_size: int) -> None:
    """Refuses rows that are no level.

    Raises:
        ValueError: names the parameter and the fault.
    """
    is_grid = 3 <= len(rows) <= max_size and all(
        isinstance(row, str) and 3 <= len(row) <= max_size and set(row) <= set(SYMBOLS)
        for row in rows
    )
    if not is_grid or len({len(row) for row in rows}) > 1:
        raise ValueError(
            f"want {name} as rows of one length made of {SYMBOLS}, from 3 x 3 to {max_size} x "
            f"{max_size}, got {rows!r:.200}"
        )
    edge = rows[0] + rows[-1] + "".join(row[0] + row[-1] for row in rows)
    if set(edge) != {WALL}:
        raise ValueError(f"want walls # all around {name}, got {rows!r:.200}")
    text = "".join(rows)
    num_players, num_boxes, num_goals = (
        sum(text.count(symbol) for symbol in symbols) for symbols in ("@+", "$*", ".*+")
    )
    if num_players != 1 or num_boxes == 0 or num_boxes != num_goals:
        raise ValueError(
            f"want one player, and as many boxes as goals (1 or more) in {name}, got "
            f"{num_players}, {num_boxes} and {num_goals}"
        )
    if "$" not in text:
        raise ValueError(
            f"want a box that is not on a goal in {name}, got {rows!r:.200}"
        )
