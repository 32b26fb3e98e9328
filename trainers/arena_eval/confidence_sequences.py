"""Intervals of means that hold at all numbers of episodes together; 95 % unless a level is given.

So play may stop as soon as an interval is narrow or excludes 0, and the interval is still valid.
Values are in the order of their seeds, not in the order in which episodes end.
"""

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_eval.intervals import (
    LEVEL,
    adjusted_interval,
    mean_interval,
    paired_interval,
)

Floats = NDArray[np.float64]
Ends = tuple[float, float]

MIN_ASYMPTOTIC = 50  # least number of values for a limit theorem
LARGEST_BET = 0.75  # of the capital
NUM_HALVINGS = 40  # of the range of means, in the search of an interval's end
TUNED_FOR = 100  # number of values at which the asymptotic interval is narrowest


class IntervalMethods(NamedTuple):
    """How the intervals of an evaluation are computed.

    Attributes:
        mean: of returns, with their bounds.
        paired: of differences within [-bound, bound].
        adjusted: of returns or differences with the luck taken out, and the bounds of the mean.
        min_adjusted: least number of values for `adjusted`.
    """

    mean: Callable[[Sequence[float], float, float], Ends]
    paired: Callable[[Sequence[float], float], Ends]
    adjusted: Callable[[Floats, float, float], Ends]
    min_adjusted: int


def betting_interval(
    values: Sequence[float] | Floats,
    low: float = -math.inf,
    high: float = math.inf,
    level: float = LEVEL,
) -> Ends:
    """An interval, for all numbers of values together, of a mean that lies in [low, high].

    The hedged capital of Waudby-Smith and Ramdas (2024), https://arxiv.org/abs/2010.09686. For
    each m, one gambler bets that values lie above m, and another that they lie below. With
    values x in [0, 1], c = 3/4, and the variance v of earlier values:

        K+_t = prod_i 1 + min(l_i, c / m) (x_i - m)
        K-_t = prod_i 1 - min(l_i, c / (1 - m)) (x_i - m)
        l_t = sqrt(2 log(40) / (v_{t-1} t log(t + 1)))

    A gambler starts with capital 1. If m is the mean, the probability that its capital ever reaches
    40 is at most 1/40. The interval has all m for which no capital has reached 40. At another
    level, 40 is 2 / (1 - level).

    Args:
        values: one per independent episode, in order; at least one.
        low: least possible value.
        high: largest possible value. Without bounds the interval is `asymptotic_interval`'s.
        level: probability that all intervals hold the mean.

    >>> [round(end, 2) for end in betting_interval([1.0, -1.0] * 100, -1.0, 1.0)]
    [-0.26, 0.29]
    """
    if not math.isfinite(high - low):
        return asymptotic_interval(values, low, high, level)
    sample = (np.asarray(values, float) - low) / (high - low)
    tail = (1 - level) / 2
    bets = _bets(sample, tail)
    first = _lowest_mean(sample, bets, tail)
    last = 1 - _lowest_mean(1 - sample, bets, tail)
    if first > last:  # all means are excluded, with probability 0.05 at most
        first = last = float(np.clip(sample.mean(), 0, 1))
    return low + (high - low) * first, low + (high - low) * last


def _bets(sample: Floats, tail: float) -> Floats:
    """l_1, ..., l_n; each depends on earlier values alone."""
    times = np.arange(1, len(sample) + 1)
    means = (0.5 + np.cumsum(sample)) / (times + 1)
    variances = (0.25 + np.cumsum((sample - means) ** 2)) / (times + 1)
    earlier = np.concatenate([[0.25], variances[:-1]])
    return np.sqrt(2 * math.log(1 / tail) / (earlier * times * np.log1p(times)))


def _lowest_mean(sample: Floats, bets: Floats, tail: float) -> float:
    """The least m for which K+ was always below 1 / tail; K+ falls with m."""
    low, high = 0.0, 1.0
    for _ in range(NUM_HALVINGS):
        mean = (low + high) / 2
        gains = np.minimum(bets, LARGEST_BET / mean) * (sample - mean)
        if np.cumsum(np.log1p(gains)).max() >= math.log(1 / tail):
            low = mean
        else:
            high = mean
    return low


def reported_interval(
    values: Sequence[float], low: float, high: float, level: float = LEVEL
) -> Ends:
    """The hull of `betting_interval` and of the mean of the values.

    In a long sequence the interval of earlier values may exclude the mean of all.
    """
    first, last = betting_interval(values, low, high, level)
    mean = float(np.mean(values))
    return min(first, mean), max(last, mean)


def reported_paired_interval(
    gaps: Sequence[float], bound: float, level: float = LEVEL
) -> Ends:
    """`reported_interval` of differences within [-bound, bound]."""
    return reported_interval(gaps, -bound, bound, level)


def asymptotic_interval(
    values: Sequence[float] | Floats,
    low: float = -math.inf,
    high: float = math.inf,
    level: float = LEVEL,
) -> Ends:
    """An interval, for all numbers of at least 50 values together, of a mean without bounds.

    The asymptotic confidence sequence of Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas (2024),
    https://arxiv.org/abs/2103.06476: with the variance s² of t values,

        mean ± sqrt(s² (t r² + 1) / (t² r²) log((t r² + 1) / 0.05²))

    As in `hull_interval`, the interval is the hull of three: that of the values, and those with one
    more value, above or below the mean, at the largest distance from the mean so far. Rare
    values that lie farther away and never occurred are not covered.

    Args:
        values: one per independent episode, in order; at least one.
        low: least possible mean; no interval goes below it.
        high: largest possible mean. For fewer than 50 values the interval is [low, high].
        level: probability that all intervals hold the mean; 0.05 above is 1 - level.
    """
    sample = np.asarray(values, float)
    if len(sample) < MIN_ASYMPTOTIC:
        return low, high
    if np.ptp(sample) == 0:  # the variance cannot be estimated
        is_bounded = math.isfinite(high - low) and low <= sample[0] <= high
        return betting_interval(sample, low, high, level) if is_bounded else (low, high)
    distance = np.abs(sample - sample.mean()).max()
    ends = [
        _asymptotic_ends(numbers, level)
        for numbers in (
            sample,
            np.append(sample, sample.mean() - distance),
            np.append(sample, sample.mean() + distance),
        )
    ]
    return max(low, min(end for end, _ in ends)), min(high, max(end for _, end in ends))


def _asymptotic_ends(sample: Floats, level: float) -> Ends:
    error = 1 - level
    log_error = -2 * math.log(error)
    tuning = (log_error + math.log(log_error + 1)) / TUNED_FOR
    size, mean = len(sample), float(sample.mean())
    grown = size * tuning + 1
    variance = float(sample.var(ddof=1)) * grown / (size**2 * tuning)
    width = math.sqrt(variance * math.log(grown / error**2))
    return mean - width, mean + width


PLANNED = IntervalMethods(
    mean_interval, paired_interval, adjusted_interval, min_adjusted=10
)


def any_time(level: float = LEVEL) -> IntervalMethods:
    """Interval methods that hold at all numbers of values together, at a level."""
    return IntervalMethods(
        partial(reported_interval, level=level),
        partial(reported_paired_interval, level=level),
        partial(asymptotic_interval, level=level),
        MIN_ASYMPTOTIC,
    )
