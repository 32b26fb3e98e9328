"""Confidence intervals of means over episodes."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from arena_trainers.extras import import_extra

LEVEL = 0.95
NUM_RESAMPLES = 2000


def mean_interval(
    values: Sequence[float], low: float = -math.inf, high: float = math.inf
) -> tuple[float, float]:
    """A 95 % interval of the mean of a quantity that lies in [low, high].

    BCa bootstrap (Efron 1987), seeded. If all n values equal x, the bootstrap has no spread.
    Other values then have a probability of at most q = 1 - 0.025^(1/n), and the interval is
    x - q (x - low) to x + q (high - x).

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
        x, q = float(sample[0]), 1 - ((1 - LEVEL) / 2) ** (1 / len(sample))
        return x - q * (x - low), x + q * (high - x)
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


def import_stats() -> Any:
    """`scipy.stats`, of the extra `eval`."""
    return import_extra("scipy.stats", "eval")
