"""The level of a turn: means of other episodes over the seat, the turn and the group.

The model of a value of one seat, with variances in brackets:

    yᵢ = seat + turn [A] + group at the turn [τ²] + error [σ²]

The best linear unbiased prediction of turn and group is nested. The mean of the turn in other
groups is moved towards the seat's mean, and the mean of the group's other episodes towards that:

    turn  = seat + kₜ (mean of the turn in n rows of other G groups - seat)
    level = turn + k₉ (mean of the turn in m other rows of the group - turn)
    kₜ = A / (A + σ² / n + τ² / G),   k₉ = V / (V + σ² / m),   V = A (1 - kₜ) + τ²

So a turn that few others reach has the level of its seat. Variances come from rows of other
folds, means from all rows of other episodes (or trees of episodes).
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from arena_credit.batch import Floats, Ints
from arena_credit.estimators.slopes import (
    HUGE,
    TINY,
    TurnBlock,
    mean_and_spread,
)

PRIOR_ROWS = (
    2.0  # degrees of freedom by which a turn's variances lean on those of other turns
)
PRIOR_GROUPS = 3.0  # by which a variance between groups is moved towards 0
TWO_GROUPS = 30.0  # F at which the variance between groups is 0, where there are two
ONE_PAIR = 0.02  # of the mean square between, where one pair alone shows that within
FLAT = 1e-6  # least variance of an error, relative to that of all values


class Variances(NamedTuple):
    """float64[K, T]: σ² within groups, τ² between groups. float64[K]: A between turns."""

    within: Floats
    between: Floats
    turns: Floats


def levels(
    values: Sequence[Floats], blocks: Sequence[TurnBlock], tree: Ints, fold: Ints
) -> list[Floats]:
    """The level of each row of each turn, of other trees; 0 where there are none.

    Args:
        values: float64[K, n] of each turn: the values, with the slopes of each fold.
        blocks: the rows of each turn.
        tree: int64[N], the episode or tree of each row of the seat, from 0.
        fold: int64[N], of each row.
    """
    variances = _variances(values, blocks)
    seat, others = _seat_means(values, blocks, tree, variances)
    return [
        _of_turn(values[t], block, tree, fold, variances, t, seat, others)
        for t, block in enumerate(blocks)
    ]


class _Squares(NamedTuple):
    """Analysis of variance of one turn, float64[K] each.

    within, between: sums of squares, with freedoms. per_group: effective rows of a group.
    """

    within: Floats
    within_freedom: Floats
    between: Floats
    between_freedom: Floats
    per_group: Floats
    size: Floats
    mean: Floats
    groups: Floats


def _squares(values: Floats, block: TurnBlock) -> _Squares:
    """Of the training rows of each fold; groups may have unequal sizes."""
    size = np.add.reduceat(block.training, block.starts, axis=1)
    sums = np.add.reduceat(values * block.training, block.starts, axis=1)
    means = sums / np.maximum(size, 1)
    off = (values - means[:, block.group]) * block.training
    num, groups = size.sum(1), (size > 0).sum(1).astype(np.float64)
    mean = sums.sum(1) / np.maximum(num, 1)
    between_freedom = np.maximum(groups - 1, 0)
    effective = num - (size**2).sum(1) / np.maximum(num, 1)
    return _Squares(
        within=(off**2).sum(1),
        within_freedom=num - groups,
        between=(size * (means - mean[:, None]) ** 2).sum(1),
        between_freedom=between_freedom,
        per_group=effective / np.maximum(between_freedom, 1),
        size=num,
        mean=mean,
        groups=groups,
    )


def _variances(values: Sequence[Floats], blocks: Sequence[TurnBlock]) -> Variances:
    """Components of variance; those of thin turns lean on the median over turns.

    Of two groups, τ² needs a large F statistic to count. One pair of equal values is little
    evidence that σ² is 0. So in a batch of four, ties do not decide.
    """
    turns = [_squares(*pair) for pair in zip(values, blocks, strict=True)]
    by_turn = _Squares(*(np.stack(column, 1) for column in zip(*turns, strict=True)))
    freedom, groups = by_turn.within_freedom, by_turn.between_freedom
    typical = _median(by_turn.within / np.maximum(freedom, 1), freedom)
    error = by_turn.within.sum(1) / np.maximum(freedom.sum(1), 1)
    typical = np.where(typical > FLAT * error, typical, error)
    within = by_turn.within + PRIOR_ROWS * typical[:, None]
    within = within / np.maximum(freedom + PRIOR_ROWS, 1)
    square_between = by_turn.between / np.maximum(groups, 1)
    tied = (freedom < 2) & (within <= FLAT * square_between)
    within = within + np.where(tied, ONE_PAIR * square_between, 0.0)
    excess = square_between - within
    raw = np.where(groups > 0, excess / np.maximum(by_turn.per_group, TINY), 0.0)
    usual = np.maximum(0, _median(raw, groups))
    between = (groups * raw + PRIOR_ROWS * usual[:, None]) / (groups + PRIOR_ROWS)
    between = np.maximum(0, between) * groups / (groups + PRIOR_GROUPS)
    needed = np.where(groups < 2, TWO_GROUPS, 0.0)
    between *= np.maximum(0, 1 - needed * within / np.maximum(square_between, TINY))
    share = by_turn.size / np.maximum(by_turn.size.sum(1, keepdims=True), 1)
    overall = (share * by_turn.mean).sum(1, keepdims=True)
    spread = (share * (by_turn.mean - overall) ** 2).sum(1)
    # where one group, or no pair in a group, cannot tell them apart they count as equal
    pairless = (freedom.sum(1) == 0)[:, None]
    within = np.where(pairless, _median(square_between, groups)[:, None] / 2, within)
    within = np.maximum(within, FLAT * (error + spread)[:, None] + 1 / HUGE)
    between = np.where(pairless | (groups.sum(1) == 0)[:, None], within, between)
    # one row or none shows no variance: as much as in the other turns, not 0. Else the weight
    # of a turn that only the own episode has would drown all others in `_seat_means`
    unseen = by_turn.size < 2
    within = np.where(unseen, _median(within, by_turn.size)[:, None], within)
    between = np.where(unseen, _median(between, by_turn.size)[:, None], between)
    of_mean = within / np.maximum(by_turn.size, 1)
    of_mean += between / np.maximum(by_turn.groups, 1)
    _, _, of_turns = mean_and_spread(by_turn.mean, of_mean, by_turn.size > 0)
    return Variances(within, between, of_turns)


def _median(values: Floats, weight: Floats) -> Floats:
    """float64[K]: the weighted median along the turns."""
    folds = np.arange(len(values))
    order = np.where(weight > 0, values, np.inf).argsort(axis=1)
    total = weight[folds[:, None], order].cumsum(axis=1)
    place = (total < total[:, -1:] / 2).sum(axis=1)
    place = np.minimum(place, values.shape[1] - 1)
    return np.asarray(values[folds, order[folds, place]], np.float64)


def _seat_means(
    values: Sequence[Floats],
    blocks: Sequence[TurnBlock],
    tree: Ints,
    variances: Variances,
) -> tuple[Floats, Floats]:
    """The seat's mean without each tree, float64[K, trees]; and which others there are.

    A tree's rows are averaged by their precision; trees count by the root of the sum of
    these weights: between counting trees and counting turns.
    """
    precision = 1 / (variances.within + variances.between + variances.turns[:, None])
    precision = precision / precision.max(1, keepdims=True)
    num_trees = int(tree.max()) + 1
    sums, weight = np.zeros((2, len(precision), num_trees))
    for t, block in enumerate(blocks):
        of_rows = np.broadcast_to(precision[:, t, None], values[t].shape)
        sums += _by_tree(of_rows * values[t], tree[block.rows], num_trees)
        weight += _by_tree(of_rows, tree[block.rows], num_trees)
    mean = np.where(weight > 0, sums / np.maximum(weight, TINY), 0.0)
    count = np.sqrt(weight)
    others = count.sum(1, keepdims=True) - count
    total = (count * mean).sum(1, keepdims=True) - count * mean
    present = others > 1e-12
    return np.where(present, total / np.where(present, others, 1.0), 0.0), others


def _by_tree(values: Floats, tree: Ints, num_trees: int) -> Floats:
    """float64[K, trees]: sums over the rows of each tree."""
    num_folds = len(values)
    places = np.arange(num_folds)[:, None] * num_trees + tree
    flat = np.bincount(places.ravel(), values.ravel(), num_folds * num_trees)
    return np.asarray(flat.reshape(num_folds, num_trees), np.float64)


def _of_turn(
    values: Floats,
    block: TurnBlock,
    tree: Ints,
    fold: Ints,
    variances: Variances,
    turn: int,
    seat: Floats,
    others: Floats,
) -> Floats:
    """float64[n]: the level of the rows of one turn."""
    rows = block.rows
    mine, k, every = tree[rows], fold[rows], np.arange(len(rows))
    row_values = values[k, every]
    _, place = np.unique(mine, return_inverse=True)
    of_tree, num_tree = np.bincount(place, row_values)[place], np.bincount(place)[place]
    sums = np.add.reduceat(values, block.starts, axis=1)
    size = np.diff(np.append(block.starts, len(rows)))[block.group]
    in_group = size - num_tree
    group_mean = (sums[k, block.group] - of_tree) / np.maximum(in_group, 1)
    elsewhere = len(rows) - size
    other_groups = (sums.sum(1)[k] - sums[k, block.group]) / np.maximum(elsewhere, 1)
    within, between = variances.within[k, turn], variances.between[k, turn]
    of_turns, level = variances.turns[k], seat[k, mine]
    error = within / np.maximum(elsewhere, 1)
    error += between / max(len(block.starts) - 1, 1)
    share = of_turns / np.maximum(of_turns + error, TINY)
    share = np.where(elsewhere > 0, share, 0.0)
    level = level + share * (other_groups - level)
    prior = of_turns * (1 - share) + between
    error = within / np.maximum(in_group, 1)
    share = np.where(in_group > 0, prior / np.maximum(prior + error, TINY), 0.0)
    level = level + share * (group_mean - level)
    return np.where(others[k, mine] > 1e-12, level, 0.0)
