"""Slopes of returns-to-go by surprises and payments: ridge regressions, one for each fold.

A fold's regression leaves the episodes of the fold out. So its slopes are constants for them.

The columns of a regression are used in their order. Each gives a direction at right angles to
those before it (Gram and Schmidt), with its own F statistic, by which its slope is shrunk:

    slope · max(0, 1 - c (1 + h) / F)

h is the leverage of the row that the slope is applied to, so that a slope is not applied to a
payment far larger than those that it was fitted to.
"""

import itertools
from typing import NamedTuple

import numpy as np

from arena_credit.batch import Bools, Floats, Ints
from arena_credit.trajectories import differs_from_before

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

    n rows, G groups, K folds.

    Attributes:
        turn: its number.
        places: the n rows in the layout.
        cells: the G groups among the cells of the layout.
        starts: int64[G], first row of each group.
        group: int64[n], group of each row.
        training: float64[K, n], 1 if the row is in the regression of a fold, else 0.
        training_by_row: float64[n, K], the transpose, contiguous: products with it sum in the order
            of rows.
        size: float64[K, G], number of rows of a group in the regression.
        num: float64[K], number of rows in the regression.
        within_freedom: float64[K], the rows less the groups with rows in the regression.
        size_or_one: float64[K, G], the size, at least 1. num_or_one, within_or_one,
            between_or_one: float64[K], likewise of `num` and the degrees of freedom.
        sqrt_size: float64[K, G], square root of the size.
    """

    turn: int
    places: slice
    cells: slice
    starts: Ints
    group: Ints
    training: Floats
    training_by_row: Floats
    size: Floats
    num: Floats
    within_freedom: Floats
    size_or_one: Floats
    num_or_one: Floats
    within_or_one: Floats
    between_or_one: Floats
    sqrt_size: Floats


class Layout:
    """The N rows of a seat, turn by turn, and group by group in each turn.

    A cell is a group at a turn.

    Args:
        turn: int64[N], turn of each row of the seat, in any order.
        group: int64[N], group of each row.
        tree: int64[N], episode or tree of each row.
        training: bool[K, N], whether the row is in the regression of a fold.

    Attributes:
        rows: int64[N], places among the rows of the seat, in the order of the layout.
        numbers: int64[T], number of each turn.
        cell: int64[N], cell of each row.
        turn_of_cell: int64[C], turn of each cell, from 0.
        training: float64[K, N], 1 if the row is in the regression of a fold, else 0.
        training_by_row: float64[N, K], the transpose, contiguous: products with it sum in the order
            of rows.
        size: float64[K, C], number of rows of a cell in the regression.
        num: float64[K, T], number of rows of a turn in the regression.
        num_groups: float64[K, T], number of cells of a turn with rows in the regression.
        within_freedom: float64[K, T], the difference of both.
        between_freedom: float64[K, T], these cells less 1, at least 0.
        size_or_one: float64[K, C], the size, at least 1. num_or_one, within_or_one,
            between_or_one: float64[K, T], likewise of `num` and the degrees of freedom.
        blocks: the rows of each turn.
    """

    def __init__(self, turn: Ints, group: Ints, tree: Ints, training: Bools) -> None:
        self.rows = np.lexsort((tree, group, turn))
        turn, group = turn[self.rows], group[self.rows]
        new_turn = differs_from_before(turn)
        new_cell = new_turn | differs_from_before(group)
        self._cells = new_cell.nonzero()[0]
        self.cell = new_cell.cumsum() - 1
        self.turn_of_cell = (new_turn.cumsum() - 1)[self._cells]
        self._turns = new_turn[self._cells].nonzero()[0]  # first cell of each
        self.numbers = turn[new_turn]
        self.training_by_row = training.T[self.rows].astype(np.float64)
        self.training = np.ascontiguousarray(self.training_by_row.T)
        self.size = self.sums(self.training)
        self.num = self.over_turns(self.size)
        self.num_groups = self.over_turns(np.minimum(self.size, 1))
        self.within_freedom = self.num - self.num_groups
        self.between_freedom = np.maximum(self.num_groups - 1, 0)
        self.size_or_one = np.maximum(self.size, 1)
        self.num_or_one = np.maximum(self.num, 1)
        self.within_or_one = np.maximum(self.within_freedom, 1)
        self.between_or_one = np.maximum(self.between_freedom, 1)
        self.blocks = self._blocks()

    def sums(self, values: Floats) -> Floats:
        """float64[K, C]: sums of float64[K, N] over the rows of each cell."""
        return np.asarray(np.add.reduceat(values, self._cells, axis=-1), np.float64)

    def over_turns(self, values: Floats) -> Floats:
        """float64[K, T]: sums of float64[K, C] over the cells of each turn."""
        return np.asarray(np.add.reduceat(values, self._turns, axis=-1), np.float64)

    def _blocks(self) -> list[TurnBlock]:
        """The rows of each turn."""
        cells = [*self._turns.tolist(), len(self._cells)]
        begins = [*self._cells.tolist(), len(self.rows)]
        sqrt_size = np.sqrt(self.size)
        blocks = []
        for turn, (first, last) in enumerate(itertools.pairwise(cells)):
            places = slice(begins[first], begins[last])
            blocks.append(
                TurnBlock(
                    turn=int(self.numbers[turn]),
                    places=places,
                    cells=slice(first, last),
                    starts=self._cells[first:last] - places.start,
                    group=self.cell[places] - first,
                    training=self.training[:, places],
                    training_by_row=self.training_by_row[places],
                    size=self.size[:, first:last],
                    num=self.num[:, turn],
                    within_freedom=self.within_freedom[:, turn],
                    num_or_one=self.num_or_one[:, turn],
                    within_or_one=self.within_or_one[:, turn],
                    between_or_one=self.between_or_one[:, turn],
                    size_or_one=self.size_or_one[:, first:last],
                    sqrt_size=sqrt_size[:, first:last],
                )
            )
        return blocks


class Columns(NamedTuple):
    """The columns of a regression.

    values: float64[K, k, n]. num_choices: the first columns, about the turn itself, whose
    slopes are wanted but which no prediction may use. num_past: the next ones, known before
    the turn; the others are about other seats. tolerance: float64[K, k], sum of squares of a column
    that rounding may have made.
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


class Regression(NamedTuple):
    """The regressions of all folds.

    directions: float64[K, k, k], rows of the lower triangle that turns columns into
    directions of unit length. coordinates: float64[K, k], of the values along them.
    threshold_ratio: float64[K, k], the F at which a coordinate counts as 0, divided by its F.
    centre: float64[K, k], mean of each column. variance: float64[K], of the residuals.
    usable: bool[K, k]. small_sample: float64[K], by which few rows widen F and variances.
    """

    directions: Floats
    coordinates: Floats
    threshold_ratio: Floats
    centre: Floats
    variance: Floats
    usable: Bools
    small_sample: Floats
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
    k, max_freedom = columns.values.shape[1], values.shape[1] - 1
    if max_freedom < shrinkage.rows or max_freedom - 1 <= shrinkage.freedom:
        # a slope needs `rows` degrees of freedom, and more than `freedom` left over
        return _without_slopes(columns, len(values))
    within_freedom = block.within_freedom
    both = np.empty((len(values), k + 1, values.shape[1]))
    np.multiply(columns.values, block.training[:, None], out=both[:, :k])
    np.multiply(values, block.training, out=both[:, k])
    squares = np.einsum("kcn,kcn->kc", both[:, :k], both[:, :k])
    sums = np.add.reduceat(both, block.starts, axis=-1)
    mean = sums / block.size_or_one[:, None]
    centre = sums.sum(-1) / block.num_or_one[:, None]
    off = mean.take(block.group, axis=-1)
    off *= block.training[:, None]
    both -= off
    products = both @ both.transpose(0, 2, 1)
    apart = mean - centre[..., None]
    apart *= block.sqrt_size[:, None]
    products_between = apart @ apart.transpose(0, 2, 1)
    square_within = products[:, k, k] / block.within_or_one
    square_between = products_between[:, k, k] / block.between_or_one
    known = (within_freedom > 0) & (square_between > 0)
    ratio = square_within / np.maximum(square_between, TINY)
    between = np.where(known, np.minimum(ratio, 1.0), 1.0)
    between *= between >= LEAST_BETWEEN
    freedom = np.where(between > 0, block.num - 1, within_freedom)
    # of the rows within + √λ (mean of the group - mean): those within a group add up to 0
    products += between[:, None, None] * products_between
    _add_ridge(products, columns, centre[:, :k], squares, block.num_or_one)
    room = np.floor((freedom - slopes_before) / shrinkage.rows)
    directions, coordinates, usable, num_used, unexplained = _eliminate(
        products, columns.tolerance, room
    )
    left = freedom - num_used - slopes_before
    whole = np.maximum(products[:, k, k], 0)
    exact = EXACT_FIT * whole / np.maximum(freedom, 1)
    variance = np.maximum(np.maximum(unexplained, 0) / np.maximum(left, 0.1), exact)
    variance = np.where(left > 0, variance, np.maximum(whole, exact))
    enough = left > shrinkage.freedom
    small_sample = left / np.maximum(left - 2, 1)
    threshold = np.where(enough, shrinkage.threshold * small_sample, np.inf)
    f = np.maximum(coordinates**2 / np.maximum(variance, TINY)[:, None], TINY)
    return Regression(
        directions=directions,
        coordinates=coordinates,
        threshold_ratio=threshold[:, None] * (1 + columns.slopes_inside) / f,
        centre=centre[:, :k],
        variance=variance,
        usable=usable & enough[:, None],
        small_sample=small_sample,
        columns=columns,
    )


def _without_slopes(columns: Columns, num_folds: int) -> Regression:
    """Regressions of too few rows, which use no column."""
    shape = (num_folds, columns.values.shape[1])
    zeros, ones = np.zeros(shape), np.ones(num_folds)
    return Regression(
        directions=np.zeros((*shape, shape[1])),
        coordinates=zeros,
        threshold_ratio=np.full(shape, np.inf),
        centre=zeros,
        variance=ones,
        usable=np.zeros(shape, np.bool_),
        small_sample=ones,
        columns=columns,
    )


def _add_ridge(
    products: Floats, columns: Columns, centre: Floats, squares: Floats, num: Floats
) -> None:
    """Adds to the squares of each column, in place: `RIDGE` rows, and what chance left out.

    The mean of a choice's surprise is known to be 0; that of a column of the past is not. If
    none of these rows holds a rare choice, their squares are less than expected, and a slope by
    them would be too steep for a row that does.
    """
    past, choices = columns.past_slice, slice(None, columns.num_choices)
    ridge = squares / num[:, None]
    if columns.num_past > 0:
        spread = np.maximum(ridge[:, past] - centre[:, past] ** 2, 0.0)
        ridge[:, past] = HISTORY_RIDGE * spread
    ridge[:, choices] = np.maximum(ridge[:, choices], columns.least_square)
    missing = np.maximum(columns.squares - squares, 0.0)
    diagonal = np.einsum("kcc->kc", products)  # a view
    diagonal[:, :-1] += RIDGE * ridge + missing


def _eliminate(
    products: Floats, tolerance: Floats, room: Floats
) -> tuple[Floats, Floats, Bools, Floats, Floats]:
    """Directions, coordinates, used columns, their number, and the squares left unexplained.

    Args:
        products: float64[K, k + 1, k + 1], of columns and values.
        tolerance: float64[K, k], squares of a column that rounding may have made.
        room: float64[K], number of columns that may be used.
    """
    num_folds, k = tolerance.shape
    whole = products.diagonal(axis1=1, axis2=2)[:, :k]
    least = np.where(whole > tolerance, COLLINEAR * whole, np.inf)
    usable = np.zeros((num_folds, k), bool)
    # row by row: products with the columns and the values that are left, and the triangle
    left = np.zeros((num_folds, k + 1, 2 * k + 1))
    left[..., : k + 1] = products
    left[:, :k, k + 1 :] = np.eye(k)
    num_used = np.zeros(num_folds)
    for i in range(k):
        square = left[:, i, i]
        use = (square > least[:, i]) & (num_used < room)
        usable[:, i] = use
        num_used += use
        row = left[:, i]
        row *= (use / np.sqrt(np.where(use, square, 1.0)))[:, None]
        left[:, i + 1 :] -= row[:, i + 1 : k + 1, None] * row[:, None]
    return left[:, :k, k + 1 :], left[:, :k, k], usable, num_used, left[:, k, k]


def predict(model: Regression) -> Floats:
    """float64[K, n]: the value that the columns predict, less its mean, for all rows.

    Columns about the turn itself count as 0. A column of the past is shrunk by its leverage.
    Columns about the choices of other seats have mean 0 and enter linearly: these choices may
    come after the turn, and a leverage that depends on them would not have mean 0.
    """
    columns = model.columns
    past, others = columns.past_slice, columns.others_slice
    directions, coordinates = model.directions, model.coordinates[:, None]
    off = columns.values - model.centre[..., None]
    total = np.zeros((len(off), 1, off.shape[-1]))
    with np.errstate(over="ignore", invalid="ignore"):
        if columns.num_past > 0:
            along = directions[..., past] @ off[:, past]
            leverage = 1 + along**2
            along *= np.maximum(0, 1 - model.threshold_ratio[..., None] * leverage)
            total = coordinates @ along
        if others.start < columns.values.shape[1]:
            weights = coordinates * np.maximum(0, 1 - model.threshold_ratio)[:, None]
            total += weights @ directions[..., others] @ off[:, others]
    return np.asarray(total[:, 0], np.float64)


class Slopes(NamedTuple):
    """Slopes by choices: float64[K, ..., num_choices], with variances, and which are known."""

    value: Floats
    variance: Floats
    known: Bools

    def after(self, turn: int) -> "Slopes":
        """The slopes of the turns after `turn`; axis 1 has the turns."""
        later = slice(turn + 1, None)
        return Slopes(
            self.value[:, later], self.variance[:, later], self.known[:, later]
        )


def slopes_of(model: Regression) -> Slopes:
    """The slopes by the surprise of the turn itself, before they are shrunk."""
    num = model.columns.num_choices
    factor = np.maximum(0, 1 - model.threshold_ratio)
    factor[:, :num] = 1.0
    known = model.usable[:, :num]
    along = (model.coordinates * factor)[..., None] * model.directions[..., :num]
    value = np.where(known, along.sum(1), 0.0)
    square = (model.directions[:, :num, :num] ** 2).sum(1)
    variance = (model.variance * model.small_sample)[:, None] * square
    return Slopes(value, np.where(known, np.maximum(variance, 1 / HUGE), np.inf), known)


def mean_and_spread(
    value: Floats, variance: Floats, known: Bools
) -> tuple[Floats, Floats, Floats]:
    """Random-effects mean along axis 1, its precision, and the variance between true values.

    Args:
        value: float64[K, T, ...].
        variance: likewise, of the error of each value.
        known: bool, likewise.
    """
    spread = spread_of(value, variance, known)
    weight = np.where(known, 1 / np.maximum(variance + spread[:, None], TINY), 0.0)
    precision = weight.sum(1)
    mean = (weight * value).sum(1) / np.maximum(precision, TINY)
    return mean, precision, spread


def spread_of(value: Floats, variance: Floats, known: Bools) -> Floats:
    """The variance between true values along axis 1, as in `mean_and_spread`.

    By the moments of DerSimonian and Laird (1986); 0 if there is only one value.
    """
    if value.shape[1] == 1:
        return np.zeros_like(value[:, 0])
    weight = np.where(known, 1 / np.maximum(variance, TINY), 0.0)
    total, num = weight.sum(1), known.sum(1)
    mean = (weight * value).sum(1) / np.maximum(total, TINY)
    excess = (weight * (value - mean[:, None]) ** 2).sum(1) - (num - 1)
    scale = total - (weight**2).sum(1) / np.maximum(total, TINY)
    several = (num > 1) & (scale > 1e-9 * total)
    excess = np.minimum(np.maximum(excess, 0), HUGE)
    spread = excess / np.maximum(scale, 1 / HUGE)
    return np.where(several, np.minimum(spread, HUGE), 0.0)


def common_slope(slopes: Slopes, threshold: float) -> tuple[Floats, Floats]:
    """Mean of the slopes of several turns, shrunk by its own F, and their variance.

    Both are 0 where there are no turns.
    """
    if slopes.value.shape[1] == 0:
        nothing = np.zeros_like(slopes.value.sum(1))
        return nothing, nothing
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

    def __init__(
        self, surprise: Floats, square: Floats, layout: Layout, shrinkage: Shrinkage
    ) -> None:
        """Sums what depends on surprise alone.

        Args:
            surprise: float64[N, S], in the order of the layout.
            square: float64[N, S], least expected square of the surprise.
            layout: turns and groups of the rows.
            shrinkage: how much evidence a slope needs.
        """
        self.threshold = shrinkage.threshold
        self.several = layout.size >= shrinkage.rows
        self.columns: list[_SurpriseOfGroups] = []
        for column, expected in zip(surprise.T, square.T, strict=True):
            # a power of 2, so that the division is exact; fourth powers must not overflow
            unit = 2.0 ** np.floor(np.log2(np.abs(column).max(initial=1.0)))
            self.columns.append(
                _SurpriseOfGroups(column / unit, expected / unit**2, layout)
            )

    def explain(self, values: Floats, block: TurnBlock) -> Floats:
        """float64[K, n], of the rows of a block.

        Args:
            values: float64[K, n], less what the slopes of the turn explain.
            block: groups and folds of the rows.
        """
        total = np.zeros_like(values)
        several = self.several[:, block.cells]
        if not several.any():
            return total
        sums = np.add.reduceat(values * block.training, block.starts, axis=1)
        mean = sums / block.size_or_one
        off = (values - mean.take(block.group, axis=1)) * block.training
        # of the rows of the regression: how many there are in all tells whether the own episode goes on
        square_off = np.einsum("kn,kn->k", off, off) / block.num_or_one
        floor = SMALL_ERROR * np.maximum(square_off, LEAST_ERROR)
        for column in self.columns:
            slopes = column.slopes_of(off, several, block, floor, self.threshold)
            total += slopes.take(block.group, axis=1) * column.surprise[block.places]
        return total


class _SurpriseOfGroups:
    """One column of surprise: sums over its groups, and τ² of the turns so far.

    Attributes:
        centred: float64[K, N], surprise less the mean of its group; 0 for rows outside the regression.
        squares: float64[K, C], sums of centred².
        fourths: float64[K, C], sums of centred⁴.
        whole: float64[K, C], the squares, or their expectation if it is larger.
    """

    def __init__(self, surprise: Floats, square: Floats, layout: Layout) -> None:
        self.surprise = surprise
        mean = layout.sums(surprise * layout.training) / layout.size_or_one
        self.centred = (surprise - mean.take(layout.cell, axis=1)) * layout.training
        power = self.centred**2
        self.squares = layout.sums(power)
        self.fourths = layout.sums(np.square(power, out=power))
        missing = layout.sums((square - surprise**2) * layout.training)
        self.whole = self.squares + np.maximum(missing, 0)
        self.pairs, self.weight, self.square = np.zeros((3, len(mean)))

    def slopes_of(
        self,
        off: Floats,
        several: Bools,
        block: TurnBlock,
        floor: Floats,
        threshold: float,
    ) -> Floats:
        """float64[K, G]: the slope of each group of a block, less that of its turn."""
        squares = self.squares[:, block.cells]
        products = self.centred[:, block.places] * off
        slopes = np.add.reduceat(products, block.starts, axis=1)
        errors = np.add.reduceat(products**2, block.starts, axis=1)
        noise = errors.sum(1) / np.maximum(squares.sum(1), TINY)
        noise = np.maximum(noise, floor)
        pairs = np.where(several, slopes**2 - errors, 0.0)
        weight = np.where(several, squares**2 - self.fourths[:, block.cells], 0.0)
        self.pairs += pairs.sum(1) / noise**2
        self.weight += weight.sum(1) / noise**2
        self.square += (pairs**2).sum(1) / noise**4
        above = self.pairs - np.sqrt(threshold * self.square)
        spread = np.maximum(above, 0) / np.maximum(self.weight, TINY)
        variance = spread[:, None]
        whole = variance * self.whole[:, block.cells] + noise[:, None]
        return np.where(several, variance * slopes / np.maximum(whole, TINY), 0.0)
