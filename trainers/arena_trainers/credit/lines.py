"""All lines of play of a small game, turn by turn."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np

from arena_trainers.credit.batch import Bools, Floats, Ints

CHANCE = -1
MAX_LINES = 10_000
Key = tuple[int, Hashable]  # seat, information state


class Playable(Protocol):
    """The part of `arena_envs.game.Game` that is read here."""

    @property
    def num_players(self) -> int:
        """Number of seats."""

    @property
    def teams(self) -> Sequence[int]:
        """Team of each seat."""

    def initial_state(self) -> Any:
        """The state before anything has happened."""

    def current_player(self, state: Any) -> int:
        """The seat to move, -1 for chance, less at the end."""

    def chance_outcomes(self, state: Any) -> Sequence[tuple[Any, float]]:
        """Outcomes with their probabilities."""

    def legal_actions(self, state: Any) -> Sequence[Any]:
        """Actions of the seat to move."""

    def apply(self, state: Any, action: Any) -> Any:
        """The state after an action or an outcome."""

    def returns(self, state: Any) -> Sequence[float]:
        """What each seat has been paid so far."""

    def information_state(self, state: Any, seat: int) -> Hashable:
        """What a seat knows."""


class Line(NamedTuple):
    """One way an episode can go; the tuples have one entry per turn, in playing order.

    chance: probability of its chance outcomes.
    columns: (information state, action) of each turn, by number.
    seats: whose turn.
    turns: number among the seat's own.
    rewards: what the turn is paid until the seat's next turn, or the end of the line.
    to_go: the same until the end of the line.
    cut: whether a limit of turns ended it.
    """

    chance: float
    columns: tuple[int, ...]
    seats: tuple[int, ...]
    turns: tuple[int, ...]
    rewards: tuple[float, ...]
    to_go: tuple[float, ...]
    cut: bool


class _Step(NamedTuple):
    seat: int
    column: int
    before: float  # return of the seat when it chose


class Walk:
    """A walk through a game along all its lines.

    Args:
        game: the rules.
        max_turns: limit of turns, all seats together; None for no limit.

    Attributes:
        keys: (seat, information state) of each information state.
        widths: number of its actions; columns are numbered state by state.
        lines: as far as the limit.
        whole: to the end of the game.
        begin: which of `lines` each of `whole` begins with.

    Raises:
        ValueError: there are more than 10,000 lines.
    """

    def __init__(self, game: Playable, max_turns: int | None = None) -> None:
        self.keys: list[Key] = []
        self.widths: list[int] = []
        self.lines: list[Line] = []
        self.whole: list[Line] = []
        self.begin: list[int] = []
        self._game = game
        self._limit = max_turns
        self._first: dict[Key, int] = {}
        self._visit(game.initial_state(), 1.0, (), -1)

    def _visit(
        self, state: Any, chance: float, steps: tuple[_Step, ...], begin: int
    ) -> None:
        game = self._game
        player = game.current_player(state)
        if player == CHANCE:
            for outcome, p in game.chance_outcomes(state):
                self._visit(game.apply(state, outcome), chance * p, steps, begin)
            return
        if player >= 0 and len(steps) == self._limit:
            begin = len(self.lines)
            self.lines.append(_line(chance, steps, game.returns(state), True))
        if player < 0:
            line = _line(chance, steps, game.returns(state), False)
            self.whole.append(line)
            self.begin.append(len(self.lines) if begin < 0 else begin)
            if begin < 0:
                self.lines.append(line)
            if len(self.whole) > MAX_LINES:
                raise ValueError(f"want at most {MAX_LINES} lines of play in {game!r}")
            return
        actions = game.legal_actions(state)
        first = self._column((player, game.information_state(state, player)), actions)
        before = game.returns(state)[player]
        for column, action in enumerate(actions, first):
            step = _Step(player, column, before)
            self._visit(game.apply(state, action), chance, (*steps, step), begin)

    def _column(self, key: Key, actions: Sequence[Any]) -> int:
        """The first column of an information state."""
        if key not in self._first:
            self._first[key] = sum(self.widths)
            self.keys.append(key)
            self.widths.append(len(actions))
        return self._first[key]


def _line(
    chance: float, steps: tuple[_Step, ...], returns: Sequence[float], cut: bool
) -> Line:
    turns, later = [], list(returns)
    count = [0] * len(returns)
    for step in steps:
        turns.append(count[step.seat])
        count[step.seat] += 1
    rewards = []
    for step in reversed(steps):
        rewards.append(later[step.seat] - step.before)
        later[step.seat] = step.before
    return Line(
        chance,
        tuple(step.column for step in steps),
        tuple(step.seat for step in steps),
        tuple(turns),
        tuple(reversed(rewards)),
        tuple(returns[step.seat] - step.before for step in steps),
        cut,
    )


class Flat(NamedTuple):
    """The turns of some lines as arrays, line after line.

    chance: float64[L], probability of the chance outcomes of each line.
    start: int64[L], where each line starts; size: int64[L], its number of turns.
    column, seat, turn, reward, to_go: of each turn.
    last: bool, the seat's last turn. cut: bool, on a line that was cut.
    """

    chance: Floats
    start: Ints
    size: Ints
    column: Ints
    seat: Ints
    turn: Ints
    reward: Floats
    to_go: Floats
    last: Bools
    cut: Bools

    def rows(self, drawn: Sequence[int] | Ints) -> Ints:
        """The turns of the lines that were drawn, one line after another."""
        size = self.size[drawn]
        shift = self.start[drawn] - (np.cumsum(size) - size)
        return np.asarray(np.repeat(shift, size) + np.arange(size.sum()), np.int64)

    def probabilities(self, policy: Floats) -> Floats:
        """float64[L]: of each line, if all seats play by a policy."""
        found = self.chance.copy()
        whose = np.repeat(np.arange(len(found)), self.size)
        np.multiply.at(found, whose, policy[self.column])
        return found


def flatten(lines: Sequence[Line]) -> Flat:
    """Lines as arrays."""
    size = np.array([len(line.seats) for line in lines])
    last = [
        seat not in line.seats[k + 1 :]
        for line in lines
        for k, seat in enumerate(line.seats)
    ]
    return Flat(
        np.array([line.chance for line in lines]),
        np.cumsum(size) - size,
        size,
        np.concatenate([line.columns for line in lines]).astype(np.int64),
        np.concatenate([line.seats for line in lines]).astype(np.int64),
        np.concatenate([line.turns for line in lines]).astype(np.int64),
        np.concatenate([line.rewards for line in lines]),
        np.concatenate([line.to_go for line in lines]),
        np.array(last),
        np.repeat([line.cut for line in lines], size),
    )
