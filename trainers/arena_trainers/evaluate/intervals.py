"""Confidence intervals of what was measured by play."""

from collections.abc import Sequence
from typing import Any

import numpy as np

LEVEL = 0.95
NUM_RESAMPLES = 2000


def mean_interval(
    values: Sequence[float], low: float, high: float
) -> tuple[float, float]:
    """A 95 % interval of the mean of a quantity that lies in [low, high].

    BCa bootstrap (Efron 1987), seeded. Where all values are equal to x the bootstrap is
    blind: then by n draws without another value any other value has a probability of at
    most q = 1 - 0.025^(1/n), and the interval is x - q (x - low) to x + q (high - x).

    Args:
        values: one per independent episode; at least one.
        low: the least value that can occur.
        high: the largest value that can occur.

    >>> [round(float(x), 3) for x in mean_interval([1.0] * 100, -1.0, 1.0)]
    [0.928, 1.0]
    """
    sample = np.asarray(values, float)
    if np.ptp(sample) == 0:
        x, q = float(sample[0]), 1 - ((1 - LEVEL) / 2) ** (1 / len(sample))
        return x - q * (x - low), x + q * (high - x)
    found = _stats().bootstrap(
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


def rate_interval(num_hits: int, num_trials: int) -> tuple[float, float]:
    """The exact (Clopper-Pearson) 95 % interval of a rate.

    >>> [round(x, 3) for x in rate_interval(0, 10)]
    [0.0, 0.308]
    """
    found = _stats().binomtest(num_hits, num_trials).proportion_ci(LEVEL)
    return float(found.low), float(found.high)


def _stats() -> Any:
    try:
        import scipy.stats
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            "intervals need scipy; install it with: pip install 'arena-envs[eval]'",
            name=error.name,
        ) from error
    return scipy.stats
