"""Sokoban: push boxes onto goals.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("sokoban-v0")`; parameters: see `Sokoban`             |
| Agents      | `player_0` alone; the level is drawn by chance                         |
| Kind        | competitive, perfect information, not zero-sum (one seat)              |
| Actions     | `Discrete(4)`: 0 "up", 1 "down", 2 "left", 3 "right"                   |
| Rewards     | 1 / B for a box pushed onto a goal, -1 / B for one pushed off a goal,  |
|             | B being the number of boxes                                            |
| Length      | at most `max_moves` turns; 19.555513 on average in random play         |
| Known value | optimal play 1 with all generated levels, in 5.19 moves on average;    |
|             | uniform random play 0.0610087                                          |
| Source      | H. Imabayashi (Thinking Rabbit, 1982); generated as in S. Racaniere et |
|             | al., *Imagination-Augmented Agents* (2017), by play backwards          |

The room is a grid of walls and floor. At each turn the player chooses a direction and moves to the
next cell. A box in this cell is pushed one cell further, if no wall and no other box is there;
boxes cannot be pulled. A blocked move changes nothing, but counts. The episode ends when all boxes
are on goals, or after `max_moves` moves; a box that cannot reach a goal any more does not end it.

Chance draws one of `num_levels` levels of `size` rows and columns with `num_boxes` boxes. Each level is
generated from its number: boxes start on goals and are pulled away by random moves, so it can be
solved. Levels whose shortest solution has fewer than 4 or more than 10 moves per box, or on which a
search of 5,000 states fails, are drawn anew. `level` gives rows of a level instead, in the usual
symbols: # wall, @ player, + player on a goal, $ box, * box on a goal, . goal, and _ for floor. Boxes
that are on goals at the start are not paid. Such a level is not checked for a solution.

More boxes and larger rooms make the game harder. Smallest: `level=("#####", "#@$.#", "#####"),
max_moves=1`; large: `size=10, num_boxes=4, max_moves=80`. The bot `sokoban_search` plays shortest
solutions, found by A* search.

Measures of an episode: `success`, 1 if all boxes are on goals and 0 otherwise; `boxes_on_goals`, their share.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    IllegalAction,
    Information,
    Kind,
    check_int,
    fold,
)
from arena_envs.games._knobs import fitting
from arena_envs.games._sokoban_levels import (
    BOX,
    BOX_ON_GOAL,
    FLOOR,
    GOAL,
    MAX_PER_BOX,
    PLAYER,
    PLAYER_ON_GOAL,
    WALL,
    Level,
    check_rows,
    level_of,
    random_level,
)
from arena_envs.games._words import counted, over_text

NAMES = ("up", "down", "left", "right")
NUMBERS = {name: action for action, name in enumerate(NAMES)}
MAX_SIZE, MAX_LEVELS, MAX_MOVES = 20, 10_000, 1000


class State(NamedTuple):
    """The number of the level (-1 before it is drawn), cells, and moves so far."""

    level: int = -1
    player: int = -1
    boxes: tuple[int, ...] = ()  # ascending
    num_moves: int = 0


@dataclass(frozen=True)
class Sokoban(BaseGame[State, int]):
    """Sokoban.

    Args:
        size: rows and columns of generated levels, with the walls around, 5 to 10.
        num_boxes: of generated levels, 1 to 4; at most 2 with size 5.
        num_levels: levels that may be drawn, 1 to 10,000.
        max_moves: 1 to 1000; at least 10 per box with generated levels, which is enough.
        level: None to generate levels; or rows of one.

    Raises:
        ValueError: a parameter is out of range, or `level` is malformed.
    """

    size: int = 6
    num_boxes: int = 1
    num_levels: int = 100
    max_moves: int = 20
    level: Sequence[str] | None = None

    num_players = 1
    num_actions = 4
    kind: ClassVar[Kind] = "competitive"
    information: ClassVar[Information] = "perfect"
    measure_bounds: ClassVar[Mapping[str, tuple[float, float]]] = {
        "success": (0, 1),
        "boxes_on_goals": (0, 1),
    }

    def __post_init__(self) -> None:
        check_int("size", self.size, 5, 10)
        check_int("num_boxes", self.num_boxes, 1, 2 if self.size == 5 else 4)
        check_int("num_levels", self.num_levels, 1, MAX_LEVELS)
        least = 1 if self.level is not None else MAX_PER_BOX * self.num_boxes
        check_int("max_moves", self.max_moves, least, MAX_MOVES)
        if self.level is None:
            return
        if isinstance(self.level, str) or not isinstance(self.level, Sequence):
            raise ValueError(f"want level as rows or None, got {self.level!r:.80}")
        check_rows("level", self.level, MAX_SIZE)
        object.__setattr__(self, "level", tuple(self.level))  # records give lists

    @property
    def max_turns(self) -> int:
        return self.max_moves

    @property
    def max_chance_nodes(self) -> int:
        return int(self.level is None)

    @property
    def min_return(self) -> float:
        return 0.0 - self._start_share

    @property
    def max_return(self) -> float:
        return 1.0 - self._start_share

    @property
    def _start_share(self) -> float:
        return self._share(self.initial_state()) if self.level is not None else 0.0

    @property
    def knobs(self) -> dict[str, tuple[Any, ...]]:
        if self.level is not None:
            return {}
        return fitting(self, size=(5, 6, 7))

    def level_at(self, state: State) -> Level:
        """The level of a state; the first one before a level is drawn."""
        if self.level is not None:
            return level_of(tuple(self.level))
        return random_level(self.size, self.num_boxes, max(state.level, 0))

    def initial_state(self) -> State:
        return State() if self.level is None else self._start(0)

    def current_player(self, state: State) -> int:
        if state.level < 0:
            return CHANCE
        is_over = state.num_moves == self.max_moves or self._share(state) == 1
        return TERMINAL if is_over else 0

    def chance_outcomes(self, state: State) -> Sequence[tuple[int, float]]:
        if state.level >= 0:
            return ()
        return [(number, 1 / self.num_levels) for number in range(self.num_levels)]

    def legal_actions(self, state: State) -> Sequence[int]:
        return range(4) if self.current_player(state) == 0 else ()

    def apply(self, state: State, action: int) -> State:
        if state.level < 0:
            return self._start(action)
        room = self.level_at(state).room
        player, boxes = room.after(state.player, state.boxes, action)
        return State(state.level, player, boxes, state.num_moves + 1)

    def returns(self, state: State) -> Sequence[float]:
        if state.level < 0:
            return (0.0,)
        return (self._share(state) - self._start_share,)

    def measures(self, state: State) -> dict[str, float]:
        share = self._share(state)
        return {"success": float(share == 1), "boxes_on_goals": share}

    @property
    def known_value(self) -> str | None:
        if self.level is not None:
            return None
        uniform = "; uniform random play 0.0610087" if self == type(self)() else ""
        return f"optimal play 1{uniform}"

    def observe(self, state: State, seat: int) -> str:
        if state.level < 0:
            return "You are player_0. The level is being drawn."
        symbols, width = self.symbols(state), self.level_at(state).room.num_columns
        rows = [
            " ".join(symbols[first : first + width])
            for first in range(0, len(symbols), width)
        ]
        row, column = divmod(state.player, width)
        place = f"You are in row {row + 1}, column {column + 1}"
        num = len(state.boxes)
        boxes = f"boxes on goals: {round(self._share(state) * num)} of {num}"
        if self.current_player(state) == TERMINAL:
            last = over_text(self.returns(state)[0])
        else:
            last = f"You are to make move {state.num_moves + 1} of {self.max_moves}."
        return "\n".join(["You are player_0 (@).", *rows, f"{place}; {boxes}. {last}"])

    def symbols(self, state: State) -> str:
        """What is in each cell, row by row from the top."""
        room = self.level_at(state).room
        cells = [WALL if is_wall else FLOOR for is_wall in room.walls]
        for cell in room.goals:
            cells[cell] = GOAL
        for cell in state.boxes:
            cells[cell] = BOX_ON_GOAL if cell in room.goals else BOX
        cells[state.player] = PLAYER_ON_GOAL if state.player in room.goals else PLAYER
        return "".join(cells)

    def information_state(self, state: State, seat: int) -> State:
        return state

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
        """For each cell, whether it has a wall, goal, box, the player; share of moves made."""
        room = self.level_at(state).room
        num_cells = len(room.walls)
        values = np.zeros(4 * num_cells + 1, np.float32)
        if state.level < 0:
            return values
        values[:num_cells] = room.walls
        values[[num_cells + cell for cell in room.goals]] = 1
        values[[2 * num_cells + cell for cell in state.boxes]] = 1
        values[3 * num_cells + state.player] = 1
        values[-1] = state.num_moves / self.max_moves
        return values

    def action_text(self, state: State, action: int) -> str:
        return NAMES[action]

    def parse(self, state: State, text: str) -> int:
        """Reads "up", also as "go up", "move up" and "push up"."""
        wanted = fold(text)
        for verb in ("go ", "move ", "push "):
            wanted = wanted.removeprefix(verb)
        if wanted not in NUMBERS or not self.legal_actions(state):
            raise IllegalAction(f"want one of {list(NAMES)}, got {text[:80]!r}")
        return NUMBERS[wanted]

    def rules(self, seat: int) -> str:
        at_start = ", less that at the start" if self._start_share else ""
        return (
            "This is Sokoban, which you see from above. # is a wall, _ floor, @ you, $ a box, "
            ". a goal, * a box on a goal and + you on a goal. At each turn you move one cell: "
            '"up", "down", "left" or "right". If a box is in this cell, you push it one cell '
            "further, unless a wall or another box is there. You cannot pull boxes. A move "
            "that is blocked changes nothing, but counts. The game ends when all boxes are "
            f"on goals, or after {counted(self.max_moves, 'move')}. Your score is the share "
            f"of boxes on goals at the end{at_start}."
        )

    def _start(self, number: int) -> State:
        level = self.level_at(State(number))
        return State(number, level.player, level.boxes)

    def _share(self, state: State) -> float:
        """The share of boxes on goals; 0 before a level is drawn."""
        if state.level < 0:
            return 0.0
        goals = self.level_at(state).room.goals
        return sum([box in goals for box in state.boxes]) / len(state.boxes)
