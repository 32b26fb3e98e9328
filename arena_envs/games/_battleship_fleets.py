"""Parts of Battleship: random ships, where they can be after the shots at them."""

import random
from collections.abc import Sequence
from typing import NamedTuple

from arena_envs.games._battleship_board import MISS, Board

NUM_DRAWS = 10  # fleets drawn, one of which is chosen

Fleet = dict[int, int]  # placement of each ship, by its number


class Option(NamedTuple):
    """A placement of a ship of this size, and its squares."""

    size: int
    action: int
    squares: int


def draw_fleet(
    board: Board, shots: Sequence[int], told: str, rng: random.Random
) -> list[int]:
    """Random placements of all ships that fit the outcomes of the shots, about uniform.

    One of `NUM_DRAWS`, weighted by how many options there were on the way to it. There
    is one way only to each fleet, so that the weights are right but for dead ends.
    """
    hits = {1 << s for s, outcome in zip(shots, told, strict=True) if outcome != MISS}
    search = _Search(board, fitting(board, shots, told), hits, rng)
    found = [search.complete({}, 0) for _ in range(NUM_DRAWS)]
    fleets, weights = zip(*(draw for draw in found if draw), strict=True)
    fleet: Fleet = rng.choices(fleets, weights)[0]
    return [fleet[ship] for ship in range(len(fleet))]


def fitting(board: Board, shots: Sequence[int], told: str) -> list[Option]:
    """The placements of one ship that fit the outcomes of the shots at their squares.

    As ships do not overlap, they fit together if they fit one by one and cover all hits.
    """
    fired = sum({1 << square for square in shots})
    found = []
    for size, placements in board.placements.items():
        for action, squares in placements.items():
            if not squares & fired or _fits(board, squares, shots, told):
                found.append(Option(size, action, squares))
    return found


def _fits(board: Board, squares: int, shots: Sequence[int], told: str) -> bool:
    here = [i for i, square in enumerate(shots) if squares >> square & 1]
    if any(told[i] == MISS for i in here):
        return False
    outcomes = board.outcomes([squares], [shots[i] for i in here])
    return outcomes == "".join(told[i] for i in here)


class _Search:
    """Random search with return from dead ends; most constrained hits first."""

    def __init__(
        self, board: Board, options: list[Option], hits: set[int], rng: random.Random
    ) -> None:
        self.sizes = board.ship_sizes
        self.rng = rng
        self.all = options
        self.covering = {h: [o for o in options if o.squares & h] for h in sorted(hits)}

    def complete(self, fleet: Fleet, taken: int) -> tuple[Fleet, float] | None:
        """A fleet with these ships and its weight; None if there is none."""
        if len(fleet) == len(self.sizes):
            done = all(hit & taken for hit in self.covering)
            return (fleet, 1.0) if done else None
        options = self._options(fleet, taken)
        self.rng.shuffle(options)
        for ship, option in options:
            with_ship = {**fleet, ship: option.action}
            if found := self.complete(with_ship, taken | option.squares):
                return found[0], found[1] * len(options)
        return None

    def _options(self, fleet: Fleet, taken: int) -> list[tuple[int, Option]]:
        """Ships that can cover a hit next, or without an open hit the next ship."""
        free = [ship for ship in range(len(self.sizes)) if ship not in fleet]
        sizes = {self.sizes[ship] for ship in free}
        still_open = [hit for hit in self.covering if not hit & taken]
        if len(still_open) > sum(self.sizes[ship] for ship in free):
            return []
        if still_open:
            groups = (
                [
                    o
                    for o in self.covering[hit]
                    if o.size in sizes and not o.squares & taken
                ]
                for hit in still_open
            )
            group = min(groups, key=len)
            return [(s, o) for o in group for s in free if self.sizes[s] == o.size]
        size = self.sizes[free[0]]
        return [
            (free[0], o) for o in self.all if o.size == size and not o.squares & taken
        ]
