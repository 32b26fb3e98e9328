"""Collaborative maze: each of two players sees half of a map, and both must name the same move.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("collaborative_maze-v1", solo=False)`; see `CollaborativeMaze` |
| Agents      | `player_0` and `player_1`; in solo mode `player_0` alone               |
| Kind        | cooperative; imperfect information, perfect in solo mode               |
| Actions     | texts: "move up", "move down", "move left", "move right", "wait"       |
| Rewards     | at the end: 1 at the goal, else max(0, 1 - d / s), see below           |
| Length      | at most 2 `max_steps` turns; in solo mode `max_steps`                  |
| Known value | best 1, by a shortest path, solo and in a pair                         |
| Source      | T. R. Davidson et al., *The Collaboration Gap* (2025),                 |
|             | https://arxiv.org/abs/2511.02687                                       |

The maze has `size` times `size` cells. The walk starts at a1, below and left; the goal is the
opposite corner. Each other cell is a wall with a probability of `wall_percent` percent. Chance draws
the rows from below, and no row after which all paths would have more than `max_steps` - 1 moves. So a
step is left for talk. Mazes belong to one of two splits by a hash of their cells, and chance draws mazes
of `split` alone. `player_0` sees the cells of the color of a1, as on a chessboard, and
`player_1` the others; both see start and goal.

In each step both name a move or wait, one after the other; who names first alternates. If both name
the same move they walk, unless a wall or the edge is there. Each may say something with it. The game
ends at the goal or after `max_steps` steps. Let s be the number of moves of a shortest path from the
start to the goal, and d that from the last cell. The players get max(0, 1 - d / s), so 1 at the goal.

In solo mode one player sees all and names each move. The same seed has the same maze in both modes.
The *collaboration gap* of a policy is its mean return (or `success`) in solo mode minus that in a pair
with itself, over the same seeds. The gap of perfect players is 0: if both tell their walls in the
first step, they lose at most one step. The paper's mazes have 6 x 6 cells, drawn halves, and free talk
from which a grader reads the moves.

The legal actions are a finite core without messages: four moves and "wait". The grammar of texts is
that of `bargaining`. The prompt shows the map with what the walk has shown, the way, the latest
three moves and the latest six with a message. Features hold all moves, but no messages.

Cheapest trick known: a fixed walk, such as up and right in turn by both without a word, pays 0.70;
`maze_walker:honest` pays 1.

History: version 1 holds mazes out.

Measures of an episode:

- `success`: 1 at the goal, else 0.
- `path_share`: s / steps at the goal, else 0.
- `agreement`: steps in which all named the same move / all steps.
"""

import random
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import pairwise, product
from typing import NamedTuple

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    Information,
    Vector,
    check_split,
    filled,
    np,
    param,
    sample_chance,
    split_of,
)
from arena_envs.scenes.shapes import Cell, Grid, Shapes, board_grid, talk_of
from arena_envs.talk import Utterance

# rows of a maze from the bottom, of `.` (free), `#` (wall) and `?` (not known); cells are numbered
# row by row from a1, which is 0
Rows = tuple[str, ...]

DIRECTIONS = ("up", "down", "left", "right")
STEPS = {"up": (1, 0), "down": (-1, 0), "left": (0, -1), "right": (0, 1)}  # row, column
LETTERS = "abcdefghi"


def cell_name(cell: int, size: int) -> str:
    """Letter of the column and number of the row.

    >>> cell_name(0, 4), cell_name(6, 4)
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
    plan: Rows, rows: Rows, percent: int, longest: int, split: str
) -> tuple[tuple[str, float], ...]:
    """The rows that may follow the rows drawn so far, with their probabilities.

    Each unknown cell is a wall with the same probability, but for rows after which no path of
    at most `longest` moves would be left, or no maze of the split.

    Args:
        plan: what is known of the cells of all rows.
        rows: the lowest rows.
        percent: probability that a cell is a wall.
        longest: moves of the longest path that is allowed.
        split: of instances; empty for all mazes.
    """
    size, number = len(plan), len(rows)
    cells = [".#" if cell == "?" else cell for cell in plan[number]]
    chances = []
    for row in map("".join, product(*cells)):
        moves = distance((*rows, row, *plan[number + 1 :]), 0, size**2 - 1)
        walls = row.count("#") - plan[number].count("#")
        chance = (percent / 100) ** walls
        chance *= (1 - percent / 100) ** (plan[number].count("?") - walls)
        if not chance or moves is None or moves > longest:
            continue
        if _leads_to((*rows, row), plan, longest, split):
            chances.append((row, chance))
    total = sum(chance for _, chance in chances)
    return tuple((row, chance / total) for row, chance in chances)


def _leads_to(first_rows: Rows, plan: Rows, longest: int, split: str) -> bool:
    """Whether a maze of the split has these rows; early rows leave mazes of both splits."""
    size, number = len(plan), len(first_rows)
    if not split or number < size - 1:
        return True
    cells = [".#" if cell == "?" else cell for row in plan[number:] for cell in row]
    for row in map("".join, product(*cells)):
        if split_of("".join(first_rows) + row) == split:
            rows = (*first_rows, row) if row else first_rows
            moves = distance(rows, 0, size**2 - 1)
            if moves is not None and moves <= longest:
                return True
    return False


def unknown_rows(size: int) -> Rows:
    """A maze of which only the first and the last cell are known, as free."""
    middle = ("?" * size,) * (size - 2)
    return ("." + "?" * (size - 1), *middle, "?" * (size - 1) + ".")


def drawn_again(
    plan: Rows,
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
    ahead = split if num_rows < len(plan) else ""
    while True:
        rows: Rows = ()
        for _ in range(num_rows):
            outcomes = row_chances(plan, rows, percent, longest, ahead)
            names, chances = zip(*outcomes, strict=True)
            rows = (*rows, rng.choices(names, chances)[0])
        if ahead or not split or split_of("".join(rows)) == split:
            return rows


def color_of(cell: int, size: int) -> int:
    """0 for cells of the color of a1 on a chessboard, 1 for the others.

    >>> color_of(0, 4), color_of(1, 4), color_of(4, 4)
    (0, 1, 1)
    """
    return sum(divmod(cell, size)) % 2


@lru_cache(8192)
def half_of(rows: Rows, size: int, color: int) -> Rows:
    """The rows with the cells of one color, and with the first and the last cell."""
    ends = (0, size**2 - 1)
    return tuple(
        "".join(
            cell
            if (place := number * size + column) in ends
            or color_of(place, size) == color
            else "?"
            for column, cell in enumerate(row)
        )
        for number, row in enumerate(rows)
    )


def with_cells(rows: Rows, cells: dict[int, str]) -> Rows:
    """The rows with some cells replaced."""
    new_rows = list(rows)
    for cell, mark in cells.items():
        number, column = divmod(cell, len(rows[0]))
        row = new_rows[number]
        new_rows[number] = f"{row[:column]}{mark}{row[column + 1 :]}"
    return tuple(new_rows)


def drawing(rows: Rows, here: int) -> Sequence[str]:
    """The maze as lines from the top, with `@` at a cell and `G` at the goal."""
    size = len(rows)
    marked = with_cells(rows, {size**2 - 1: "G", here: "@"})
    lines = [
        f"{number + 1} {' '.join(marked[number])}" for number in reversed(range(size))
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


def agreed_move(utterances: Sequence[Utterance]) -> str | None:
    """The direction that all named; None if they differ or wait."""
    moves = {utterance.values for utterance in utterances}
    (values, *others) = moves
    return values[0] if values and not others else None


def agreed_cell(utterances: Sequence[Utterance], here: int, size: int) -> int | None:
    """The cell to which the move leads that all named; None outside the maze or without such a move."""
    direction = agreed_move(utterances)
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


MAX_MOVES, MAX_MESSAGES = 3, 6  # latest ones that are shown


MAX_LISTED = 300  # mazes among the instances, some of them equal
Action = Utterance | str  # chance draws a row, such as ".#.."


@dataclass(frozen=True)
class CollaborativeMaze(talk.TalkGame[State, Action]):
    """A walk through a maze of which each player sees a half.

    Args:
        size: cells in a row and in a column, 3 to 9.
        max_steps: steps of the walk, from 2 `size` - 1 to 60.
        wall_percent: probability that a cell is a wall, 0 to 60 percent.
        solo: whether one player sees all and walks alone.
        messages: whether free words are allowed.
        max_message: longest message in characters, 1 to 200.
        split: of the mazes, "train" or "test"; they share none.

    Raises:
        ValueError: a parameter is out of range.
    """

    size: int = param(5, 3, 9, knob=(3, 4, 5, 6))
    max_steps: int = param(10, lambda game: 2 * game.size - 1, 60)
    wall_percent: int = param(30, 0, 60, knob=(0, 15, 30, 45))
    solo: bool = False
    messages: bool = True
    max_message: int = param(200, 1, 200)
    split: str = "train"

    shares_measured = MEASURES
    first_state = State()
    kind = "cooperative"
    min_return = 0.0
    max_return = 1.0
    heuristic = "maze_walker:honest"

    def __post_init__(self) -> None:
        super().__post_init__()
        check_split(self.split, self.wall_percent > 0)

    @property
    def num_players(self) -> int:
        return 1 if self.solo else 2

    @property
    def information(self) -> Information:  # type: ignore[override]  # settable in BaseGame
        return "perfect" if self.solo else "imperfect"

    @property
    def max_turns(self) -> int:
        return self.num_players * self.max_steps

    @property
    def max_chance_nodes(self) -> int:
        return self.size

    @property
    def goal(self) -> int:
        """The last cell."""
        return self.size**2 - 1

    def current_player(self, state: State) -> int:
        if len(state.rows) < self.size:
            return CHANCE
        if len(state.path) == self.max_steps or self.here(state) == self.goal:
            return TERMINAL
        return self.speaker_of(len(state.said))

    def here(self, state: State) -> int:
        """The cell where the players are."""
        return state.path[-1] if state.path else 0

    def speaker_of(self, turn: int) -> int:
        """The speaker of utterance number `turn`, from 0 on."""
        return 0 if self.solo else (turn // 2 + turn % 2) % 2

    def chance_outcomes(self, state: State) -> Sequence[tuple[Action, float]]:
        unknown = unknown_rows(self.size)
        return row_chances(unknown, state.rows, *self._limits)

    @property
    def _limits(self) -> tuple[int, int, str]:
        """The share of walls, the longest path, and the split; empty if there is one maze."""
        split = self.split if self.wall_percent else ""
        return self.wall_percent, self.max_steps - 1, split

    @property
    def instances(self) -> Sequence[Hashable]:
        if not self.wall_percent:
            return ()
        rng = random.Random(0)
        mazes: dict[Rows, None] = {}
        for _ in range(MAX_LISTED):
            state = State()
            while self.current_player(state) == CHANCE:
                state = self.apply(state, sample_chance(self, state, rng))
            mazes[state.rows] = None
        return tuple(mazes)

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        return CORE if self.current_player(state) >= 0 else ()

    def core_state(self, state: State) -> State:
        """The state without messages."""
        return state._replace(said=tuple(e._replace(message="") for e in state.said))

    def apply(self, state: State, action: Action) -> State:
        rows, utterances, path = state
        if isinstance(action, str):
            return State((*rows, action), utterances, path)
        utterances = (*utterances, action)
        if len(utterances) % self.num_players:
            return State(rows, utterances, path)
        here = self.here(state)
        ahead = agreed_cell(utterances[-self.num_players :], here, self.size)
        if ahead is not None and rows[ahead // self.size][ahead % self.size] == ".":
            here = ahead
        return State(rows, utterances, (*path, here))

    def left(self, state: State) -> int:
        """Moves of a shortest path from where the players are to the goal."""
        moves = distance(state.rows, self.here(state), self.goal)
        if moves is None:
            raise ValueError(f"want a maze with a path, got {state.rows}")
        return moves

    def returns(self, state: State) -> list[float]:
        score = 0.0
        if self.current_player(state) == TERMINAL:
            score = max(0.0, 1 - self.left(state) / self.left(State(state.rows)))
        return [score] * self.num_players

    def measures(self, state: State) -> dict[str, float]:
        values, steps = dict.fromkeys(MEASURES, 0.0), len(state.path)
        if self.here(state) == self.goal:
            values["success"] = 1.0
            values["path_share"] = self.left(State(state.rows)) / steps
        if steps:
            values["agreement"] = share_agreed(state, self.num_players)
        return values

    @property
    def known_value(self) -> str | None:
        return "best 1, by a shortest path" if self.messages or self.solo else None

    def seen(self, state: State, seat: int) -> Rows:
        """The rows as a seat sees them: all of them in solo mode and after the end."""
        if self.solo or self.current_player(state) == TERMINAL:
            return state.rows
        return half_of(state.rows, self.size, seat)

    def known(self, state: State, seat: int) -> Rows:
        """The map as a seat knows it without words."""
        return with_cells(
            self.seen(state, seat), learned(state, self.num_players, self.size)
        )

    def observe(self, state: State, seat: int) -> str:
        player, start = self.current_player(state), f"You are player_{seat}."
        if player == CHANCE:
            return f"{start} The maze is being drawn."
        unseen, score = "", f"{self.returns(state)[seat]:.4g}"
        now = f"The game is over: the score is {score}."
        if player != TERMINAL:
            step, place = divmod(len(state.said), self.num_players)
            mover = "you are" if player == seat else f"player_{player} is"
            order = "" if self.solo else " too" if place else " first"
            now = f"Step {step + 1} of {self.max_steps}: {mover} to name a move{order}."
            unseen = "" if self.solo else f", ? seen by player_{1 - seat} only"
        way = ", ".join([cell_name(cell, self.size) for cell in (0, *state.path)])
        lines = [
            f"{start} {now}",
            f"Your map (# wall, . free{unseen}, @ where you are, G goal):",
            *drawing(self.known(state, seat), self.here(state)),
            f"Way so far: {way}.",
        ]
        return "\n".join([*lines, *self._said_lines(state.said, seat)])

    def _said_lines(self, utterances: Sequence[Utterance], seat: int) -> Iterator[str]:
        """The words of all players, as a seat reads them."""

        def full_line(turn: int) -> str:
            values, speaker = (
                utterances[turn].values,
                talk.named(self.speaker_of(turn), seat),
            )
            does = f"named {values[0]}" if values else "waited"
            return f"Step {turn // self.num_players + 1}: {speaker} {does}"

        turns = range(len(utterances))
        worded = [turn for turn in turns if utterances[turn].message][-MAX_MESSAGES:]
        listed_turns = sorted({*turns[-MAX_MOVES:], *worded})
        return talk.transcript(
            utterances, seat, full_line, turns=listed_turns, latest=len(listed_turns)
        )

    def information_state(self, state: State, seat: int) -> State | tuple[object, ...]:
        if self.solo:
            return state
        return (seat, self.seen(state, seat), state.said, state.path)

    def features(self, state: State, seat: int) -> Vector:
        """The knowledge of a seat as numbers, without messages.

        One-hot seat (2); for each cell whether it is known as free and whether as a wall, and
        whether the players are there (3); for each step whether they walked; and for each turn
        one-hot up, down, left, right, wait (5).
        """
        cells, steps = self.size**2, self.max_steps
        walked = 2 + 3 * cells
        values = np.zeros(walked + 11 * steps, np.float32)
        values[seat] = 1
        board = values[2:walked].reshape(cells, 3)
        for cell, mark in enumerate("".join(self.known(state, seat))):
            if mark != "?":
                board[cell, ".#".index(mark)] = 1
        board[self.here(state), 2] = 1
        for step, (before, after) in enumerate(pairwise((0, *state.path)), walked):
            values[step] = before != after
        moves = values[walked + steps :].reshape(2 * steps, 5)
        for turn, utterance in enumerate(state.said):
            moves[
                turn, DIRECTIONS.index(utterance.values[0]) if utterance.values else 4
            ] = 1
        return values

    def action_text(self, state: State, action: Action) -> str:
        return action if isinstance(action, str) else talk.written(action, MOVES)

    def moves_at(self, state: State) -> tuple[talk.Move, ...]:
        return MOVES

    def rules(self, seat: int) -> str:
        return filled(
            "maze_solo" if self.solo else "maze",
            self,
            grid=filled("maze_grid", self, last=cell_name(self.goal, self.size)),
            score=filled("maze_score", self),
            num_moves=MAX_MOVES,
            num_messages=MAX_MESSAGES,
            how=talk.how_to_write(MOVES, self.longest),
        )

    @property
    def longest(self) -> int:
        return self.max_message if self.messages and not self.solo else 0

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the cells that the seat does not know, row by row as in the beginning."""
        if self.solo or self.current_player(state) == TERMINAL:
            return state
        num_rows = len(state.rows)
        plan = (*self.known(state, seat), *unknown_rows(self.size)[num_rows:])
        return state._replace(rows=drawn_again(plan, num_rows, *self._limits, rng))


TELLS = "Walls that I see:"  # what `honest` says first
LISTED = re.compile(re.escape(TELLS) + r"((?: [a-i][1-9],?)+| none)\.")

ORDER = ("up", "right", "down", "left")


class MazeWalker(talk.Scripted):
    """Walks through the collaborative maze in one of three styles.

    - `silent` names the first move of a shortest path by all that it knows; other cells count as
      free. After the other player it names the same move, unless that leads to a wall that it knows.
      If the other player did not follow, it takes the cell ahead for a wall.
    - `honest` tells all walls that it sees with its first move, and believes what it is told. Once it
      knows all cells, it names the first move of a shortest path, of several the first of up, right,
      down, left. Until then it plays as `silent`.
    - `greedy` names the first of up, right, down, left that leads to no wall that it knows.
    """

    game, styles = CollaborativeMaze, ("honest", "greedy", "silent")

    def reply(
        self, game: CollaborativeMaze, state: State, rng: random.Random
    ) -> Utterance:
        seat = game.current_player(state)
        if self.style == "greedy":
            plan = game.known(state, seat)
            ways = [d for d in ORDER if _open(game, state, plan, d)]
            return CORE[DIRECTIONS.index(ways[0])] if ways else CORE[-1]
        utterance = CORE[DIRECTIONS.index(self._move(game, state, seat))]
        own_turns = [
            turn for turn in range(len(state.said)) if game.speaker_of(turn) == seat
        ]
        speaks = (
            self.style == "honest" and not own_turns and game.messages and not game.solo
        )
        seen_cells = enumerate("".join(game.seen(state, seat)))
        walls = [cell_name(cell, game.size) for cell, mark in seen_cells if mark == "#"]
        message = f"{TELLS} {', '.join(walls) or 'none'}." if speaks else ""
        return (
            utterance._replace(message=message)
            if len(message) <= game.max_message
            else utterance
        )

    def _move(self, game: CollaborativeMaze, state: State, seat: int) -> str:
        plan = game.known(state, seat)
        reported_cells = _told(game, state, seat) if self.style == "honest" else None
        if reported_cells is not None:
            return _planned(game, state, with_cells(plan, reported_cells))
        if len(state.said) % game.num_players and state.said[-1].values:
            direction = str(state.said[-1].values[0])
            if _open(game, state, plan, direction):
                return direction
        return _planned(game, state, _with_refused(game, state, seat, plan))


def _open(game: CollaborativeMaze, state: State, plan: Rows, direction: str) -> bool:
    """Whether a move leads to a cell that is not known as a wall."""
    ahead = neighbor(game.here(state), direction, game.size)
    return ahead is not None and plan[ahead // game.size][ahead % game.size] != "#"


def _planned(game: CollaborativeMaze, state: State, plan: Rows) -> str:
    """The first move of a shortest path; any where there seems to be none."""
    here = game.here(state)
    left = distance(plan, here, game.goal)
    for direction in ORDER:
        ahead = neighbor(here, direction, game.size)
        if ahead is not None and left is not None:
            moves = distance(plan, ahead, game.goal)
            if moves is not None and moves < left:
                return direction
    return "up"


def _told(game: CollaborativeMaze, state: State, seat: int) -> dict[int, str] | None:
    """The cells of the other player as it has told them; None before."""
    for turn, utterance in enumerate(state.said):
        if game.speaker_of(turn) != seat and (
            match := LISTED.search(utterance.message)
        ):
            walls = set(re.findall("[a-i][1-9]", match[1]))
            cells = range(1, game.goal)
            others = [cell for cell in cells if color_of(cell, game.size) != seat]
            return {c: "#" if cell_name(c, game.size) in walls else "." for c in others}
    return None


def _with_refused(game: CollaborativeMaze, state: State, seat: int, plan: Rows) -> Rows:
    """The known map, with walls where the other player did not follow, if a path is left."""
    walls: dict[int, str] = {}
    way: Sequence[int] = (0, *state.path)
    for step in () if game.solo else range(len(state.path)):
        first, second = state.said[2 * step :][:2]
        if game.speaker_of(2 * step) == seat and first.values and first != second:
            ahead = neighbor(way[step], first.values[0], game.size)
            if ahead is not None and plan[ahead // game.size][ahead % game.size] == "?":
                walls[ahead] = "#"
    assumed = with_cells(plan, walls)
    left = distance(assumed, game.here(state), game.goal)
    return plan if left is None else assumed


def scene(game: CollaborativeMaze, state: State, viewer: int | None) -> Shapes:
    """The map as the viewer knows it, the way, and the talk."""
    if len(state.rows) < game.size:
        return [Grid([], "the maze is being drawn")]
    rows = state.rows if viewer is None else game.known(state, viewer)
    tones = {"#": Cell("#", "dark"), "?": Cell("?"), ".": Cell("", "light")}
    squares = [tones[mark] for row in rows for mark in row]
    for cell in (0, *state.path):
        squares[cell] = squares[cell]._replace(mark=True)
    squares[game.goal] = Cell("goal", "green")
    squares[game.here(state)] = Cell("here", "yellow", mark=True)
    title = "walls are dark; cells of the way have a frame"

    def action(turn: int, utterance: talk.Utterance) -> str:
        did = f"names {utterance.values[0]}" if utterance.values else "waits"
        return f"{did} (step {turn // game.num_players + 1})"

    board = board_grid(squares, game.size, title, upwards=True)
    return [board, *talk_of(state.said, viewer, action, game.speaker_of)]
