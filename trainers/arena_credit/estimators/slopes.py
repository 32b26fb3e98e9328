"""Slopes of returns-to-go by surprises and payments: ridge regressions, one for each fold.

A fold's regression leaves the episodes of the fold out. So its slopes are constants for them.

The columns of a regression are used in their order. Each gives a direction at right angles to
those before it (Gram and Schmidt), with its own F statistic, by which its slope is shrunk:

    slope · max(0, 1 - c (1 + h) / F)

h is the leverage of the row that the slope is applied to, so that a slope is not applied to a
payment far larger than those that it was fitted to.
"""

from typing import NamedTuple

import numpy as np

from arena_credit.batch import Bools, Floats, Ints

RIDGE = 2.0  # rows that are added to each column, of its mean square and with value 0
HISTORY_RIDGE = (
    0.05  # of `RIDGE`, for columns of the past: their leverage shrinks them, too
)
LEAST_BETWEEN = 0.2  # weight of differences between groups; a smaller one counts as 0
COLLINEAR = 1e-8  # share of a column's squares that the columns before it must leave
EXACT_FIT = 1e-12  # share of the squares of the values that counts as an exact fit
SMALL_ERROR = 0.01  # of the mean square of a value; less counts as this
LEAST_ERROR = 1e-7  # mean square of a value, in units of the largest return
TINY, HUGE = 1e-300, 1e100


class Shrinkage(NamedTuple):
    """How much evidence a slope needs.

    threshold: c, the F statistic at which a slope is 0. rows: degrees of freedom that a
    regression needs for each slope. freedom: those that must be left over, at least.
    """

    threshold: float = 4.0
    rows: float = 3.0
    freedom: float = 2.0


class TurnBlock(NamedTuple):
    """The rows of one turn of a seat, group by group.

    rows: int64[n], places among the rows of the seat. starts: int64[G], first row of each
    group. group: int64[n], group of each row. training: float64[K, n], 1 where the row is in
    the regression of a fold, else 0.
    """

    rows: Ints
    starts: Ints
    group: Ints
    training: Floats


class Columns(NamedTuple):
    """The columns of a regression.

    values: float64[K, n, k]. num_choices: the first columns, about the turn itself, whose
    slopes are wanted but which no prediction may use. num_past: the next ones, known before
    the turn; the others are about other seats. tolerance: float64[K, k], sum of squares that rounding may have made of a column.
    slopes_inside: float64[K, k], number of fitted slopes that a column is a sum of.
    least_square: float64[K, num_choices], least mean square for the ridge.
    squares: float64[K, k], what the sum of squares of a column is expected to be, at least.
    """

    values: Floats
    num_choices: int
    num_past: int
    tolerance: Floats
    slopes_inside: Floats
    least_square: Floats
    squares: Floats

    @property
    def past_slice(self) -> slice:
        return slice(self.num_choices, self.num_choices + self.num_past)

    @property
    def others_slice(self) -> slice:
        return slice(self.num_choices + self.num_past, None)

    @property
    def past(self) -> Bools:
        """bool[k]: which columns are known before the turn."""
        past = np.zeros(self.values.shape[-1], bool)
        past[self.past_slice] = True
        return past


class Regression(NamedTuple):
    """The regressions of all folds.

    directions: float64[K, k, k], rows of the lower triangle that turns columns into
    directions of unit length. coordinates: float64[K, k], of the values along them.
    threshold: float64[K, k], F at which a coordinate counts as 0. f: float64[K, k].
    centre: float64[K, k], mean of each column. variance: float64[K], of the residuals.
    usable: bool[K, k]. freedom: float64[K], that are left over.
    """

    directions: Floats
    coordinates: Floats
    threshold: Floats
    f: Floats
    centre: Floats
    variance: Floats
    usable: Bools
    freedom: Floats
    columns: Columns


def fit(
    values: Floats,
    columns: Columns,
    block: TurnBlock,
    shrinkage: Shrinkage,
    slopes_before: Floats,
) -> Regression:
    """The regressions of all folds.

    Rows count as differences within groups, plus √λ times those between groups; λ is the mean
    square of the values within groups relative to that between, at most 1. So luck that a
    group shares adds no noise.

    Args:
        values: float64[K, n], to be explained.
        columns: by which.
        block: groups and folds of the rows.
        shrinkage: how much evidence a slope needs.
        slopes_before: float64[K], number of slopes that were fitted to make the values.
    """
    k = columns.values.shape[-1]
    training = block.training[..., None]
    both = np.empty((*values.shape, k + 1))
    both[..., :k], both[..., k] = columns.values, values
    size = np.add.reduceat(block.training, block.starts, axis=1)
    sums = np.add.reduceat(both * training, block.starts, axis=1)
    mean = sums / np.maximum(size, 1)[..., None]
    num = size.sum(1)
    centre = sums.sum(1) / np.maximum(num, 1)[:, None]
    num_groups = (size > 0).sum(1)
    within_freedom = num - num_groups
    within = (both - mean[:, block.group]) * training
    square_within = (within[..., k] ** 2).sum(1) / np.maximum(within_freedom, 1)
    off = mean[..., k] - centre[:, None, k]
    square_between = (size * off**2).sum(1) / np.maximum(num_groups - 1, 1)
    known = (within_freedom > 0) & (square_between > 0)
    ratio = square_within / np.maximum(square_between, TINY)
    between = np.where(known, np.minimum(ratio, 1.0), 1.0)
    between[between < LEAST_BETWEEN] = 0.0
    freedom = np.where(between > 0, num - 1, within_freedom)
    # of the rows within + √λ (mean of the group - mean): those within a group add up to 0
    products = within.transpose(0, 2, 1) @ within
    apart = (mean - centre[:, None]) * np.sqrt(between[:, None] * size)[..., None]
    products += apart.transpose(0, 2, 1) @ apart
    _add_ridge(products, columns, centre, block, num)
    room = np.floor((freedom - slopes_before) / shrinkage.rows)
    directions, coordinates, usable, unexplained = _eliminate(
        products, columns.tolerance, room
    )
    left = freedom - usable.sum(1) - slopes_before
    whole = np.maximum(products[:, k, k], 0)
    exact = EXACT_FIT * whole / np.maximum(freedom, 1)
    variance = np.maximum(np.maximum(unexplained, 0) / np.maximum(left, 0.1), exact)
    variance = np.where(left > 0, variance, np.maximum(whole, exact))
    enough = left > shrinkage.freedom
    small_sample = left / np.maximum(left - 2, 1)
    threshold = np.where(enough, shrinkage.threshold * small_sample, np.inf)
    return Regression(
        directions=directions,
        coordinates=coordinates,
        threshold=threshold[:, None] * (1 + columns.slopes_inside),
        f=coordinates**2 / np.maximum(variance, TINY)[:, None],
        centre=centre[:, :k],
        variance=variance,
        usable=usable & enough[:, None],
        freedom=left,
        columns=columns,
    )


def _add_ridge(
    products: Floats, columns: Columns, centre: Floats, block: TurnBlock, num: Floats
) -> None:
    """Adds to the squares of each column, in place: `RIDGE` rows, and what chance left out.

    The mean of a choice's surprise is known to be 0; that of a column of the past is not. If
    none of these rows holds a rare choice, their squares are less than expected, and a slope by
    them would be too steep for a row that does.
    """
    k = columns.values.shape[-1]
    total = np.einsum("knc,knc,kn->kc", columns.values, columns.values, block.training)
    mean_square = num[:, None] * centre[:, :k] ** 2
    square = np.maximum(np.where(columns.past, total - mean_square, total), 0.0)
    square /= np.maximum(num, 1)[:, None]
    choices = slice(None, columns.num_choices)
    square[:, choices] = np.maximum(square[:, choices], columns.least_square)
    square *= np.where(columns.past, HISTORY_RIDGE, 1.0)
    diagonal = np.arange(k)
    missing = np.maximum(columns.squares - total, 0.0)
    products[:, diagonal, diagonal] += RIDGE * square + missing


def _eliminate(
    products: Floats, tolerance: Floats, room: Floats
) -> tuple[Floats, Floats, Bools, Floats]:
    """Directions, coordinates, which columns are used, and the squares left unexplained.

    Args:
        products: float64[K, k + 1, k + 1], of columns and values.
        tolerance: float64[K, k], squares of a column that rounding may have made.
        room: float64[K], number of columns that may be used.
    """
    num_folds, k = tolerance.shape
    left = products.copy()
    triangle = np.broadcast_to(np.eye(k), (num_folds, k, k)).copy()
    directions = np.zeros((num_folds, k, k))
    coordinates = np.zeros((num_folds, k))
    usable = np.zeros((num_folds, k), bool)
    for i in range(k):
        square, whole = left[:, i, i], products[:, i, i]
        use = (square > COLLINEAR * whole) & (whole > tolerance[:, i])
        use &= usable.sum(1) < room
        usable[:, i] = use
        unit = np.where(use, 1 / np.sqrt(np.where(use, square, 1.0)), 0.0)
        directions[:, i] = triangle[:, i] * unit[:, None]
        coordinates[:, i] = left[:, i, k] * unit
        shares = (left[:, i] * (unit**2)[:, None])[:, i + 1 :, None]
        left[:, i + 1 :] -= shares * left[:, i, None]
        triangle[:, i + 1 :] -= shares[:, :-1] * triangle[:, i, None]
        left[:, :, i] = 0.0
    return directions, coordinates, usable, left[:, k, k]


def predict(model: Regression) -> Floats:
    """float64[K, n]: the value that the columns predict, less its mean, for all rows.

    Columns about the turn itself count as 0. A column of the past is shrunk by its leverage.
    Columns about the choices of other seats have mean 0 and enter linearly: these choices may
    come after the turn, and a leverage that depends on them would not have mean 0.
    """
    columns = model.columns
    past, others = columns.past_slice, columns.others_slice
    turned = model.directions.transpose(0, 2, 1)
    f = np.maximum(model.f, TINY)[:, None]
    threshold = model.threshold[:, None]

    def along(part: slice) -> Floats:
        off = columns.values[..., part] - model.centre[:, None, part]
        return np.asarray(off @ turned[:, part], np.float64)

    total = along(past)
    with np.errstate(over="ignore", invalid="ignore"):
        total *= np.maximum(0, 1 - threshold * (1 + total**2) / f)
    if others.start < columns.values.shape[-1]:
        with np.errstate(over="ignore", invalid="ignore"):
            total += along(others) * np.maximum(0, 1 - threshold / f)
    return np.asarray((total @ model.coordinates[..., None])[..., 0], np.float64)


class Slopes(NamedTuple):
    """Slopes by choices: float64[K, ..., num_choices], with variances, and which are known."""

    value: Floats
    variance: Floats
    known: Bools


def slopes_of(model: Regression) -> Slopes:
    """The slopes by the surprise of the turn itself, before they are shrunk."""
    num = model.columns.num_choices
    factor = np.maximum(0, 1 - model.threshold / np.maximum(model.f, TINY))
    factor[:, :num] = 1.0
    known = model.usable[:, :num]
    along = (model.coordinates * factor)[..., None] * model.directions[..., :num]
    value = np.where(known, along.sum(1), 0.0)
    left = model.freedom / np.maximum(model.freedom - 2, 1)
    square = (model.directions[:, :num, :num] ** 2).sum(1)
    variance = (model.variance * left)[:, None] * square
    return Slopes(value, np.where(known, np.maximum(variance, 1 / HUGE), np.inf), known)


def mean_and_spread(
    value: Floats, variance: Floats, known: Bools
) -> tuple[Floats, Floats, Floats]:
    """Random-effects mean along axis 1, its precision, and the variance between true values.

    By the moments of DerSimonian and Laird (1986).

    Args:
        value: float64[K, T, ...].
        variance: likewise, of the error of each value.
        known: bool, likewise.
    """
    weight = np.where(known, 1 / np.maximum(variance, TINY), 0.0)
    total = weight.sum(1)
    mean = (weight * value).sum(1) / np.maximum(total, TINY)
    excess = (weight * (value - mean[:, None]) ** 2).sum(1) - (known.sum(1) - 1)
    scale = total - (weight**2).sum(1) / np.maximum(total, TINY)
    several = (known.sum(1) > 1) & (scale > 1e-9 * total)
    excess = np.minimum(np.maximum(excess, 0), HUGE)
    spread = excess / np.maximum(scale, 1 / HUGE)
    spread = np.where(several, np.minimum(spread, HUGE), 0.0)
    weight = np.where(known, 1 / np.maximum(variance + spread[:, None], TINY), 0.0)
    precision = weight.sum(1)
    mean = (weight * value).sum(1) / np.maximum(precision, TINY)
    return mean, precision, spread


def common_slope(slopes: Slopes, threshold: float) -> tuple[Floats, Floats]:
    """Mean of the slopes of several turns, shrunk by its own F, and their variance."""
    mean, precision, spread = mean_and_spread(*slopes)
    f = np.maximum(mean**2 * precision, TINY)
    return mean * np.maximum(0, 1 - threshold / f), spread


def shrunk(
    slopes: Slopes, mean: Floats, spread: Floats, threshold: float
) -> tuple[Floats, Floats]:
    """Slopes moved towards the mean of other turns, and the share of each that is its own."""
    known, off = slopes.known, slopes.value - mean
    variance = np.where(known, slopes.variance, 1.0)
    by_spread = spread / (spread + variance)
    by_f = 1 - threshold * variance / np.maximum(off**2, TINY)
    share = np.where(known, np.maximum(by_spread, np.maximum(by_f, 0)), 0.0)
    return mean + share * np.where(known, off, 0.0), share


class GroupSlopes:
    """What slopes of each group explain beyond the slope of their turn.

    The states of a group at a turn may be alike, and then so is what a choice is worth. The slope of a
    group is moved towards that of the turn:

        dev = τ² Σ x e / (τ² Σ x² + s),   s = Σ x² e² / Σ x²   over all groups

    with x the surprise and e what is left of the value, both less the group's mean. τ² is pooled over the
    turns fitted so far. It is estimated by a sum over pairs of episodes of a group, Σ_{i ≠ j} xᵢ eᵢ xⱼ eⱼ.
    If all groups have the same slope, the expected sum is 0, also where the variance of e depends on x. The
    part of the sum beyond √c standard errors counts, c the threshold of the shrinkage.
    """

    def __init__(self, surprise: Floats, num_folds: int, shrinkage: Shrinkage) -> None:
        shape = (3, surprise.shape[1], num_folds)
        self.pairs, self.weight, self.square = np.zeros(shape)
        self.shrinkage = shrinkage
        largest = np.abs(surprise).max(axis=0, initial=1.0)
        # powers of 2, so that the division is exact; fourth powers must not overflow
        self.unit = 2.0 ** np.floor(np.log2(largest))

    def explain(
        self, values: Floats, surprise: Floats, square: Floats, block: TurnBlock
    ) -> Floats:
        """float64[K, n], of the rows of a block.

        Args:
            values: float64[K, n], less what the slopes of the turn explain.
            surprise: float64[n, S].
            square: float64[n, S], what the square of the surprise is expected to be, at least.
            block: groups and folds of the rows.
        """
        training, starts, group = block.training, block.starts, block.group
        size = np.add.reduceat(training, starts, axis=1)
        several = size >= self.shrinkage.rows
        total = np.zeros_like(values)
        if not several.any():
            return total

        def sums(of_rows: Floats) -> Floats:
            return np.asarray(np.add.reduceat(of_rows, starts, axis=1), np.float64)

        def centred(of_rows: Floats) -> Floats:
            mean = sums(of_rows * training) / np.maximum(size, 1)
            return (of_rows - mean[:, group]) * training

        off = centred(values)
        # of the rows of the regression: how many there are in all tells whether the own episode goes on
        square_off = (off**2).sum(1) / np.maximum(size.sum(1), 1)
        floor = SMALL_ERROR * np.maximum(square_off, LEAST_ERROR)
        for i, unit in enumerate(self.unit):
            column = surprise[:, i] / unit
            x = centred(column)
            xe, xx = x * off, x * x
            slopes, squares, errors = sums(xe), sums(xx), sums(xe * xe)
            noise = errors.sum(1) / np.maximum(squares.sum(1), TINY)
            noise = np.maximum(noise, floor)
            pairs = np.where(several, slopes**2 - errors, 0.0)
            weight = np.where(several, squares**2 - sums(xx * xx), 0.0)
            self.pairs[i] += pairs.sum(1) / noise**2
            self.weight[i] += weight.sum(1) / noise**2
            self.square[i] += (pairs**2).sum(1) / noise**4
            spread = np.maximum(self.pairs[i], 0) / np.maximum(self.weight[i], TINY)
            errors_above = np.sqrt(self.shrinkage.threshold * self.square[i])
            spread *= np.maximum(0, 1 - errors_above / np.maximum(self.pairs[i], TINY))
            missing = sums((square[:, i] / unit**2 - column**2) * training)
            whole = squares + np.maximum(missing, 0)
            variance = spread[:, None]
            deviation = (
                variance * slopes / np.maximum(variance * whole + noise[:, None], TINY)
            )
            total += np.where(several, deviation, 0.0)[:, group] * column
        return total
