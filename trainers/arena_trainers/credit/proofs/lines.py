"""All lines of play of a small game, turn by turn.

A line of play is one path from the initial state to the end.
"""

from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np

from arena_envs.game import CHANCE, AnyExtensiveForm
from arena_trainers.credit.batch import Bools, Floats, Ints

MAX_LINES = 10_000  # lines of play, and starts: each is a row of arrays
DIGITS = 12  # of the ends of chance intervals: sums in another order are equal
Key = tuple[int, Hashable]  # seat, information state


@runtime_checkable
class PaysBesides(Protocol):
    """A game whose returns include side rewards."""

    def side_reward(self, state: Any) -> Sequence[float]:
        """The part of each seat's return so far that does not belong to the outcome."""


class Line(NamedTuple):
    """A line of play; tuples have one entry per turn, in playing order.

    chance: probability of its chance outcomes.
    chance_intervals: one (low, high) per chance node: a uniform number in [low, high)
        draws the outcome of this line.
    columns: column of the turn's information state and action.
    seats: the seat to move.
    turns: number of the turn among those of its seat, from 0.
    rewards: what the seat is paid until its next turn, or until the end of the line.
    side_reward: the part of the reward that does not belong to the outcome.
    to_go: return-to-go, up to the end of the line.
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
    before: float  # return of the seat before the turn
    side_reward: float  # the part of `before` that does not belong to the outcome


class _Drawn(NamedTuple):
    chance: float = 1.0
    chance_intervals: tuple[tuple[float, float], ...] = ()


class Walk:
    """All lines of play of a game.

    Args:
        game: the rules.
        max_turns: limit of turns, all seats together; None for no limit.

    Attributes:
        keys: (seat, information state) of each information state.
        widths: number of actions of each information state. Columns are numbered by
            information state, then by action.
        lines: the lines up to the limit of turns.
        whole: the lines up to the end of the game.
        begin: for each of `whole`, the index of the line in `lines` with which it begins.

    Raises:
        ValueError: there are more than 10,000 lines.
    """

    def __init__(self, game: AnyExtensiveForm, max_turns: int | None = None) -> None:
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
        paid = game.returns(state)
        side_reward: Sequence[float] = (0.0,) * game.num_players
        if isinstance(game, PaysBesides):
            side_reward = game.side_reward(state)
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
                raise ValueError(
                    f"want at most {MAX_LINES} lines of play, got more in {game!r}; use "
                    "a smaller game"
                )
            return
        actions = game.legal_actions(state)
        first = self._column((player, game.information_state(state, player)), actions)
        for column, action in enumerate(actions, first):
            step = _Step(player, column, paid[player], side_reward[player])
            self._visit(game.apply(state, action), drawn, (*steps, step), begin)

    def _column(self, key: Key, actions: Sequence[Any]) -> int:
        """The first column of an information state, which is added if it is new."""
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
    """Growth of a seat's return from each of its turns to the next, or to the end."""
    later, added = list(end), []
    for seat, at in zip(reversed(seats), reversed(before), strict=True):
        added.append(later[seat] - at)
        later[seat] = at
    return tuple(reversed(added))


class Flat(NamedTuple):
    """L lines as arrays; their T turns stand line after line.

    chance: float64[L], probability of the chance outcomes.
    start: int64[L], row of the line's first turn. size: int64[L], number of its turns.
    column, seat, turn, reward, side_reward, to_go: [T], see `Line`.
    last: bool[T], the seat's last turn on the line.
    cut: bool[T], whether a limit of turns ended the line.
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
        """int64: the rows of all turns of some lines, one line after another."""
        size = self.size[drawn]
        shift = self.start[drawn] - (np.cumsum(size) - size)
        return np.asarray(np.repeat(shift, size) + np.arange(size.sum()), np.int64)

    def probabilities(self, policy: Floats) -> Floats:
        """float64[L]: probability of each line when all seats play by float64[C]."""
        found = self.chance.copy()
        whose = np.repeat(np.arange(len(found)), self.size)
        np.multiply.at(found, whose, policy[self.column])
        return found


def flatten(lines: Sequence[Line]) -> Flat:
    """The lines as arrays."""
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
    """The starts of a game: the draws of chance that the episodes of a group share.

    A seed stands for a row of uniform numbers in [0, 1). The k-th number draws the outcome
    of the k-th chance node of an episode. A start is a set of rows with the same outcomes
    on every line.

    Returns:
        float64[S], probability of each start, and bool[S, L], the lines that are possible
        from it.

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
        low, high = np.array(spans).T.round(DIGITS)
        edges = np.unique(np.append(low, high))
        middle = (edges[1:] + edges[:-1])[:, None] / 2
        inside = (low < middle) & (middle < high)  # [parts of [0, 1), L]
        if len(probability) * len(middle) > MAX_LINES:
            raise ValueError(
                f"want at most {MAX_LINES} starts, got more; use a smaller game"
            )
        probability = np.outer(probability, np.diff(edges)).ravel()
        allowed = (allowed[:, None] & inside).reshape(-1, len(lines))
    return probability, allowed
