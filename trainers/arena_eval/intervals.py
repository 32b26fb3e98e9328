"""Confidence intervals of means over episodes."""

import math
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.extras import import_extra

Floats = NDArray[np.float64]

LEVEL = 0.95
TAIL = (1 - LEVEL) / 2
MANY = 50  # values; from here on the bootstrap, which is narrower
FEW = 20  # pairs; below, Student's interval of Kuhn poker held in 810 of 1,000 (n = 5)
NUM_RESAMPLES = 2000
NUM_DRAWS = 4000  # of order statistics


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

    At least `MANY` values: BCa bootstrap (Efron 1987), seeded. Fewer, or all equal: the bound of
    Learned-Miller and Thomas (2019), https://arxiv.org/abs/1905.06208. With sorted values
    z_1 <= ... <= z_n, z_{n+1} = high and sorted uniform numbers U_1 <= ... <= U_n, its upper
    end is the 97.5 % quantile of

        high - sum_i U_i (z_{i+1} - z_i)

    and the lower end mirrors it. Of two values it gives Clopper and Pearson's interval. The
    bootstrap covers 90 % at n = 20. Where a bound is unknown, the end is Student's.

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
        x, q = float(sample[0]), 1 - TAIL ** (1 / len(sample))
        return x - q * (x - low), x + q * (high - x)
    if len(sample) < MANY:
        return -_upper_end(-sample, -low), _upper_end(sample, high)
    found = import_stats().bootstrap(
        (sample,),
        np.mean,
        n_resamples=NUM_RESAMPLES,
        confidence_level=LEVEL,
        rng=np.random.default_rng(0),
        batch=200,
    )
    return (
        max(low, float(found.confidence_interval.low)),
        min(high, float(found.confidence_interval.high)),
    )


def paired_interval(gaps: Sequence[float], bound: float) -> tuple[float, float]:
    """A 95 % interval of a mean paired difference that lies in [-bound, bound].

    `mean_interval` without bounds: Student's below `MANY` pairs. Assumes that the mean is about
    normal, so no rare, large differences. Fewer than `FEW`, or all equal: with bounds.
    """
    is_known = len(gaps) < FEW or np.ptp(gaps) == 0
    low, high = mean_interval(gaps, *((-bound, bound) if is_known else ()))
    return max(low, -bound), min(high, bound)


def _upper_end(sample: Floats, high: float) -> float:
    if math.isinf(high):
        error = sample.std(ddof=1) / math.sqrt(len(sample))
        quantile = import_stats().t.ppf(1 - TAIL, len(sample) - 1)
        return float(sample.mean() + quantile * error)
    gaps = np.diff(np.append(np.sort(sample), high))
    return float(np.quantile(high - _order_statistics(len(sample)) @ gaps, 1 - TAIL))


@lru_cache(8)
def _order_statistics(size: int) -> Floats:
    """Sorted uniform numbers, a row for each of `NUM_DRAWS` draws."""
    rng = np.random.default_rng(0)
    return np.sort(rng.random((NUM_DRAWS, size)), axis=1)


def import_stats() -> Any:
    """`scipy.stats`, of the extra `eval`."""
    return import_extra("scipy.stats", "eval")
