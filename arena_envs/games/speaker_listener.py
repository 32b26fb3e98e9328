"""Speaker and listener: one player knows the goal, the other walks to it on a grid.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("speaker_listener-v0")`; see `SpeakerListener`        |
| Agents      | `player_0` speaks, `player_1` listens and walks                        |
| Kind        | cooperative, imperfect information                                     |
| Actions     | `Discrete(max(W, 5))`: "say 0" and so on; up, down, left, right, stay  |
| Rewards     | both get (M + 1 - t) / M when move t of M reaches the goal             |
| Length      | at most 2M turns, M being `max_steps`                                  |
| Known value | best 3/4, with one word 1/4; random 5303/48000 (0.110)                  |
| Source      | after R. Lowe et al., *Multi-Agent Actor-Critic* (2017), on a grid     |

The listener starts in the middle of a grid of `size` times `size` cells. One of `num_goals`
cells, those farthest from the start, is the goal, each equally likely; only the speaker
knows which. In turn, the speaker says one of W = `num_words` words and the listener, who
hears it, moves to a cell beside its own or stays. The episode ends when the listener enters
the goal, or after M moves; the fewer moves, the more both get. The words have no meaning.

More words, more steps and a smaller grid make the game easier; more goals make it harder.
With fewer words than goals the speaker needs several words to name the goal. With the default
four corners and two words, one word per move leads as fast as knowing the goal.
OpenSpiel has no such game.

Measure of an episode: `success`, 1 if the listener enters the goal and 0 otherwise.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    IllegalAction,
    Vector,
    filled,
    fold,
    np,
    param,
)
from arena_envs.scenes.shapes import Cell, Shapes, Track, board_grid

MOVES = ("up", "down", "left", "right", "stay")
STEPS = ((0, 1), (0, -1), (-1, 0), (1, 0), (0, 0))  # column and row


class Cells:
    """The cells of a square grid, numbered by rows from a1 on.

    Attributes:
        start: the cell in the middle.
        exits: legal moves, by cell.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self.start = size // 2 * (size + 1)
        inside = range(size)
        self.exits = [
            tuple(
                move
                for move, (right, up) in enumerate(STEPS)
                if column + right in inside and row + up in inside
            )
            for row in inside
            for column in inside
        ]

    def after(self, cell: int, move: int) -> int:
        """The cell after a legal move."""
        column, row = STEPS[move]
        return cell + column + row * self._size

    def distance(self, cell: int) -> int:
        """Number of moves from the start to a cell."""
        row, column = divmod(cell, self._size)
        middle = self._size // 2  # of the start
        return abs(row - middle) + abs(column - middle)

    def name(self, cell: int) -> str:
        """Letter of the column and number of the row, such as "a1"."""
        row, column = divmod(cell, self._size)
        return f"{'abcdefghi'[column]}{row + 1}"

    def names(self, cells: Sequence[int]) -> str:
        """The names of cells, with commas between them."""
        return ", ".join(map(self.name, cells))


SPEAKER, LISTENER = 0, 1


class State(NamedTuple):
    """The goal (-1 before it is drawn), and all words and moves in order."""

    goal: int = -1
    words: tuple[int, ...] = ()
    path: tuple[int, ...] = ()  # cells, after each move


@dataclass(frozen=True)
class SpeakerListener(BaseGame[State, int]):
    """Speaker and listener.

    Args:
        size: cells in a row and in a column, 2 to 9.
        num_goals: cells that may be the goal, 1 to all but the start.
        num_words: words of the speaker, 1 to 20.
        max_steps: moves of the listener, from as many as the nearest goal needs to 50.

    Raises:
        ValueError: a parameter is out of range.
    """

    seat_roles = ("speaker", "listener")
    size: int = param(3, 2, 9, knob=(2, 3, 4, 5))
    num_goals: int = param(4, 1, lambda game: game.size**2 - 1)
    num_words: int = param(2, 1, 20)
    max_steps: int = param(4, lambda game: game._nearest, 50)

    first_state = State()
    num_players = 2
    kind = "cooperative"
    max_chance_nodes = 1
    min_return = 0.0
    default_value = "best 3/4; random 5303/48000"

    @property
    def num_actions(self) -> int:
        return max(self.num_words, len(MOVES))

    @property
    def max_return(self) -> float:
        return self._pay(self._nearest)

    @property
    def max_turns(self) -> int:
        return 2 * self.max_steps

    @cached_property
    def cells(self) -> Cells:
        """The cells of the grid."""
        return Cells(self.size)

    @cached_property
    def goals(self) -> tuple[int, ...]:
        """The cells that may be the goal, ascending."""
        cells = [cell for cell in range(self.size**2) if cell != self.cells.start]
        cells.sort(key=self.cells.distance, reverse=True)
        return tuple(sorted(cells[: self.num_goals]))

    def current_player(self, state: State) -> int:
        if state.goal < 0:
            return CHANCE
        if self._is_reached(state) or len(state.path) == self.max_steps:
            return TERMINAL
        return SPEAKER if len(state.words) == len(state.path) else LISTENER

    def chance_outcomes(self, state: State) -> list[tuple[int, float]]:
        return [(goal, 1 / self.num_goals) for goal in self.goals]

    def legal_actions(self, state: State) -> Sequence[int]:
        player = self.current_player(state)
        if player == SPEAKER:
            return range(self.num_words)
        return self.cells.exits[self._cell(state)] if player == LISTENER else ()

    def apply(self, state: State, action: int) -> State:
        if state.goal < 0:
            return State(action)
        if len(state.words) == len(state.path):
            return state._replace(words=(*state.words, action))
        cell = self.cells.after(self._cell(state), action)
        return state._replace(path=(*state.path, cell))

    def returns(self, state: State) -> Sequence[float]:
        score = self._pay(len(state.path)) if self._is_reached(state) else 0.0
        return (score, score)

    def measures(self, state: State) -> dict[str, float]:
        return {"success": float(self._is_reached(state))}

    def observe(self, state: State, seat: int) -> str:
        if seat == SPEAKER:
            goal_text = "unknown yet" if state.goal < 0 else self.cells.name(state.goal)
        else:
            goal_text = f"{'one of ' if self.num_goals > 1 else ''}{self.cells.names(self.goals)}"
        lines = [
            f"You are player_{seat}, the {('speaker', 'listener')[seat]}. "
            f"The goal is {goal_text}.",
            f"The listener's way: {self.cells.names((self.cells.start, *state.path))}.",
            f"Words so far: {', '.join(map(str, state.words)) or 'none'}.",
        ]
        player = self.current_player(state)
        if player == TERMINAL:
            reached = "" if self._is_reached(state) else "not "
            score = f"{self.returns(state)[seat]:.4g}"
            end = f"The goal was {reached}reached: both of you score {score}."
            return "\n".join([*lines, end])
        if player >= 0:
            whose = "You are" if player == seat else f"player_{player} is"
            step = f"Step {len(state.path) + 1} of {self.max_steps}"
            lines.append(f"{step}: {whose} to {('speak', 'move')[player]}.")
        return "\n".join(lines)

    def information_state(self, state: State, seat: int) -> Any:
        goal = state.goal if seat == SPEAKER else -1
        return (seat, goal, state.words, state.path, self._is_reached(state))

    def features(self, state: State, seat: int) -> Vector:
        """The knowledge of a seat as numbers.

        One-hot seat, goal (for the speaker) and cell of the listener; share of the moves
        that are left; whether the goal is reached; then for each step one-hot word and
        cell.
        """
        num_goals, num_cells, num_words = self.num_goals, self.size**2, self.num_words
        head = np.zeros(2 + num_goals + num_cells + 2, np.float32)
        steps = np.zeros((self.max_steps, num_words + num_cells), np.float32)
        head[seat] = 1
        if seat == SPEAKER and state.goal >= 0:
            head[2 + self.goals.index(state.goal)] = 1
        head[2 + num_goals + self._cell(state)] = 1
        head[-2:] = 1 - len(state.path) / self.max_steps, self._is_reached(state)
        for step, word in enumerate(state.words):
            steps[step, word] = 1
        for step, cell in enumerate(state.path):
            steps[step, num_words + cell] = 1
        return np.concatenate([head, steps.ravel()])

    def action_text(self, state: State, action: int) -> str:
        if self.current_player(state) == SPEAKER:
            return f"say {action}"
        return MOVES[action]

    def parse(self, state: State, text: str) -> int:
        """Reads "say 1", "word 1" or "1"; "up", "go up" or "move up"."""
        speaks = self.current_player(state) == SPEAKER
        word = fold(text)
        for verb in ("say ", "word ") if speaks else ("go ", "move "):
            word = word.removeprefix(verb)
        names = map(str, range(self.num_words)) if speaks else MOVES
        action_of = dict(zip(names, range(self.num_actions), strict=False))
        legal = self.legal_actions(state)
        if action_of.get(word) not in legal:
            texts = [self.action_text(state, action) for action in legal]
            raise IllegalAction(f"want one of {texts}, got {text[:80]!r}")
        return action_of[word]

    def rules(self, seat: int) -> str:
        return filled(
            "speaker_listener",
            self,
            seat=seat,
            last=self.cells.name(self.size**2 - 1),
            start=self.cells.name(self.cells.start),
            goals=self.cells.names(self.goals),
            words=[*range(self.num_words)],
        )

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """For the listener, a random goal that its path does not rule out."""
        if seat == SPEAKER or state.goal < 0 or self._is_reached(state):
            return state
        goals = [goal for goal in self.goals if goal not in state.path]
        return state._replace(goal=rng.choice(goals))

    @cached_property
    def _nearest(self) -> int:
        return min(map(self.cells.distance, self.goals))

    def _pay(self, num_moves: int) -> float:
        return (self.max_steps + 1 - num_moves) / self.max_steps

    def _is_reached(self, state: State) -> bool:
        return bool(state.path) and state.path[-1] == state.goal

    def _cell(self, state: State) -> int:
        return state.path[-1] if state.path else self.cells.start


def scene(game: SpeakerListener, state: State, viewer: int | None) -> Shapes:
    """The grid with the listener and the goal, and the words."""
    goal = state.goal
    if viewer is not None:
        key: Any = game.information_state(state, viewer)
        goal = key[1]
    squares = [Cell()] * game.size**2
    for cell in game.goals:
        squares[cell] = Cell("" if goal >= 0 else "goal?", "gone")
    if goal >= 0:
        squares[goal] = Cell("goal", "green")
    for cell in state.path[:-1]:
        squares[cell] = squares[cell]._replace(mark=True)
    squares[game._cell(state)] = Cell("P1", "seat1", mark=True)
    title = "player_1 walks; cells that it has left have a frame"
    word_cells = [Cell(f"word {word}", "seat0") for word in state.words]
    board = board_grid(squares, game.size, title, upwards=True)
    return [board, Track("words", word_cells)]
