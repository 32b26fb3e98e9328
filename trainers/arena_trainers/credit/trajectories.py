"""Trajectories: the turns that count, in order, and what they are paid."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from arena_trainers.credit.batch import Floats, Ints, TurnBatch


@dataclass(frozen=True, eq=False)
class Trajectories:
    """The M turns that count, trajectory by trajectory, each in playing order.

    This is what an estimator is given: masked turns are gone, segments of one rollout are
    joined, and the order is always the same.

    Args:
        batch: where they are from.
        row: int64[M], their rows in the batch.
        index: int64[M], the trajectory of each.
        first: int64[R], where each trajectory starts.
        left: int64[M], turns that its trajectory has after this one.
    """

    batch: TurnBatch
    row: Ints
    index: Ints
    first: Ints
    left: Ints

    def column(self, name: str) -> Any:
        """A column of the batch, at these turns or at their tokens.

        Args:
            name: as `needs` has it: `"value"`, `"rewards.judge"`, `"tokens.entropy"`.

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
        num = self.batch.num_tokens
        if num is not None and (num < 1).any():
            row = np.flatnonzero(num < 1)[0]
            raise ValueError(f"want tokens in every turn, got num_tokens[{row}] = 0")
        return column[self.token_row]

    @cached_property
    def token_row(self) -> Ints:
        """The tokens of these turns, turn after turn: their places in token columns."""
        num = self.batch.num_tokens
        if num is None:
            raise ValueError("want the column 'num_tokens' in the turn batch, got None")
        own = num[self.row]
        shift = (np.cumsum(num) - num)[self.row] - (np.cumsum(own) - own)
        return np.repeat(shift, own) + np.arange(int(own.sum()))

    def scatter(self, advantage: Floats) -> Floats:
        """Advantages of these turns, or of their tokens, as a column with 0 elsewhere.

        Where each of these turns is one token, the two are the same, and come per turn.
        """
        if len(advantage) == len(self.row):
            column = np.zeros(len(self.batch.reward))
            column[self.row] = advantage
            return column
        num = self.batch.num_tokens
        if num is None or len(advantage) != num[self.row].sum():
            raise ValueError(
                f"want {len(self.row)} advantages, one per turn, or one per token; "
                f"got {len(advantage)}"
            )
        column = np.zeros(int(num.sum()))
        column[self.token_row] = advantage
        return column


def trajectories(batch: TurnBatch) -> Trajectories:
    """The turns of a batch that count, in order."""
    row = batch.order
    if batch.mask is not None:
        row = row[batch.mask[row]]
    unit, seat = batch.unit[row], batch.seat[row]
    starts = np.ones(len(row), bool)
    starts[1:] = (unit[1:] != unit[:-1]) | (seat[1:] != seat[:-1])
    first = np.flatnonzero(starts)
    index = np.cumsum(starts) - 1
    end = np.append(first[1:], len(row))
    return Trajectories(batch, row, index, first, end[index] - 1 - np.arange(len(row)))


def returns_to_go(turns: Trajectories, reward: Floats, discount: float = 1.0) -> Floats:
    """Sums what a trajectory is paid from each turn on.

        Rₖ = Σ_{j ≥ k} γ^{j - k} rⱼ

    By doubling: the sum over 2n turns is that over n, and that over the next n. No number
    of one trajectory touches another's.

    Args:
        turns: the turns that count.
        reward: float64[M], of these turns.
        discount: γ, per turn of the same seat.

    Returns:
        float64[M], in the reward's unit.
    """
    total = reward.copy()
    span, longest = 1, int(turns.left.max(initial=0))
    while span <= longest:
        more = discount**span * total[span:]
        total[:-span] += np.where(turns.left[:-span] >= span, more, 0.0)
        span *= 2
    return total
