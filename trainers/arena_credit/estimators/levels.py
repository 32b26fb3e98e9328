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

from typing import NamedTuple

import numpy as np

from arena_credit.batch import Floats, Ints
from arena_credit.estimators.slopes import (
    HUGE,
    TINY,
    Layout,
    spread_of,
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


def levels(values: Floats, layout: Layout, tree: Ints, fold: Ints) -> Floats:
    """float64[N]: the level of each row, of other trees; 0 where there are none.

    Args:
        values: float64[K, N], with the slopes of each fold.
        layout: turns and groups of the rows.
        tree: int64[N], the episode or tree of each row, from 0.
        fold: int64[N], of each row.
    """
    variances = _variances(_squares(values, layout))
    seat, others = _seat_means(values, layout, tree, variances)
    return _of_rows(values, layout, tree, fold, variances, seat, others)


class _Squares(NamedTuple):
    """Analysis of variance of each turn, float64[K, T] each.

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


def _squares(values: Floats, layout: Layout) -> _Squares:
    """Of the training rows of each fold; groups may have unequal sizes."""
    size, num = layout.size, layout.num
    sums = layout.sums(values * layout.training)
    means = sums / layout.size_or_one
    off = values - means.take(layout.cell, axis=1)
    off *= layout.training
    within = layout.over_turns(layout.sums(np.square(off, out=off)))
    mean = layout.over_turns(sums) / layout.num_or_one
    effective = num - layout.over_turns(size**2) / layout.num_or_one
    return _Squares(
        within=within,
        within_freedom=layout.within_freedom,
        between=layout.over_turns(
            size * (means - mean.take(layout.turn_of_cell, axis=1)) ** 2
        ),
        between_freedom=layout.between_freedom,
        per_group=effective / layout.between_or_one,
        size=num,
        mean=mean,
        groups=layout.num_groups,
    )


def _variances(by_turn: _Squares) -> Variances:
    """Components of variance; those of thin turns lean on the median over turns.

    Of two groups, τ² needs a large F statistic to count. One pair of equal values is little
    evidence that σ² is 0. So in a batch of four, ties do not decide.
    """
    freedom, groups = by_turn.within_freedom, by_turn.between_freedom
    total_freedom = freedom.sum(1)
    typical = _median(by_turn.within / np.maximum(freedom, 1), freedom)
    error = by_turn.within.sum(1) / np.maximum(total_freedom, 1)
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
    pairless = (total_freedom == 0)[:, None]
    if pairless.any():
        half = _median(square_between, groups)[:, None] / 2
        within = np.where(pairless, half, within)
    within = np.maximum(within, FLAT * (error + spread)[:, None] + 1 / HUGE)
    between = np.where(pairless | (groups.sum(1) == 0)[:, None], within, between)
    # one row or none shows no variance: as much as in the other turns, not 0. Else the weight
    # of a turn that only the own episode has would drown all others in `_seat_means`
    unseen = by_turn.size < 2
    if unseen.any():
        within, between = (
            np.where(unseen, _median(part, by_turn.size)[:, None], part)
            for part in (within, between)
        )
    of_mean = within / np.maximum(by_turn.size, 1)
    of_mean += between / np.maximum(by_turn.groups, 1)
    of_turns = spread_of(by_turn.mean, of_mean, by_turn.size > 0)
    return Variances(within, between, of_turns)


def _median(values: Floats, weight: Floats) -> Floats:
    """float64[K]: the weighted median along the turns."""
    if values.shape[1] == 1:
        return values[:, 0]
    folds = np.arange(len(values))
    order = np.where(weight > 0, values, np.inf).argsort(axis=1)
    total = weight[folds[:, None], order].cumsum(axis=1)
    place = (total < total[:, -1:] / 2).sum(axis=1)
    place = np.minimum(place, values.shape[1] - 1)
    return np.asarray(values[folds, order[folds, place]], np.float64)


def _seat_means(
    values: Floats, layout: Layout, tree: Ints, variances: Variances
) -> tuple[Floats, Floats]:
    """The seat's mean without each tree, float64[K, trees]; and which others there are.

    A tree's rows are averaged by their precision; trees count by the root of the sum of
    these weights: between counting trees and counting turns.
    """
    precision = 1 / (variances.within + variances.between + variances.turns[:, None])
    precision = precision / precision.max(1, keepdims=True)
    of_rows = precision.take(layout.turn_of_cell[layout.cell], axis=1)
    weight, sums = _by_tree(tree, of_rows, of_rows * values)
    mean = np.where(weight > 0, sums / np.maximum(weight, TINY), 0.0)
    count = np.sqrt(weight)
    others = count.sum(1, keepdims=True) - count
    total = (count * mean).sum(1, keepdims=True) - count * mean
    present = others > 1e-12
    return np.where(present, total / np.where(present, others, 1.0), 0.0), others


def _by_tree(tree: Ints, *columns: Floats) -> list[Floats]:
    """float64[K, trees] of float64[K, N]: sums over the rows of each tree."""
    num_folds, num_trees = len(columns[0]), int(tree.max()) + 1
    places = (np.arange(num_folds)[:, None] * num_trees + tree).ravel()
    size = num_folds * num_trees
    sums = [np.bincount(places, values.ravel(), size) for values in columns]
    return [
        np.asarray(of_trees.reshape(num_folds, num_trees), np.float64)
        for of_trees in sums
    ]


def _of_rows(
    values: Floats,
    layout: Layout,
    tree: Ints,
    fold: Ints,
    variances: Variances,
    seat: Floats,
    others: Floats,
) -> Floats:
    """float64[N]: the level of each row."""
    cell = layout.cell
    turn = layout.turn_of_cell[cell]
    row_values = values[fold, np.arange(len(fold))]
    _, place = np.unique(turn * (tree.max() + 1) + tree, return_inverse=True)
    of_tree, num_tree = np.bincount(place, row_values)[place], np.bincount(place)[place]
    size = np.bincount(cell)
    sums = layout.sums(values)
    sums_of_turn = layout.over_turns(sums)
    num, num_groups = np.bincount(turn)[turn], np.bincount(layout.turn_of_cell)[turn]
    in_group, elsewhere = size[cell] - num_tree, num - size[cell]
    of_cell = sums[fold, cell]
    group_mean = (of_cell - of_tree) / np.maximum(in_group, 1)
    other_groups = (sums_of_turn[fold, turn] - of_cell) / np.maximum(elsewhere, 1)
    within, between = variances.within[fold, turn], variances.between[fold, turn]
    of_turns, level = variances.turns[fold], seat[fold, tree]
    error = within / np.maximum(elsewhere, 1)
    error += between / np.maximum(num_groups - 1, 1)
    share = of_turns / np.maximum(of_turns + error, TINY)
    share = np.where(elsewhere > 0, share, 0.0)
    level = level + share * (other_groups - level)
    prior = of_turns * (1 - share) + between
    error = within / np.maximum(in_group, 1)
    share = np.where(in_group > 0, prior / np.maximum(prior + error, TINY), 0.0)
    level = level + share * (group_mean - level)
    return np.where(others[fold, tree] > 1e-12, level, 0.0)
