"""Shortest solutions of Sokoban by A* search."""

import heapq
from collections import deque
from functools import cached_property
from itertools import count
from typing import NamedTuple

HOPELESS = 1_000_000  # pushes, for a box that cannot be pushed to a goal

Position = tuple[
    int, tuple[int, ...]
]  # cells of the player and, ascending, of the boxes


class TooManyNodes(ValueError):
    """A search has visited as many states as it may."""


class _Room(NamedTuple):
    num_columns: int
    walls: tuple[bool, ...]  # by cell, row by row from the top; walls are all around
    goals: frozenset[int]


class Room(_Room):
    """Walls and goals, with what follows from them."""

    @cached_property
    def steps(self) -> tuple[int, ...]:
        """The difference between a cell and the next one, by direction."""
        return (-self.num_columns, self.num_columns, -1, 1)

    @cached_property
    def num_pushes(self) -> dict[int, int]:
        """The fewest pushes that bring a box from a cell to a goal in an empty room.

        Cells from which no goal can be reached are missing.
        """
        found = dict.fromkeys(self.goals, 0)
        waiting = deque(self.goals)
        while waiting:
            cell = waiting.popleft()
            for step in self.steps:
                before = cell - step  # the box, and behind it the player that pushes
                if self.walls[before] or self.walls[before - step] or before in found:
                    continue
                found[before] = found[cell] + 1
                waiting.append(before)
        return found

    def reached_from(self, cell: int) -> set[int]:
        """The cells that a player can walk to in the room without boxes."""
        found, waiting = {cell}, [cell]
        while waiting:
            here = waiting.pop()
            for step in self.steps:
                if not self.walls[here + step] and here + step not in found:
                    found.add(here + step)
                    waiting.append(here + step)
        return found

    def after(self, player: int, boxes: tuple[int, ...], direction: int) -> Position:
        """Player and boxes after a move; as before if it is blocked."""
        step = self.steps[direction]
        ahead = player + step
        if self.walls[ahead]:
            return player, boxes
        if ahead not in boxes:
            return ahead, boxes
        beyond = ahead + step
        if self.walls[beyond] or beyond in boxes:
            return player, boxes
        return ahead, tuple(sorted({*boxes, beyond} - {ahead}))

    def bound(self, boxes: tuple[int, ...]) -> int:
        """A lower bound of the moves to a solution; `HOPELESS` or more if there is none."""
        pushes = self.num_pushes
        return sum([pushes.get(box, HOPELESS) for box in boxes])


def shortest(
    room: Room, player: int, boxes: tuple[int, ...], *, max_nodes: int
) -> list[int] | None:
    """The moves of a shortest solution, or None if there is none.

    A* search with `Room.bound`, which a move changes by 1 at most.

    Args:
        room: walls and goals.
        player: cell of the player.
        boxes: cells of the boxes, ascending.
        max_nodes: limit of the states that are visited.

    Raises:
        TooManyNodes: the search has not ended by then.
    """
    start: Position = (player, boxes)
    best = {start: 0}  # moves to each position that was met
    came: dict[Position, tuple[Position, int]] = {}
    order = count()  # among equal bounds, the newest position first
    heap = [(room.bound(boxes), 0, start)]
    done: set[Position] = set()
    while heap and heap[0][0] < HOPELESS:
        _, _, position = heapq.heappop(heap)
        if position in done:
            continue
        if len(done) == max_nodes:
            raise TooManyNodes(
                f"want a level that a search of {max_nodes:,} states solves"
            )
        done.add(position)
        if room.goals.issuperset(position[1]):
            return _moves_to(position, came)
        num_moves = best[position] + 1
        for direction in range(4):
            after = room.after(*position, direction)
            if num_moves < best.get(after, num_moves + 1):
                best[after], came[after] = num_moves, (position, direction)
                total = num_moves + room.bound(after[1])
                heapq.heappush(heap, (total, -next(order), after))
    return None


def _moves_to(
    position: Position, came: dict[Position, tuple[Position, int]]
) -> list[int]:
    moves = []
    while position in came:
        position, direction = came[position]
        moves.append(direction)
    return moves[::-1]
