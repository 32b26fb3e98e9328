"""`start:FILE@SHARE(game)` and `vanish(tic_tac_toe)`: other positions."""

import json
import random
from collections import Counter
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import (
    CHANCE,
    TERMINAL,
    BaseGame,
    IllegalAction,
    possible_actions,
)
from arena_envs.games.kits.board import turn_text
from arena_envs.games.tic_tac_toe import SQUARES, WON, TicTacToe
from arena_envs.games.tic_tac_toe import State as Board
from arena_envs.transforms import Transform

BEGIN = "start"  # the state in which a position is drawn


@dataclass(frozen=True)
class Start(Transform):
    """`start:FILE@SHARE(game)`: a curriculum from the end of play.

    Chance first draws one of the positions of `FILE`: each episode after `SHARE` of its turns, and
    then its chance outcomes. In simultaneous games these are whole rounds.

    Args:
        game: the inner game.
        source: `"FILE@SHARE"`; episodes as `--out` writes them, and a number from 0 to 1.
    """

    source: str

    def __post_init__(self) -> None:
        self._want(self.game.num_actions is not None, "a game without talk")
        self._positions()

    def __getattr__(self, name: str) -> Any:
        found = super().__getattr__(name)
        if name == "max_chance_nodes":
            return None if found is None else found + 1
        if not callable(found):
            return found
        return lambda state, *args: found(self._inner(state), *args)

    def initial_state(self) -> Any:
        return BEGIN

    def current_player(self, state: Any) -> Any:
        return CHANCE if state == BEGIN else self.game.current_player(state)

    def chance_outcomes(self, state: Any) -> Any:
        if state != BEGIN:
            return self.game.chance_outcomes(state)
        total = sum(count for _, count in self._positions())
        return [(i, n / total) for i, (_, n) in enumerate(self._positions())]

    def legal_actions(self, state: Any) -> Any:
        return () if state == BEGIN else self.game.legal_actions(state)

    def apply(self, state: Any, action: Any) -> Any:
        if state == BEGIN:
            return self._positions()[action][0]
        return self.game.apply(state, action)

    def information_state(self, state: Any, seat: int) -> Any:
        return state if state == BEGIN else self.game.information_state(state, seat)

    def parse(self, state: Any, text: str) -> Any:
        if state == BEGIN:
            raise IllegalAction("nobody is to move: the position is being drawn")
        return self.game.parse(state, text)

    def resample(self, state: Any, seat: int, rng: random.Random) -> Any:
        return state if state == BEGIN else self.game.resample(state, seat, rng)

    def _inner(self, state: Any) -> Any:
        return self.game.initial_state() if state == BEGIN else state

    def _positions(self) -> Sequence[tuple[Any, int]]:
        return _positions(self.game, self.source)


@lru_cache(16)
def _positions(game: Any, source: str) -> Sequence[tuple[Any, int]]:
    """The distinct states in which episodes start, each with its number of episodes."""
    file, _, share = source.rpartition("@")
    try:
        part = float(share)
        lines = Path(file).read_text(encoding="utf-8").splitlines()
        records = [json.loads(line)["actions"] for line in lines]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"want a file of episodes as start:FILE@0.5(game), got {source!r}: {error}"
        ) from error
    if not 0 <= part < 1 or not records:
        raise ValueError(f"want a share from 0 to below 1 and episodes, got {source!r}")
    found = Counter(_position(game, record, part, file) for record in records)
    return list(found.items())


def _position(game: Any, record: Sequence[Any], part: float, file: str) -> Any:
    states, num_turns = [game.initial_state()], [0]
    for action in record:
        state = states[-1]
        player = game.current_player(state)
        if action not in possible_actions(game, state):
            raise ValueError(
                f"want episodes of {game!r:.200} in {file}, got the action {action!r}"
            )
        states.append(game.apply(state, action))
        num_turns.append(num_turns[-1] + (player >= 0))
    most = part * num_turns[-1]
    fits = [game.initial_state()]
    for state, num in zip(states, num_turns, strict=True):
        player = game.current_player(state)
        if num <= most and (player == 0 if game.simultaneous else player >= 0):
            fits.append(state)
    return fits[-1]


NUM_MARKS, LONGEST = 3, 40  # marks of a seat; turns until a draw


class Marks(NamedTuple):
    """The squares of both seats in turn, the oldest first, and the number of turns."""

    squares: tuple[int, ...] = ()
    num_turns: int = 0


@dataclass(frozen=True)
class Vanish(Transform):
    """`vanish(game)`: tic-tac-toe in which each seat has at most three marks.

    The oldest vanishes when the seat puts a fourth. After 40 turns the game is a draw.
    """

    max_turns: ClassVar[int] = LONGEST
    forfeit, parse = BaseGame.forfeit, BaseGame.parse  # of these states

    def __post_init__(self) -> None:
        self._want(isinstance(self.game, TicTacToe), "tic-tac-toe")

    def initial_state(self) -> Marks:
        return Marks()

    def current_player(self, state: Marks) -> int:
        is_over = state.num_turns == LONGEST or any(WON[m] for m in self._board(state))
        return TERMINAL if is_over else state.num_turns % 2

    def legal_actions(self, state: Marks) -> Sequence[int]:
        is_over = self.current_player(state) == TERMINAL
        return () if is_over else [a for a in range(9) if a not in state.squares]

    def apply(self, state: Marks, action: int) -> Marks:
        return Marks((*state.squares, action)[-2 * NUM_MARKS :], state.num_turns + 1)

    def returns(self, state: Marks) -> Sequence[float]:
        paid: Sequence[float] = self.game.returns(self._board(state))
        draw = float(self.game.draw_return)
        return (draw, draw) if state.num_turns == LONGEST and not any(paid) else paid

    def information_state(self, state: Marks, seat: int) -> Hashable:
        return state

    def observe(self, state: Marks, seat: int) -> str:
        turn = turn_text(self.current_player(state), seat, self.returns(state))
        board = self.game.observe(self._board(state), seat).partition("\n")[2]
        ages = ", ".join(SQUARES[square] for square in state.squares) or "none"
        return (
            f"You are {'XO'[seat]}. {turn}\n{board}\n"
            f"Marks, the oldest first: {ages}. Turns: {state.num_turns} of {LONGEST}."
        )

    def features(self, state: Marks, seat: int) -> NDArray[np.float32]:
        """Three planes as in tic-tac-toe, the age of each mark, and the share of turns."""
        ages = np.zeros(10, np.float32)
        for age, square in enumerate(reversed(state.squares), 1):
            ages[square] = age
        ages[9] = state.num_turns / LONGEST
        return np.concatenate([self.game.features(self._board(state), seat), ages])

    def rules(self, seat: int) -> str:
        rules: str = self.game.rules(seat)
        old = "If the board is full and nobody has won, the game is a draw."
        return rules.replace(
            old,
            f"Each player has at most {NUM_MARKS} marks: with the next one the player's oldest "
            f"mark vanishes. After {LONGEST} turns without a winner, the game is a draw.",
        )

    def _board(self, state: Marks) -> Board:
        board, first = [0, 0], state.num_turns - len(state.squares)
        for number, square in enumerate(state.squares, first):
            board[number % 2] |= 1 << square
        return Board(*board)
