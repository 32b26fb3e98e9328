"""Trajectories: the turns that are not masked, in order, and their returns."""

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from arena_credit.batch import Bools, Floats, Ints, TurnBatch, check_size


@dataclass(frozen=True, eq=False)
class Trajectories:
    """The M turns that are not masked, trajectory by trajectory, in playing order.

    An estimator takes this as its argument. Segments of one rollout are joined.

    Args:
        batch: the turn batch.
        row: int64[M], row of each turn in the batch.
        index: int64[M], trajectory of each turn.
        first: int64[R], place of each trajectory's first turn.
        left: int64[M], number of later turns of the same trajectory.
    """

    batch: TurnBatch
    row: Ints
    index: Ints
    first: Ints
    left: Ints

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            hint = ""
            if name in TurnBatch.__dataclass_fields__:
                hint = f": use turns.column({name!r})"
            raise AttributeError(f"Trajectories has no attribute {name!r}{hint}")

    def column(self, name: str) -> Any:
        """A column of the batch, for these turns or for their tokens.

        Args:
            name: as in `needs`: `"value"`, `"rewards.judge"`, `"tokens.entropy"`.

        Raises:
            ValueError: the batch has no such column, or a turn has no tokens.
        """
        kind, _, part = name.partition(".")
        column = getattr(self.batch, kind)
        if part:
            column = (column or {}).get(part)
        if column is None:
            raise ValueError(f"want the column {name!r} in the turn batch, got None")
        if kind != "tokens":
            return column[self.row]
        empty = self.row[self.column("num_tokens") < 1]
        if len(empty) > 0:
            raise ValueError(
                f"want tokens in every turn, got num_tokens[{empty.min()}] = 0"
            )
        return column[self.token_row]

    @cached_property
    def token_row(self) -> Ints:
        """int64[T]: places in token columns of the tokens of these turns, turn by turn."""
        num = self.batch.num_tokens
        if num is None:
            raise ValueError("want the column 'num_tokens' in the turn batch, got None")
        lengths = num[self.row]
        shift = (np.cumsum(num) - num)[self.row] - (np.cumsum(lengths) - lengths)
        return np.repeat(shift, lengths) + np.arange(int(lengths.sum()))

    @property
    def unselected(self) -> Bools:
        """bool[M]: the column `unselected` of these turns; all true if it is not given."""
        return self.batch.is_unselected[self.row]

    @property
    def num_turns(self) -> Ints:
        """int64[M]: number of turns of each turn's trajectory."""
        return np.bincount(self.index, minlength=len(self.first))[self.index]

    @cached_property
    def turn(self) -> Ints:
        """int64[M]: index of each turn in its trajectory; segments of a rollout count on."""
        turn, episode = self.column("turn"), self.column("episode")
        step = turn.copy()
        step[1:] -= turn[:-1]
        step[differs_from_before(episode)] = 1
        total = step.cumsum()
        return np.asarray(total + (turn - total)[self.first][self.index])

    def scatter(self, advantage: Floats, per_token: bool = False) -> Floats:
        """Advantages of these turns, or of their tokens, as a column; 0 where masked.

        Args:
            advantage: float64[M], or float64[T] per token.
            per_token: whether `advantage` is per token.

        Returns:
            float64[N], or float64[num_tokens.sum()].

        Raises:
            ValueError: the wrong number of advantages, or no column `num_tokens`.
        """
        unit, rows, size = "turn", self.row, len(self.batch.reward)
        if per_token:
            num: Any = self.batch.num_tokens  # token_row raises for None
            unit, rows = "token", self.token_row
            size = int(num.sum())
        if len(advantage) != len(rows):
            raise ValueError(
                f"want {len(rows)} advantages, one per {unit}, got {len(advantage)}"
            )
        column = np.zeros(size)
        column[rows] = advantage
        return column


def differs_from_before(column: Ints) -> Bools:
    """bool[N]: whether each entry differs from the one before; True at the first.

    >>> differs_from_before(np.array([7, 7, 2]))
    array([ True, False,  True])
    """
    differs = np.empty(len(column), np.bool_)
    differs[:1] = True
    np.not_equal(column[1:], column[:-1], out=differs[1:])
    return differs


def trajectories(batch: TurnBatch) -> Trajectories:
    """The turns of a batch that are not masked, in order."""
    row = batch.order
    if batch.mask is not None:
        row = row[batch.mask[row]]
    unit, seat = batch.unit[row], batch.seat[row]
    starts = differs_from_before(unit) | differs_from_before(seat)
    first = starts.nonzero()[0]
    index = starts.cumsum() - 1
    end = np.append(first[1:], len(row))
    return Trajectories(batch, row, index, first, end[index] - 1 - np.arange(len(row)))


def require(turns: Trajectories, *names: str) -> None:
    """Raises if the batch lacks a column; there are no defaults for missing columns.

    Args:
        turns: the turns that count.
        *names: names of columns, as in `needs`.

    Raises:
        ValueError: the batch lacks one of them.
    """
    for name in names:
        turns.column(name)


def returns_to_go(turns: Trajectories, reward: Floats, discount: float = 1.0) -> Floats:
    """Sums the rewards of a trajectory from each turn on.

        Rₖ = Σ_{j ≥ k} γ^{j - k} rⱼ

    Args:
        turns: the turns that count.
        reward: float64[M], of these turns.
        discount: γ, per turn of the same seat.

    Returns:
        float64[M], in the reward's unit.
    """
    return discounted_sums(reward, turns.left, discount)


def sizes_to_go(turns: Trajectories, reward: Floats, discount: float = 1.0) -> Floats:
    """float64[M]: Σ γʲ|r|, the size of the numbers that `returns_to_go` sums.

    `beyond_rounding` compares spreads with it.
    """
    return returns_to_go(turns, np.abs(reward), discount)


def discounted_sums(
    values: Floats, left: Ints, discount: float, num_terms: int | None = None
) -> Floats:
    """Sums each value and the later values of its run, discounted.

    By doubling: a sum over 2n values is the sum over n values plus the sum over the next n.

    Args:
        values: float64[V], run after run.
        left: int64[V], number of later values of the same run.
        discount: factor per step, 0 to 1.
        num_terms: the most values in a sum; None for all up to the run's end.

    >>> discounted_sums(np.array([1.0, 2.0, 4.0, 8.0]), np.array([2, 1, 0, 0]), 0.5)
    array([3., 4., 4., 8.])
    """
    longest = int(left.max(initial=0)) + 1
    window = longest if num_terms is None else min(num_terms, longest)
    if window < longest:
        return _windows(values, left, discount, window)
    total = values.copy()
    span = 1
    while span < window:
        _extend(total, total, left, discount, span)
        span *= 2
    return total


def _windows(values: Floats, left: Ints, discount: float, window: int) -> Floats:
    """Sums over `window` values, or up to the run's end, by digits of `window`."""
    total, power, done, span = np.zeros_like(values), values.copy(), 0, 1
    while done < window:
        if window & span:
            if done:
                _extend(total, power, left, discount, done)
            else:
                total = power.copy()
            done += span
        _extend(power, power, left, discount, span)
        span *= 2
    return total


def _extend(total: Floats, more: Floats, left: Ints, discount: float, by: int) -> None:
    """Adds in place to sums over `by` values the sums that begin `by` values later."""
    if by < len(total):
        reached = left[:-by] >= by
        total[:-by] += np.where(reached, discount**by * more[by:], 0.0)


def values_after(turns: Trajectories, value: Floats) -> Floats:
    """The value after each turn: that before the seat's next turn, or at the end.

    Args:
        turns: the turns that count, with `truncated`, and with `next_value` if one is true.
        value: float64[M], before each turn.

    Returns:
        float64[M]. After a trajectory's last turn it is 0 if the rules ended the
        trajectory, and `next_value` if a limit cut it.

    Raises:
        ValueError: a missing column, or a `next_value` of a truncated trajectory that is
            not finite or above 1e100.
    """
    after = np.append(value[1:], 0.0)[: len(value)]
    after[turns.left == 0] = 0.0
    cut = (turns.left == 0) & turns.column("truncated")
    if cut.any():
        next_value = np.zeros(len(turns.batch.reward))
        next_value[turns.row[cut]] = turns.column("next_value")[cut]
        check_size("next_value", next_value)
        after[cut] = next_value[turns.row[cut]]
    return after


def temporal_differences(
    turns: Trajectories, reward: Floats, value: Floats, discount: float
) -> Floats:
    """Temporal differences of a value over a seat's own turns.

        δₖ = rₖ + γ Vₖ₊₁ - Vₖ

    Σ_{l ≥ 0} (γλ)^l δₖ₊ₗ is generalised advantage estimation. This sum plus Vₖ is the
    λ-return; over n terms with λ = 1, plus Vₖ, it is the n-step return.

    Args:
        turns: the turns that count, with `truncated`, and with `next_value` if one is true.
        reward: float64[M], of these turns.
        value: float64[M], before each turn.
        discount: γ, per turn of the same seat.

    Returns:
        float64[M], in the reward's unit.

    Raises:
        ValueError: as in `values_after`.
    """
    return reward + discount * values_after(turns, value) - value
