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
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from arena_envs import talk
from arena_envs.game import (
    CHANCE,
    TERMINAL,
    Information,
    Vector,
    check_split,
    counted,
    np,
    param,
    sample_chance,
)
from arena_envs.games.collaborative_maze import state as maze
from arena_envs.games.collaborative_maze.state import (
    CORE,
    DIRECTIONS,
    MEASURES,
    MOVES,
    Rows,
    State,
    agreed_cell,
    learned,
    share_agreed,
)
from arena_envs.talk import Utterance

__all__ = ["CollaborativeMaze", "State"]

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
    scene = "arena_envs.games.collaborative_maze.scene:scene"
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
        unknown = maze.unknown(self.size)
        return maze.row_chances(unknown, state.rows, *self._limits)

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
        found: dict[Rows, None] = {}
        for _ in range(MAX_LISTED):
            state = State()
            while self.current_player(state) == CHANCE:
                state = self.apply(state, sample_chance(self, state, rng))
            found[state.rows] = None
        return tuple(found)

    def legal_actions(self, state: State) -> Sequence[Utterance]:
        return CORE if self.current_player(state) >= 0 else ()

    def core_state(self, state: State) -> State:
        """The state without messages."""
        return state._replace(said=tuple(e._replace(message="") for e in state.said))

    def apply(self, state: State, action: Action) -> State:
        rows, said, path = state
        if isinstance(action, str):
            return State((*rows, action), said, path)
        said = (*said, action)
        if len(said) % self.num_players:
            return State(rows, said, path)
        here = self.here(state)
        ahead = agreed_cell(said[-self.num_players :], here, self.size)
        if ahead is not None and rows[ahead // self.size][ahead % self.size] == ".":
            here = ahead
        return State(rows, said, (*path, here))

    def left(self, state: State) -> int:
        """Moves of a shortest path from where the players are to the goal."""
        moves = maze.distance(state.rows, self.here(state), self.goal)
        if moves is None:
            raise ValueError(f"want a maze with a path, got {state.rows}")
        return moves

    def returns(self, state: State) -> list[float]:
        score = 0.0
        if self.current_player(state) == TERMINAL:
            score = max(0.0, 1 - self.left(state) / self.left(State(state.rows)))
        return [score] * self.num_players

    def measures(self, state: State) -> dict[str, float]:
        found, steps = dict.fromkeys(MEASURES, 0.0), len(state.path)
        if self.here(state) == self.goal:
            found["success"] = 1.0
            found["path_share"] = self.left(State(state.rows)) / steps
        if steps:
            found["agreement"] = share_agreed(state, self.num_players)
        return found

    @property
    def known_value(self) -> str | None:
        return "best 1, by a shortest path" if self.messages or self.solo else None

    def seen(self, state: State, seat: int) -> Rows:
        """The rows as a seat sees them: all of them in solo mode and after the end."""
        if self.solo or self.current_player(state) == TERMINAL:
            return state.rows
        return maze.half(state.rows, self.size, seat)

    def known(self, state: State, seat: int) -> Rows:
        """The map as a seat knows it without words."""
        return maze.with_cells(
            self.seen(state, seat), learned(state, self.num_players, self.size)
        )

    def observe(self, state: State, seat: int) -> str:
        player, start = self.current_player(state), f"You are player_{seat}."
        if player == CHANCE:
            return f"{start} The maze is being drawn."
        now, unseen = (
            f"The game is over: the score is {self.returns(state)[seat]:.4g}.",
            "",
        )
        if player != TERMINAL:
            step, place = divmod(len(state.said), self.num_players)
            who = "you are" if player == seat else f"player_{player} is"
            order = "" if self.solo else " too" if place else " first"
            now = f"Step {step + 1} of {self.max_steps}: {who} to name a move{order}."
            unseen = "" if self.solo else f", ? seen by player_{1 - seat} only"
        way = ", ".join([maze.name(cell, self.size) for cell in (0, *state.path)])
        lines = [
            f"{start} {now}",
            f"Your map (# wall, . free{unseen}, @ where you are, G goal):",
            *maze.drawing(self.known(state, seat), self.here(state)),
            f"Way so far: {way}.",
        ]
        return "\n".join([*lines, *self._said_lines(state.said, seat)])

    def _said_lines(self, said: Sequence[Utterance], seat: int) -> Iterator[str]:
        """The words of all players, as a seat reads them."""

        def told(turn: int) -> str:
            values, who = said[turn].values, talk.named(self.speaker_of(turn), seat)
            does = f"named {values[0]}" if values else "waited"
            return f"Step {turn // self.num_players + 1}: {who} {does}"

        turns = range(len(said))
        worded = [turn for turn in turns if said[turn].message][-MAX_MESSAGES:]
        shown = sorted({*turns[-MAX_MOVES:], *worded})
        return talk.transcript(said, seat, told, turns=shown, latest=len(shown))

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
        named = values[walked + steps :].reshape(2 * steps, 5)
        for turn, said in enumerate(state.said):
            named[turn, DIRECTIONS.index(said.values[0]) if said.values else 4] = 1
        return values

    def action_text(self, state: State, action: Action) -> str:
        return action if isinstance(action, str) else talk.written(action, MOVES)

    def moves_at(self, state: State) -> tuple[talk.Move, ...]:
        return MOVES

    def rules(self, seat: int) -> str:
        goal, how = (
            maze.name(self.goal, self.size),
            talk.how_to_write(MOVES, self.longest),
        )
        grid = (
            f"a maze of cells a1 to {goal}: a letter for the column, from left to right, and a "
            f"number for the row, from below. You start at a1; the goal is {goal}. "
        )
        moves = '"move up", "move down", "move left" or "move right", or nothing with "wait"'
        score = (
            f"The game ends at the goal, or after {counted(self.max_steps, 'step')}; the goal can "
            "always be reached with a step to spare. The score is 1 at the goal. Elsewhere it is "
            "1 - d / s, at least 0: d is the number of moves of a shortest way from there to the "
            "goal, s that of a shortest way from a1."
        )
        if self.solo:
            return (
                f"This is a game for one player, who walks through {grid}In each step you name a "
                f"move: {moves}. A move into a wall or out of the maze is lost. {score} {how}"
            )
        return (
            f"This is a game of two players, who walk together through {grid}Each of you "
            "sees one half of the cells, like the squares of one color of a chessboard, and the "
            f"other player sees the other half. In each step both of you name a move: {moves}. "
            "One names first and the other hears it; player_0 is first in step 1, player_1 in "
            "step 2, and so on. If both name the same move, you walk; else you stay. A move into "
            f"a wall or out of the maze is lost. {score} Both players have the same score. You "
            f"read the latest {MAX_MOVES} moves, and the latest {MAX_MESSAGES} with a message. "
            f"{how}"
        )

    @property
    def longest(self) -> int:
        return self.max_message if self.messages and not self.solo else 0

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Draws the cells that the seat does not know, row by row as in the beginning."""
        if self.solo or self.current_player(state) == TERMINAL:
            return state
        drawn = len(state.rows)
        known = (*self.known(state, seat), *maze.unknown(self.size)[drawn:])
        return state._replace(rows=maze.drawn_again(known, drawn, *self._limits, rng))
