"""Means of runs with intervals, and differences between runs."""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from arena_trainers.evaluate.intervals import import_stats

LEVEL = 0.95  # of the intervals
POWER = 0.8
ALPHA = 0.05  # p below it is significant


class Mean(NamedTuple):
    """A mean over seeds with its 95 % interval (Student's t)."""

    mean: float
    low: float
    high: float
    num: int


class Difference(NamedTuple):
    """A difference of two means, half its 95 % interval, and its p-value (a t-test).

    The interval is not corrected for the number of comparisons; p may be (`holm`).
    """

    value: float
    wide: float
    p: float

    @property
    def is_significant(self) -> bool:
        """Whether p is below 0.05."""
        return self.p < ALPHA


def final(curve: Sequence[float]) -> float:
    """The mean of the last quarter of a curve."""
    return float(np.mean(curve[-max(len(curve) // 4, 1) :]))


def interval(values: Sequence[float]) -> Mean:
    """The mean of independent runs; with one run, the interval is the mean itself."""
    mean, num = float(np.mean(values)), len(values)
    if num < 2:
        return Mean(mean, mean, mean, num)
    error = float(np.std(values, ddof=1)) / num**0.5
    wide = error * float(import_stats().t.ppf((1 + LEVEL) / 2, num - 1))
    return Mean(mean, mean - wide, mean + wide, num)


def difference(one: Sequence[float], other: Sequence[float]) -> Difference:
    """The mean of some runs less that of others, two-sided.

    Raises:
        ValueError: fewer than two runs on a side.
    """
    sizes = np.array([len(one), len(other)])
    if sizes.min() < 2:
        raise ValueError(
            f"want at least two runs on each side, got {sizes.tolist()}; run more seeds"
        )
    value = float(np.mean(one) - np.mean(other))
    parts = np.array([np.var(one, ddof=1), np.var(other, ddof=1)]) / sizes
    error = float(parts.sum()) ** 0.5
    if error == 0:
        return Difference(value, 0.0, float(value == 0))
    freedom = float(parts.sum() ** 2 / (parts**2 / (sizes - 1)).sum())
    t = import_stats().t
    wide = error * float(t.ppf((1 + LEVEL) / 2, freedom))
    return Difference(value, wide, 2 * float(t.sf(abs(value) / error, freedom)))


def paired_difference(one: Sequence[float], other: Sequence[float]) -> Difference:
    """The mean difference of runs that share a seed, in order; two-sided.

    Raises:
        ValueError: the numbers of runs differ, or are below two.
    """
    if len(one) != len(other) or len(one) < 2:
        raise ValueError(
            "want at least two runs on each side, and equally many, got "
            f"{len(one)} and {len(other)}; run the same seeds of both"
        )
    gaps = np.subtract(one, other)
    value = float(gaps.mean())
    error = float(gaps.std(ddof=1)) / len(gaps) ** 0.5
    if error == 0:
        return Difference(value, 0.0, float(value == 0))
    t, freedom = import_stats().t, len(gaps) - 1
    wide = error * float(t.ppf((1 + LEVEL) / 2, freedom))
    return Difference(value, wide, 2 * float(t.sf(abs(value) / error, freedom)))


def smallest_effect(num_seeds: int, num_comparisons: int) -> float:
    """The smallest mean paired difference that Holm's method can find significant alone.

    In standard deviations of the difference between seeds:

        t(1 - α / 2m, n - 1) / √n

    >>> round(smallest_effect(3, 5), 1), round(smallest_effect(10, 5), 1)
    (5.7, 1.0)
    """
    chance = 1 - ALPHA / (2 * num_comparisons)
    quantile = float(import_stats().t.ppf(chance, num_seeds - 1))
    return quantile / math.sqrt(num_seeds)


def seeds_needed(one: Sequence[float], other: Sequence[float]) -> int | None:
    """Runs on each side that find a difference of this size with power 80 % at p < 0.05.

        n = (z(.975) + z(.8))² (s₁² + s₂²) / d², by the normal approximation

    None where there is no difference.
    """
    gap = float(np.mean(one) - np.mean(other))
    if gap == 0:
        return None
    norm = import_stats().norm
    z = float(norm.ppf((1 + LEVEL) / 2) + norm.ppf(POWER))
    spread = float(np.var(one, ddof=1) + np.var(other, ddof=1))
    return max(2, math.ceil(z**2 * spread / gap**2))


def holm(found: Mapping[str, Difference]) -> dict[str, Difference]:
    """The differences with p corrected for their number, by Holm's method."""
    corrected: dict[str, Difference] = {}
    least = 0.0
    for rank, name in enumerate(sorted(found, key=lambda name: found[name].p)):
        least = max(least, min(1.0, found[name].p * (len(found) - rank)))
        corrected[name] = found[name]._replace(p=least)
    return {name: corrected[name] for name in found}
