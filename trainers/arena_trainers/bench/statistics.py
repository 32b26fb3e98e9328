"""Means of runs with intervals, and p-values of their differences."""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from arena_trainers.bench.experiment import Curve
from arena_trainers.evaluate.intervals import import_stats

LEVEL = 0.95  # of the intervals


class Mean(NamedTuple):
    """A mean over seeds with its 95 % interval (Student's t)."""

    mean: float
    low: float
    high: float
    num: int


def final(curve: Curve) -> float:
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


def p_values(finals: Mapping[str, Sequence[float]], reference: str) -> dict[str, float]:
    """The p-value of each estimator's difference from the reference.

    Welch's t-test, two-sided, with Holm's correction for the number of comparisons. An
    estimator with a single run is left out.
    """
    if len(finals[reference]) < 2:
        return {}
    others = [n for n, runs in finals.items() if n != reference and len(runs) > 1]
    raw = {name: _welch(finals[name], finals[reference]) for name in others}
    found: dict[str, float] = {}
    least = 0.0
    for rank, name in enumerate(sorted(others, key=raw.__getitem__)):
        least = max(least, min(1.0, raw[name] * (len(others) - rank)))
        found[name] = least
    return found


def _welch(one: Sequence[float], other: Sequence[float]) -> float:
    if np.ptp(one) == np.ptp(other) == 0:
        return float(one[0] == other[0])
    return float(import_stats().ttest_ind(one, other, equal_var=False).pvalue)
