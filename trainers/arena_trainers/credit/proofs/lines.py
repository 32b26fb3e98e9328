"""All lines of play of a small game, turn by turn."""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from arena_trainers.credit.batch import Bools, Floats, Ints

CHANCE = -1
MAX_LINES = 10_000
ROUNDED = 12  # digits of what is drawn
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


@runtime_checkable
class PaysBesides(Protocol):
    """A game that pays more than the outcome."""

    def side_reward(self, state: Any) -> Sequence[float]:
        """What of its return so far is not the outcome, of each seat."""


class Line(NamedTuple):
    """One way an episode can go; the tuples have one entry per turn, in playing order.

    chance: probability of its chance outcomes.
    chance_intervals: from where to where in [0, 1) the number lies that is drawn at each chance node.
    columns: (information state, action) of each turn, by number.
    seats: whose turn.
    turns: number among the seat's own.
    rewards: what the turn is paid until the seat's next turn, or the end of the line.
    side_reward: what of that is not the outcome.
    to_go: the same until the end of the line.
    cut: whether a limit of turns ended it.
    """

    chance: float
    chance_intervals: tuple[tuple[float, float], ...]
    columns: tuple[int, ...]
    seats: tuple[int, ...]
    turns: tuple[int, ...]
    rewards: tuple[float, ...]
    side_reward: tuple[float, ...]
    to_go: tuple[float, ...]
    cut: bool


class _Step(NamedTuple):
    seat: int
    column: int
    before: float  # return of the seat when it chose
    side_reward: float  # what of that is not the outcome


class _Drawn(NamedTuple):
    chance: float = 1.0
    chance_intervals: tuple[tuple[float, float], ...] = ()


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
        self._visit(game.initial_state(), _Drawn(), (), -1)

    def _visit(
        self, state: Any, drawn: _Drawn, steps: tuple[_Step, ...], begin: int
    ) -> None:
        game = self._game
        player = game.current_player(state)
        if player == CHANCE:
            low = 0.0
            for outcome, p in game.chance_outcomes(state):
                chance_intervals = (*drawn.chance_intervals, (low, low + p))
                more = _Drawn(drawn.chance * p, chance_intervals)
                self._visit(game.apply(state, outcome), more, steps, begin)
                low += p
            return
        paid, side_reward = game.returns(state), self._side_reward(state)
        if player >= 0 and len(steps) == self._limit:
            begin = len(self.lines)
            self.lines.append(_line(drawn, steps, paid, side_reward, True))
        if player < 0:
            line = _line(drawn, steps, paid, side_reward, False)
            self.whole.append(line)
            self.begin.append(len(self.lines) if begin < 0 else begin)
            if begin < 0:
                self.lines.append(line)
            if len(self.whole) > MAX_LINES:
                raise ValueError(f"want at most {MAX_LINES} lines of play in {game!r}")
            return
        actions = game.legal_actions(state)
        first = self._column((player, game.information_state(state, player)), actions)
        for column, action in enumerate(actions, first):
            step = _Step(player, column, paid[player], side_reward[player])
            self._visit(game.apply(state, action), drawn, (*steps, step), begin)

    def _side_reward(self, state: Any) -> Sequence[float]:
        if isinstance(self._game, PaysBesides):
            return self._game.side_reward(state)
        return (0.0,) * self._game.num_players

    def _column(self, key: Key, actions: Sequence[Any]) -> int:
        """The first column of an information state."""
        if key not in self._first:
            self._first[key] = sum(self.widths)
            self.keys.append(key)
            self.widths.append(len(actions))
        return self._first[key]


def _line(
    drawn: _Drawn,
    steps: tuple[_Step, ...],
    returns: Sequence[float],
    side_reward: Sequence[float],
    cut: bool,
) -> Line:
    seats = tuple(step.seat for step in steps)
    before = tuple(step.before for step in steps)
    return Line(
        drawn.chance,
        drawn.chance_intervals,
        tuple(step.column for step in steps),
        seats,
        tuple(seats[:k].count(seat) for k, seat in enumerate(seats)),
        _differences(seats, before, returns),
        _differences(seats, tuple(step.side_reward for step in steps), side_reward),
        tuple(returns[step.seat] - step.before for step in steps),
        cut,
    )


def _differences(
    seats: tuple[int, ...], before: tuple[float, ...], end: Sequence[float]
) -> tuple[float, ...]:
    """What each turn adds until the seat's next one, or the end."""
    later, added = list(end), []
    for seat, at in zip(reversed(seats), reversed(before), strict=True):
        added.append(later[seat] - at)
        later[seat] = at
    return tuple(reversed(added))


class Flat(NamedTuple):
    """The turns of some lines as arrays, line after line.

    chance: float64[L], probability of the chance outcomes of each line.
    start: int64[L], where each line starts; size: int64[L], its number of turns.
    column, seat, turn, reward, side_reward, to_go: of each turn.
    last: bool, the seat's last turn. cut: bool, on a line that was cut.
    """

    chance: Floats
    start: Ints
    size: Ints
    column: Ints
    seat: Ints
    turn: Ints
    reward: Floats
    side_reward: Floats
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
        np.concatenate([line.side_reward for line in lines]),
        np.concatenate([line.to_go for line in lines]),
        np.array(last),
        np.repeat([line.cut for line in lines], size),
    )


def starts_of(lines: Sequence[Line]) -> tuple[Floats, Bools]:
    """What may be drawn before an episode begins, and what it leads to.

    Chance is a row of numbers in [0, 1): the k-th decides at the k-th chance node, whichever
    that is. A start is a set of such rows that make no difference to any line.

    Returns:
        float64[S], how likely each start is, and bool[S, L], the lines that it allows.

    Raises:
        ValueError: there are more than 10,000 starts.
    """
    depth = max(len(line.chance_intervals) for line in lines)
    probability, allowed = np.ones(1), np.ones((1, len(lines)), bool)
    for k in range(depth):
        spans = [
            line.chance_intervals[k] if k < len(line.chance_intervals) else (0.0, 1.0)
            for line in lines
        ]
        low, high = np.array(spans).T.round(ROUNDED)
        edges = np.unique(np.append(low, high))
        middle = (edges[1:] + edges[:-1])[:, None] / 2
        inside = (low < middle) & (middle < high)  # [parts of [0, 1), L]
        if len(probability) * len(middle) > MAX_LINES:
            raise ValueError(f"want at most {MAX_LINES} starts, got more")
        probability = np.outer(probability, np.diff(edges)).ravel()
        allowed = (allowed[:, None] & inside).reshape(-1, len(lines))
    return probability, allowed
