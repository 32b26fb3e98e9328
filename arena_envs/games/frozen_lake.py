"""Frozen lake: walk over slippery ice to a goal without falling into a hole.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("frozen_lake-v1")`; parameters: see `FrozenLake`      |
| Agents      | `player_0` alone; slips are chance                                     |
| Kind        | competitive, perfect information, not zero-sum (one seat)              |
| Actions     | `Discrete(4)`: 0 "left", 1 "down", 2 "right", 3 "up"                   |
| Rewards     | 1 for reaching the goal, else 0                                        |
| Length      | at most `max_moves` turns; 7.672602 in random play with `layout="4x4"` |
| Known value | `layout="4x4"`: optimal play 0.74419, uniform random play 0.0139398;   |
|             | without slipping, optimal play 1 on every map                          |
| Source      | Gymnasium's `FrozenLake-v1`                                            |

The lake is a grid of cells: start S, frozen F, holes H, goal G. At each turn the player chooses a
direction. With `is_slippery`, the step goes in this direction or in one of the two directions
at right angles to it, each with probability 1/3. A step off the grid leaves the player where it is.
The episode ends in a hole, at the goal, or after `max_moves` moves.

Map, actions and probabilities are those of Gymnasium's `FrozenLake-v1`, whose registered id also
ends after 100 moves. Differences: the slip is a chance node, whose outcome is the direction of the
step; and the text of an observation shows the map.

`layout="random"`, the default, draws one of `num_maps` maps at the start of each episode. Such a map has
`size` rows and columns; its cells are frozen with probability 0.8, and it has a path to the goal.
`split="test"` draws from other maps. `"4x4"` and `"8x8"` are Gymnasium's maps, which are small enough to
be solved. Larger maps and fewer moves make the game harder. Smallest: `layout=("SG",), max_moves=1`; large: `layout="8x8"`.

The bot `minimax` plays optimally: it finds the value of every cell and number of moves left. It
refuses games of many more moves than 100.

Cheapest trick known: a constant list of moves. It pays 1 on one map without slips; on the default's maps
without slips the best of the shortest lists pays 0.42, and a list of 100 moves drawn by chance 0.11,
where optimal play pays 1.

History: version 1 draws one of many maps by default; version 0 always played `"4x4"`.

Measure of an episode: `success`, 1 if the goal was reached and 0 otherwise.
"""

import random
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    Vector,
    check_split,
    filled,
    np,
    over_text,
    param,
    split_of,
)
from arena_envs.scenes.shapes import Cell, Shapes, Track, board_grid

LEFT, DOWN, RIGHT, UP = range(4)  # as in Gymnasium
STEPS = ((0, -1), (1, 0), (0, 1), (-1, 0))  # row and column
FROZEN_SHARE = 0.8  # of the cells of a random map, as in Gymnasium

MAPS = {
    "4x4": ("SFFF", "FHFH", "FFFH", "HFFG"),
    "8x8": (
        "SFFFFFFF",
        "FFFFFFFF",
        "FFFHFFFF",
        "FFFFFHFF",
        "FFFHFFFF",
        "FHHFFFHF",
        "FHFFHFHF",
        "FFFHFFFG",
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
                for neighbor in self.neighbors[cell]:
                    if neighbor not in steps:
                        steps[neighbor] = steps[cell] + 1
                        waiting.append(neighbor)
        return None

    def _after(self, cell: int, down: int, right: int) -> int:
        row, column = divmod(cell, self.num_columns)
        row = min(max(row + down, 0), len(self.rows) - 1)
        column = min(max(column + right, 0), self.num_columns - 1)
        return row * self.num_columns + column


@lru_cache(1000)
def random_lake(size: int, number: int, split: str = "train") -> Lake:
    """A square map with a path, the same for equal arguments.

    Start and goal are opposite corners; each other cell is frozen with probability
    `FROZEN_SHARE`. Maps without a path are drawn again, as in Gymnasium, and so are those of
    the other split.
    """
    rng = random.Random(number)
    while True:
        cells = ["F" if rng.random() < FROZEN_SHARE else "H" for _ in range(size**2)]
        cells[0], cells[-1] = "S", "G"
        text = "".join(cells)
        lake = Lake([text[i : i + size] for i in range(0, size**2, size)])
        if lake.distance is not None and split_of(text) == split:
            return lake


fixed_lake = lru_cache(100)(Lake)  # by rows


def check_rows(name: str, rows: Sequence[str], max_size: int) -> None:
    """Raises ValueError for rows that are no map."""
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


NAMES = ("left", "down", "right", "up")
MAX_SIZE, MAX_MAPS, MAX_MOVES = 12, 10_000, 1000
MAX_LISTED = 1000  # maps among the instances


class State(NamedTuple):
    """The number of the map, the cell, moves so far, and the move before its step, or -1.

    Before a map is drawn, its number and the cell are -1.
    """

    map: int
    cell: int
    num_moves: int = 0
    chosen: int = -1


@dataclass(frozen=True)
class FrozenLake(BaseGame[State, int]):
    """Frozen lake.

    Args:
        layout: "4x4" or "8x8", Gymnasium's maps; "random"; or rows made of S, F, H and G.
        is_slippery: whether a step may go in another direction than chosen.
        max_moves: 1 to 1000.
        size: rows and columns of random maps, 2 to 12.
        num_maps: number of random maps, 1 to 10,000; some are equal.
        split: of the random maps, "train" or "test"; they share none.

    Raises:
        ValueError: a parameter is out of range, or the rows have no path to the goal.
    """

    layout: str | Sequence[str] = "random"
    is_slippery: bool = True
    max_moves: int = param(100, 1, MAX_MOVES)
    size: int = param(4, 2, MAX_SIZE, knob=(2, 3, 4, 5, 6))
    num_maps: int = param(200, 1, MAX_MAPS)
    split: str = "train"

    num_players = 1
    num_actions = 4
    kind = "competitive"
    information = "perfect"
    min_return = 0.0
    max_return = 1.0
    verbs = ("go", "move", "step")
    shares_measured = ("success",)

    def __post_init__(self) -> None:
        super().__post_init__()
        layout = self.layout
        if isinstance(layout, str):
            if layout not in (*MAPS, "random"):
                raise ValueError(
                    f"want layout '4x4', '8x8', 'random' or rows, got {layout!r:.80}"
                )
        elif isinstance(layout, Sequence):
            check_rows("layout", layout, MAX_SIZE)
        else:
            raise ValueError(f"want layout as a name or rows, got {layout!r:.80}")
        check_split(self.split, self.layout == "random")

    @property
    def max_turns(self) -> int:
        return self.max_moves

    @property
    def max_chance_nodes(self) -> int:
        return (self.layout == "random") + self.is_slippery * self.max_moves

    @property
    def knobs(self) -> Mapping[str, tuple[Any, ...]]:
        if self.layout == "random":
            return super().knobs
        return {"layout": ("4x4", "8x8")} if self.layout in MAPS else {}

    def lake(self, state: State) -> Lake:
        """The map of a state; the first one before a map is drawn."""
        if self.layout == "random":
            return random_lake(self.size, max(state.map, 0), self.split)
        rows = MAPS[self.layout] if isinstance(self.layout, str) else self.layout
        return fixed_lake(tuple(rows))

    @property
    def instances(self) -> Sequence[Hashable]:
        if self.layout != "random":
            return ()
        numbers = range(min(self.num_maps, MAX_LISTED))
        return tuple({self.lake(State(n, 0)).cells: None for n in numbers})

    def initial_state(self) -> State:
        if self.layout == "random":
            return State(-1, -1)
        return State(0, self.lake(State(0, 0)).start)

    def current_player(self, state: State) -> int:
        if state.map < 0 or state.chosen >= 0:
            return CHANCE
        is_over = state.num_moves == self.max_moves or self._stands_on(state, "GH")
        return TERMINAL if is_over else 0

    def chance_outcomes(self, state: State) -> Sequence[tuple[int, float]]:
        if state.map < 0:
            return [(number, 1 / self.num_maps) for number in range(self.num_maps)]
        if state.chosen < 0:
            return ()
        turns = sorted((state.chosen + turn) % 4 for turn in (-1, 0, 1))
        return [(direction, 1 / 3) for direction in turns]

    def legal_actions(self, state: State) -> Sequence[int]:
        return range(4) if self.current_player(state) == 0 else ()

    def apply(self, state: State, action: int) -> State:
        if state.map < 0:
            return State(action, self.lake(State(action, 0)).start)
        if self.is_slippery and state.chosen < 0:
            return state._replace(chosen=action)
        cell = self.lake(state).neighbors[state.cell][action]
        return State(state.map, cell, state.num_moves + 1)

    def returns(self, state: State) -> Sequence[float]:
        return (float(self._stands_on(state, "G")),)

    def measures(self, state: State) -> dict[str, float]:
        return {"success": float(self._stands_on(state, "G"))}

    @property
    def known_value(self) -> str | None:
        if self == type(self)("4x4"):
            return "optimal play 0.74419; uniform random play 0.0139398"
        return None

    def observe(self, state: State, seat: int) -> str:
        if state.map < 0:
            return "You are player_0. The map is being drawn."
        lake, here = self.lake(state), state.cell
        cells, width = f"{lake.cells[:here]}P{lake.cells[here + 1 :]}", lake.num_columns
        rows = [" ".join(cells[i : i + width]) for i in range(0, len(cells), width)]
        row, column = divmod(here, width)
        ends = {"G": ", at the goal", "H": ", in a hole"}
        place = f"You are in row {row + 1}, column {column + 1}"
        place += ends.get(lake.cells[here], "")
        move = f"move {state.num_moves + 1} of {self.max_moves}"
        if self.current_player(state) == TERMINAL:
            last = over_text(self.returns(state)[0])
        elif state.chosen >= 0:
            last = f"You step {NAMES[state.chosen]} in {move}."
        else:
            last = f"You are to make {move}."
        return "\n".join(["You are player_0 (P).", *rows, f"{place}. {last}"])

    def features(self, state: State, seat: int) -> Vector:
        """For each cell, whether it is the player's, a hole, a goal; then moves and choice.

        These are the share of the moves that are made, and one-hot the move before its step.
        """
        cells = self.lake(state).cells
        values = np.zeros(3 * len(cells) + 5, np.float32)
        if state.map >= 0:
            values[state.cell] = 1
            values[len(cells) : -5] = [cell == mark for mark in "HG" for cell in cells]
        values[-5] = state.num_moves / self.max_moves
        if state.chosen >= 0:
            values[-4 + state.chosen] = 1
        return values

    def action_text(self, state: State, action: int) -> str:
        return NAMES[action]

    def rules(self, seat: int) -> str:
        return filled("frozen_lake", self)

    def _stands_on(self, state: State, kinds: str) -> bool:
        return state.map >= 0 and self.lake(state).cells[state.cell] in kinds


LAKE = {
    "S": Cell("start", "light"),
    "F": Cell("", "light"),
    "H": Cell("hole", "dark"),
    "G": Cell("goal", "green"),
}


def scene(game: FrozenLake, state: State, viewer: int | None) -> Shapes:
    """The map and the player on it."""
    if state.map < 0:
        return [Track("the map is being drawn", [])]
    lake = game.lake(state)
    squares = [LAKE[kind] for kind in lake.cells]
    squares[state.cell] = squares[state.cell]._replace(text="P0", mark=True)
    title = f"{state.num_moves} of {game.max_moves} moves made"
    if state.chosen >= 0:
        title += f"; player_0 chose {NAMES[state.chosen]}"
    top = [str(column + 1) for column in range(lake.num_columns)]
    return [board_grid(squares, lake.num_columns, title)._replace(top=top)]
