"""Confidence intervals of means over episodes."""

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.extras import import_extra

Floats = NDArray[np.float64]

LEVEL = 0.95
TAIL = (1 - LEVEL) / 2
NUM_DRAWS = 4000  # of weights
CHUNK = 512  # distinct values whose weights are drawn at a time


class Estimate(NamedTuple):
    """An estimate with its 95 % interval.

    Attributes:
        value: the estimate.
        low: lower end; None if it is unknown.
        high: upper end; None if it is unknown.
        num: number of episodes that count.
    """

    value: float
    low: float | None
    high: float | None
    num: int


def mean_interval(
    values: Sequence[float], low: float = -math.inf, high: float = math.inf
) -> tuple[float, float]:
    """A 95 % interval of the mean of a quantity that lies in [low, high].

    The bound of Learned-Miller and Thomas (2019), https://arxiv.org/abs/1905.06208. With sorted
    values z_1 <= ... <= z_n, z_{n+1} = high and sorted uniform numbers U_1 <= ... <= U_n, its
    upper end is the 97.5 % quantile of

        high - sum_i U_i (z_{i+1} - z_i)

    and the lower end mirrors it. Of two values it gives Clopper and Pearson's interval. The same
    method at every n: a switch to a narrower one leaves gaps in the coverage. Where a bound is
    unknown, the end is that of `hull_interval`, which a rare value that was never seen misses.

    Args:
        values: one per independent episode; at least one.
        low: least possible value; -inf if unknown.
        high: largest possible value; inf if unknown. The interval of equal values then
            has no upper end (inf).

    >>> [round(float(x), 3) for x in mean_interval([1.0] * 100, -1.0, 1.0)]
    [0.928, 1.0]
    """
    sample = np.asarray(values, float)
    if np.ptp(sample) == 0:
        return _interval_of_equal(sample, low, high)
    hull_low, hull_high = (
        (0.0, 0.0) if math.isfinite(high - low) else hull_interval(sample)
    )
    return (
        -_upper_end(-sample, -low) if math.isfinite(low) else hull_low,
        _upper_end(sample, high) if math.isfinite(high) else hull_high,
    )


def hull_interval(
    values: Sequence[float] | Floats,
    low: float = -math.inf,
    high: float = math.inf,
    num_more: int = 1,
) -> tuple[float, float]:
    """A 95 % interval of a mean whose values hardly use their bounds, such as differences.

    The hull of three intervals of Student's: of the values, and of the values with one more at
    the largest distance from the mean that was seen, above or below it. The additional value
    makes up for the skewness that few values hide. Values that were never seen and lie farther
    away are not covered.

    Args:
        values: one per independent episode; at least one.
        low: least possible value. Cuts the interval; equal values get the interval of
            `mean_interval`.
        high: largest possible value, likewise.
        num_more: number of additional values on a side.

    >>> [round(float(x), 2) for x in hull_interval([0.0, 0.0, 0.0, 1.0])]
    [-0.58, 1.08]
    """
    sample = np.asarray(values, float)
    if np.ptp(sample) == 0:
        return _interval_of_equal(sample, low, high)
    mean = sample.mean()
    distance = np.abs(sample - mean).max()
    more = [
        np.full(num, mean + side * distance)
        for num in range(1, num_more + 1)
        for side in (-1, 1)
    ]
    ends = [
        student_interval(sample),
        *(student_interval(np.concatenate([sample, part])) for part in more),
    ]
    return max(low, min(end for end, _ in ends)), min(high, max(end for _, end in ends))


def adjusted_interval(values: Floats, low: float, high: float) -> tuple[float, float]:
    """A 95 % interval of a mean with the luck taken out.

    Such values are near each other but for rare surprises, so that few of them hide more: the
    hull of `hull_interval` has up to 4 additional values below 50 values, and 2 below 100.
    """
    num_more = 4 if len(values) < 50 else 2 if len(values) < 100 else 1
    return hull_interval(values, low, high, num_more)


def student_interval(values: Sequence[float] | Floats) -> tuple[float, float]:
    """Student's 95 % interval of a mean of at least two values."""
    sample = np.asarray(values, float)
    error = float(sample.std(ddof=1)) / math.sqrt(len(sample))
    width = float(import_stats().t.ppf(1 - TAIL, len(sample) - 1)) * error
    return float(sample.mean()) - width, float(sample.mean()) + width


def paired_interval(gaps: Sequence[float], bound: float) -> tuple[float, float]:
    """A 95 % interval of a mean paired difference that lies in [-bound, bound]."""
    return hull_interval(gaps, -bound, bound)


def _interval_of_equal(sample: Floats, low: float, high: float) -> tuple[float, float]:
    """The interval of n equal values x: other values have a share of at most 1 - 0.025^(1/n)."""
    value, share = float(sample[0]), 1 - TAIL ** (1 / len(sample))
    return value - share * (value - low), value + share * (high - value)


def _upper_end(sample: Floats, high: float) -> float:
    """The upper end of `mean_interval`.

    The spacings of sorted uniform numbers are Dirichlet weights: high - sum_i U_i (z_{i+1} - z_i)
    is the mean of z_1, ..., z_n, high with these weights, and equal values share one.
    """
    values, counts = np.unique(sample, return_counts=True)
    values, shapes = np.append(values, high), np.append(counts, 1)
    rng = np.random.default_rng(0)
    mass, weighted = np.zeros((2, NUM_DRAWS))
    for start in range(0, len(values), CHUNK):
        part = slice(start, start + CHUNK)
        weights = rng.standard_gamma(shapes[part], (NUM_DRAWS, len(shapes[part])))
        mass += weights.sum(axis=1)
        # distances from the bound, so that equal numbers do not round beyond it
        weighted += weights @ (high - values[part])
    return high - float(np.quantile(weighted / mass, TAIL))


def import_stats() -> Any:
    """`scipy.stats`, of the extra `eval`."""
    return import_extra("scipy.stats", "eval")
