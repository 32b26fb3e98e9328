"""Scaling and clipping of differences from a baseline."""

import numpy as np

from arena_trainers.credit.batch import Floats, Ints
from arena_trainers.credit.pools import Moments, check_choice, check_range, moments
from arena_trainers.credit.rounding import beyond_rounding

SCALES = ("none", "std")
SPREADS = ("none", "std", "rms")


def unit_scale(std: Floats, eps: float) -> Floats:
    """float64[P]: 1 / (std + eps), and 0 where a pool is flat (`beyond_rounding`)."""
    known = beyond_rounding(std)
    return 1.0 / (np.where(known > 0, known, np.inf) + eps)


def relative(
    values: Floats,
    index: Ints,
    num: int,
    scale: str = "none",
    ddof: int = 1,
    eps: float = 0.0,
    sizes: Floats | None = None,
) -> tuple[Floats, Moments]:
    """Values less the mean of their pool; divided by its deviation if `scale` is `"std"`.

    Args:
        values: float64[V].
        index: int64[V], pool of each value.
        num: P, number of pools.
        scale: `"none"` or `"std"`.
        ddof: 1 for the unbiased variance, 0 for the plain one.
        eps: added to the standard deviation.
        sizes: float64[V], as in `moments`.

    Returns:
        float64[V], 0 in a pool of one or (up to rounding) of equal values; and the moments.

    Raises:
        ValueError: an option out of range.

    >>> relative(np.array([1.0, 3.0, 7.0]), np.array([0, 0, 1]), 2)[0]
    array([-1.,  1.,  0.])
    """
    check_choice("scale", scale, SCALES)
    check_range("ddof", ddof, 0, 1)
    check_range("eps", eps, 0, float("inf"))
    stats = moments(values, index, num, ddof, sizes)
    centred = values - stats.mean[index]
    if scale == "std":
        centred *= unit_scale(stats.std, eps)[index]
    return centred, stats


def rescaled(
    values: Floats,
    index: Ints,
    num: int,
    by: str = "rms",
    ddof: int = 0,
    eps: float = 0.0,
) -> Floats:
    """Values divided by the spread of their pool, without subtracting its mean.

    For advantages with another baseline than the pool's mean. With one pool for all, the
    spread is that of the batch. `"std"` and `"rms"` are equal for values of mean 0.

    Args:
        values: float64[V].
        index: int64[V], pool of each value.
        num: P, number of pools.
        by: `"std"`, about the pool's mean; `"rms"`, the root mean square, about 0; `"none"`.
        ddof: subtracted from the size of the pool, 0 or 1.
        eps: added to the spread.

    Returns:
        float64[V], 0 in a pool without spread.

    Raises:
        ValueError: an option out of range.

    >>> values, index = np.array([1.0, 7.0, 5.0]), np.array([0, 0, 1])
    >>> rescaled(values, index, 2)  # 5 and 5
    array([0.2, 1.4, 1. ])
    >>> rescaled(values, index, 2, "std", ddof=0)  # 3; a single value has none
    array([0.33333333, 2.33333333, 0.        ])
    """
    check_choice("by", by, SPREADS)
    check_range("ddof", ddof, 0, 1)
    check_range("eps", eps, 0, float("inf"))
    if by == "none":
        return values.copy()
    if by == "std":
        spread = moments(values, index, num, ddof).std
    else:
        size = np.bincount(index, minlength=num)
        square = np.bincount(index, values**2, num)
        spread = np.sqrt(square / np.maximum(size - ddof, 1))
    return np.asarray(values * unit_scale(spread, eps)[index])


def clipped(
    values: Floats, low: float = -float("inf"), high: float = float("inf")
) -> Floats:
    """Values clipped to the range from `low` to `high`.

    Args:
        values: float64[V].
        low: at most 0.
        high: at least 0.

    Raises:
        ValueError: a bound on the wrong side of 0, which would change signs.

    >>> clipped(np.array([-3.0, 0.5, 7.0]), -1, 3)
    array([-1. ,  0.5,  3. ])
    """
    check_range("low", low, -float("inf"), 0)
    check_range("high", high, 0, float("inf"))
    return np.clip(values, low, high)
