"""Sokoban: push boxes onto goals.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("sokoban-v1")`; parameters: see `Sokoban`             |
| Agents      | `player_0` alone; the level is drawn by chance                         |
| Kind        | competitive, perfect information, not zero-sum (one seat)              |
| Actions     | `Discrete(4)`: 0 "up", 1 "down", 2 "left", 3 "right"                   |
| Rewards     | 1 / B for a box pushed onto a goal, -1 / B for one pushed off a goal,  |
|             | B being the number of boxes                                            |
| Length      | at most `max_moves` turns; 19.581256 on average in random play         |
| Known value | optimal play 1 with all generated levels, in 5.26 moves on average;    |
|             | uniform random play 0.057703                                          |
| Source      | H. Imabayashi (Thinking Rabbit, 1982); generated as in S. Racaniere et |
|             | al., *Imagination-Augmented Agents* (2017), by play backwards          |

The room is a grid of walls and floor. At each turn the player chooses a direction and moves to the
next cell. A box in this cell is pushed one cell further, if no wall and no other box is there;
boxes cannot be pulled. A blocked move changes nothing, but counts. The episode ends when all boxes
are on goals, or after `max_moves` moves; a box that cannot reach a goal any more does not end it.

Chance draws one of `num_levels` levels of `size` rows and columns with `num_boxes` boxes. Each level is
generated from its number and split: boxes start on goals and are pulled away by random moves, so it can be
solved. Levels whose shortest solution has fewer than 4 or more than 10 moves per box, or on which a
search of 5,000 states fails, are drawn anew. `level` gives rows of a level instead, in the usual
symbols: # wall, @ player, + player on a goal, $ box, * box on a goal, . goal, and _ for floor. Boxes
that are on goals at the start are not paid. Such a level is not checked for a solution.

More boxes and larger rooms make the game harder. Smallest: `level=("#####", "#@$.#", "#####"),
max_moves=1`; large: `size=10, num_boxes=4, max_moves=80`. The bot `sokoban_search` plays shortest
solutions, found by A* search.

Cheapest trick known: none; a list of moves that solves one level fails on most others.

History: version 1 draws from other levels, a hundred for each split.

Measures of an episode: `success`, 1 if all boxes are on goals and 0 otherwise; `boxes_on_goals`, their share.
"""

import heapq
import random
from collections import deque
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import count
from typing import Any, NamedTuple

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    AnyGame,
    BaseGame,
    Pays,
    Vector,
    check_split,
    filled,
    np,
    over_text,
    param,
    split_of,
)
from arena_envs.scenes.shapes import Cell, Grid, Shapes, Track, cut

HOPELESS = 1_000_000  # pushes, for a box that cannot be pushed to a goal

# cells of the player and, ascending, of the boxes
Position = tuple[int, tuple[int, ...]]


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
        pushes = dict.fromkeys(self.goals, 0)
        waiting = deque(self.goals)
        while waiting:
            cell = waiting.popleft()
            for step in self.steps:
                before = cell - step  # the box, and behind it the player that pushes
                if self.walls[before] or self.walls[before - step] or before in pushes:
                    continue
                pushes[before] = pushes[cell] + 1
                waiting.append(before)
        return pushes

    def reached_from(self, cell: int) -> set[int]:
        """The cells that a player can walk to in the room without boxes."""
        reached, waiting = {cell}, [cell]
        while waiting:
            here = waiting.pop()
            for step in self.steps:
                if not self.walls[here + step] and here + step not in reached:
                    reached.add(here + step)
                    waiting.append(here + step)
        return reached

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
            moves = []
            while position in came:
                position, direction = came[position]
                moves.append(direction)
            return moves[::-1]
        num_moves = best[position] + 1
        for direction in range(4):
            after = room.after(*position, direction)
            if num_moves < best.get(after, num_moves + 1):
                best[after], came[after] = num_moves, (position, direction)
                total = num_moves + room.bound(after[1])
                heapq.heappush(heap, (total, -next(order), after))
    return None


WALL, FLOOR, PLAYER, PLAYER_ON_GOAL = "#", "_", "@", "+"
GOAL, BOX, BOX_ON_GOAL = ".", "$", "*"
SYMBOLS = "#_.$*@+"
# of the cells inside the walls that are blocks of wall, before repairs
BLOCK_SHARE = 0.15
MIN_PER_BOX, MAX_PER_BOX = 4, 10  # moves of a shortest solution of a generated level
# that the search of a generated level visits; else the level is drawn anew
MAX_NODES = 5_000
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
def random_level(size: int, num_boxes: int, number: int, split: str = "train") -> Level:
    """A level that can be solved, the same for equal arguments.

    The boxes start on the goals and are pulled away at random, so the way back solves the
    level. It is drawn anew until no box stands on a goal and the shortest solution has
    `MIN_PER_BOX` to `MAX_PER_BOX` moves per box, and it belongs to the split.
    """
    rng = random.Random(number)
    while True:
        level = _pulled_apart(_solved_level(size, num_boxes, rng), rng)
        if level.room.goals & frozenset(level.boxes) or split_of(repr(level)) != split:
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
    """Raises ValueError for rows that are no level."""
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


NAMES = ("up", "down", "left", "right")
MAX_SIZE, MAX_LEVELS, MAX_MOVES = 20, 10_000, 1000
MAX_LISTED = 200  # levels among the instances


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
        split: of the generated levels, "train" or "test"; they share none.

    Raises:
        ValueError: a parameter is out of range, or `level` is malformed.
    """

    size: int = param(6, 5, 10, knob=(5, 6, 7))
    num_boxes: int = param(1, 1, lambda game: 2 if game.size == 5 else 4)
    num_levels: int = param(100, 1, MAX_LEVELS)
    max_moves: int = param(
        20,
        lambda game: MAX_PER_BOX * game.num_boxes if game.level is None else 1,
        MAX_MOVES,
    )
    level: Sequence[str] | None = None
    split: str = "train"

    num_players = 1
    num_actions = 4
    kind = "competitive"
    information = "perfect"
    verbs = ("go", "move", "push")
    shares_measured = ("success", "boxes_on_goals")

    def __post_init__(self) -> None:
        super().__post_init__()
        check_split(self.split, self.level is None)
        if self.level is None:
            return
        if isinstance(self.level, str) or not isinstance(self.level, Sequence):
            raise ValueError(f"want level as rows or None, got {self.level!r:.80}")
        check_rows("level", self.level, MAX_SIZE)

    @property
    def pays(self) -> Pays:
        rows = self.level or "$" * self.num_boxes  # boxes off their goals
        return "on_the_way" if "".join(rows).count("$") > 1 else "end"

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
    def knobs(self) -> Mapping[str, tuple[Any, ...]]:
        return super().knobs if self.level is None else {}

    @property
    def heuristic(self) -> str | None:
        # a given level may have no solution
        return "sokoban_search" if self.level is None else None

    def level_at(self, state: State) -> Level:
        """The level of a state; the first one before a level is drawn."""
        if self.level is not None:
            return level_of(tuple(self.level))
        number = max(state.level, 0)
        return random_level(self.size, self.num_boxes, number, self.split)

    @property
    def instances(self) -> Sequence[Hashable]:
        if self.level is not None:
            return ()
        numbers = range(min(self.num_levels, MAX_LISTED))
        return tuple({self.level_at(State(number)): None for number in numbers})

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

    def progress(self, state: State) -> float:
        """The share of boxes on goals."""
        return self._share(state)

    @property
    def known_value(self) -> str | None:
        if self.level is not None:
            return None
        uniform = "; uniform random play 0.057703" if self == type(self)() else ""
        return f"optimal play 1{uniform}"

    def observe(self, state: State, seat: int) -> str:
        if state.level < 0:
            return "You are player_0. The level is being drawn."
        symbols, width = self.symbols(state), self.level_at(state).room.num_columns
        rows = [" ".join(symbols[i : i + width]) for i in range(0, len(symbols), width)]
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
        """The content of each cell, row by row from the top."""
        room = self.level_at(state).room
        cells = [WALL if is_wall else FLOOR for is_wall in room.walls]
        for cell in room.goals:
            cells[cell] = GOAL
        for cell in state.boxes:
            cells[cell] = BOX_ON_GOAL if cell in room.goals else BOX
        cells[state.player] = PLAYER_ON_GOAL if state.player in room.goals else PLAYER
        return "".join(cells)

    def features(self, state: State, seat: int) -> Vector:
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

    def rules(self, seat: int) -> str:
        return filled("sokoban", self, some=self._start_share > 0)

    def _start(self, number: int) -> State:
        level = self.level_at(State(number))
        return State(number, level.player, level.boxes)

    def _share(self, state: State) -> float:
        """The share of boxes on goals; 0 before a level is drawn."""
        if state.level < 0:
            return 0.0
        goals = self.level_at(state).room.goals
        return sum([box in goals for box in state.boxes]) / len(state.boxes)


MAX_BOT_NODES = 100_000  # positions that a search visits before it gives up


@dataclass(frozen=True)
class SokobanSearch:
    """Plays a shortest solution, found by A* search.

    It draws among moves that begin a shortest solution. If there is none it draws any move.

    Args:
        max_nodes: limit of the positions that a search visits.

    Raises:
        ValueError: when it plays, the game is not Sokoban, or the level takes a larger search.
    """

    max_nodes: int = MAX_BOT_NODES
    is_exact = True

    def __call__(self, game: AnyGame, state: State, rng: random.Random) -> int:
        if not isinstance(game, Sokoban):
            raise ValueError(f"want Sokoban, got {game!r}")
        legal, room = game.legal_actions(state), game.level_at(state).room
        lengths = {}
        for action in legal:
            after = room.after(state.player, state.boxes, action)
            if after != (state.player, state.boxes):
                try:
                    path = shortest(room, *after, max_nodes=self.max_nodes)
                except TooManyNodes as error:
                    advice = "use the bot 'mcts', or an easier level"
                    raise ValueError(f"{error}; {advice}") from error
                if path is not None:
                    lengths[action] = len(path)
        least = min(lengths.values(), default=None)
        best = [
            action for action in legal if action in lengths and lengths[action] == least
        ]
        return rng.choice(best or list(legal))


ROOM = {
    "#": Cell("", "dark"),
    "_": Cell(),
    ".": Cell("goal", "green"),
    "$": Cell("box", "yellow"),
    "*": Cell("box", "green", mark=True),
    "@": Cell("P0", "seat0"),
    "+": Cell("P0", "seat0", mark=True),
}


def scene(game: Sokoban, state: State, viewer: int | None) -> Shapes:
    """The room, the boxes and the player; a frame is around what stands on a goal."""
    if state.level < 0:
        return [Track("the level is being drawn", [])]
    squares = [ROOM[symbol] for symbol in game.symbols(state)]
    title = f"{state.num_moves} of {game.max_moves} moves made; a frame: on a goal"
    return [Grid(cut(squares, game.level_at(state).room.num_columns), title)]
