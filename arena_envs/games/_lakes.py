"""The maps of the frozen lake: Gymnasium's two, random ones and one's own."""

import random
from collections import deque
from collections.abc import Sequence
from functools import cached_property, lru_cache

LEFT, DOWN, RIGHT, UP = range(4)  # as in Gymnasium
STEPS = ((0, -1), (1, 0), (0, 1), (-1, 0))  # row and column
FROZEN_SHARE = 0.8  # of the cells of a random map, as in Gymnasium

MAPS = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": (
        *("SFFFFFFF", "FFFFFFFF", "FFFHFFFF", "FFFFFHFF"),
        *("FFFHFFFF", "FHHFFFHF", "FHFFHFHF", "FFFHFFFG"),
    ),
}


class Lake:
    """A map with what follows from it; cells are numbered row by row from the top.

    Args:
        rows: texts of equal length made of S (start), F (frozen), H (hole), G (goal).
    """

    def __init__(self, rows: Sequence[str]) -> None:
        self.rows = tuple(rows)
        self.num_columns = len(rows[0])
        self.cells = "".join(rows)
        self.start = self.cells.index("S")

    @cached_property
    def neighbors(self) -> tuple[tuple[int, ...], ...]:
        """The cell after a step in each direction, by cell; at the edge, the cell itself."""
        return tuple(
            tuple(self._after(cell, *step) for step in STEPS)
            for cell in range(len(self.cells))
        )

    @cached_property
    def distance(self) -> int | None:
        """Number of steps of a shortest path from start to goal; None without a path."""
        steps, waiting = {self.start: 0}, deque([self.start])
        while waiting:
            cell = waiting.popleft()
            if self.cells[cell] == "G":
                return steps[cell]
            if self.cells[cell] != "H":
                for other in self.neighbors[cell]:
                    if other not in steps:
                        steps[other] = steps[cell] + 1
                        waiting.append(other)
        return None

    def _after(self, cell: int, down: int, right: int) -> int:
        row, column = divmod(cell, self.num_columns)
        row = min(max(row + down, 0), len(self.rows) - 1)
        column = min(max(column + right, 0), self.num_columns - 1)
        return row * self.num_columns + column


@lru_cache(1000)
def random_lake(size: int, number: int) -> Lake:
    """A square map with a path, the same for equal arguments.

    Start and goal are opposite corners; each other cell is frozen with probability
    `FROZEN_SHARE`. Maps without a path are drawn again, as in Gymnasium.

    Args:
        size: rows and columns.
        number: of the map; the seed of its generator.
    """
    rng = random.Random(number)
    while True:
        cells = ["F" if rng.random() < FROZEN_SHARE else "H" for _ in range(size**2)]
        cells[0], cells[-1] = "S", "G"
        text = "".join(cells)
        lake = Lake([text[i : i + size] for i in range(0, size**2, size)])
        if lake.distance is not None:
            return lake


@lru_cache(100)
def fixed_lake(rows: tuple[str, ...]) -> Lake:
    """The map of these rows."""
    return Lake(rows)


def check_rows(name: str, rows: Sequence[str], max_size: int) -> None:
    """Refuses rows that are no map.

    Raises:
        ValueError: names the parameter and the fault.
    """
    sizes = range(1, max_size + 1)
    is_map = len(rows) in sizes and all(
        isinstance(row, str) and len(row) in sizes and set(row) <= set("SFHG")
        for row in rows
    )
    if not is_map or len({len(row) for row in rows}) > 1:
        raise ValueError(
            f"want {name} as rows of one length made of S, F, H and G, at most {max_size} x "
            f"{max_size}, got {rows!r:.200}"
        )
    text = "".join(rows)
    if text.count("S") != 1 or "G" not in text:
        raise ValueError(
            f"want one start S and a goal G in {name}, got {text.count('S')} and "
            f"{text.count('G')}"
        )
    if Lake(rows).distance is None:
        raise ValueError(f"want a path from S to G in {name}, got {rows!r:.200}")
