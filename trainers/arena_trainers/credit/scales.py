"""Baselines, moments of returns, and the scaling and clipping of differences from them.

Baselines leave the own trajectory out, or average over earlier batches. `moments` gives the mean
of a pool. The value of a critic is a column of the turn batch.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from arena_trainers.credit.batch import Floats, Ints
from arena_trainers.credit.pools import (
    Credit,
    Moments,
    Pools,
    beyond_rounding,
    check_choice,
    check_range,
    moments,
    number,
    with_report,
)
from arena_trainers.credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)

SCALES = ("none", "std")
SPREADS = ("none", "std", "rms")


def unit_scale(std: Floats, eps: float) -> Floats:
    """float64[P]: 1 / (std + eps), and 0 where a pool is flat (`beyond_rounding`)."""
    known = beyond_rounding(std)
    return 1.0 / (np.where(known > 0, known, np.inf) + eps)


def scaled_credit(
    advantage: Floats, pools: Pools, stats: Moments, scale: str, eps: float
) -> Credit:
    """Advantages with the report on their pools, divided by its deviation if `scale` is `"std"`."""
    if scale == "std":
        advantage = advantage * unit_scale(stats.std, eps)[pools.of]
    return with_report(advantage, pools, stats)


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
    check_scaling(scale, ddof, eps)
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
    check_scaling("none", ddof, eps)
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


def mean_of_others(
    pools: Pools, whose: Ints, values: Floats, where: Ints | slice = slice(None)
) -> Floats:
    """Mean over the values of a pool that have another owner.

    Args:
        pools: pools of the turns.
        whose: int64[M], owner of each value: its episode or turn tree, so that the mean is
            independent of the value.
        values: float64[M].
        where: turns that enter the mean; all by default.

    Returns:
        float64[M], in the values' unit; 0 where there are no others.

    >>> one = Pools(("game",), np.zeros((1, 1), np.int64), np.zeros(3, np.int64))
    >>> mean_of_others(one, np.array([0, 0, 1]), np.array([1.0, 2.0, 6.0]))
    array([6. , 6. , 1.5])
    """
    own, examples = number([pools.of, whose], len(whose))
    entered, pool_of, own_of = values[where], pools.of[where], own[where]
    stats = moments(entered, pool_of, len(pools.key))
    total = np.bincount(pool_of, entered, len(pools.key))[pools.of[examples]]
    others = total - np.bincount(own_of, entered, len(examples))
    size = stats.size[pools.of[examples]] - np.bincount(own_of, minlength=len(examples))
    mean = np.where(size > 0, others / np.maximum(size, 1), 0.0)
    return np.asarray(mean[own])


def best_of_others(values: Floats, pool: Ints) -> Floats:
    """The highest of the other values of a pool.

    Args:
        values: float64[V].
        pool: int64[V], pool of each value.

    Returns:
        float64[V], in the values' unit; 0 where there are no others.

    >>> best_of_others(np.array([3.0, 5.0, 4.0, 7.0]), np.array([0, 0, 0, 1]))
    array([5., 4., 5., 0.])
    """
    order = np.lexsort((values, pool))
    ranked, of = values[order], pool[order]
    top = np.append(of[1:] != of[:-1], True)[: len(of)]
    last = np.flatnonzero(top)
    size = np.diff(last, prepend=-1)
    second = np.where(size > 1, ranked[np.maximum(last - 1, 0)], 0.0)
    best = np.where(size > 1, ranked[last], 0.0)
    ends = np.cumsum(top) - top  # which pool, in ascending order
    others = np.empty_like(values)
    others[order] = np.where(top, second[ends], best[ends])
    return others


Key = tuple[int, ...]


def running_means(
    turns: Trajectories,
    pools: Pools,
    returns: Floats,
    decay: float,
    baselines: dict[Key, float],
) -> Floats:
    """Exponential mean of a pool's earlier returns, in order of episodes, 0 at first.

    Args:
        turns: the turns that count.
        pools: pools of the turns; their columns are constant on trajectories.
        returns: float64[R], one per trajectory.
        decay: weight of the mean so far; the new return has weight 1 - decay.
        baselines: the mean of each pool; updated in place.

    Returns:
        float64[R]: the mean before each trajectory.
    """
    pool = pools.of[turns.first]
    order = np.lexsort((turns.column("episode")[turns.first], pool))
    ends = np.cumsum(np.bincount(pool, minlength=len(pools.key)))
    ordered = returns[order].tolist()
    means: list[float] = []
    for key, end in zip(map(tuple, pools.key.tolist()), ends.tolist(), strict=True):
        mean = baselines.get(key, 0.0)
        for value in ordered[len(means) : end]:
            means.append(mean)
            mean = decay * mean + (1 - decay) * value
        baselines[key] = mean
    before = np.empty_like(returns)
    before[order] = means
    return before


def baselines_from(
    state: Mapping[str, Any] | None, names: tuple[str, ...], estimator: str
) -> dict[Key, float]:
    """The running mean of each pool, from the state that an estimator returned.

    Raises:
        ValueError: the state of another estimator, or of pools by other columns; a baseline
            that is not finite.
    """
    if state is None:
        return {}
    try:
        pool = tuple(state["pool"])
        rows = {tuple(map(int, key)): float(mean) for *key, mean in state["baselines"]}
        if any(len(key) != len(pool) for key in rows):
            raise ValueError
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"want the state that {estimator!r} returned, {{'pool': {list(names)}, "
            f"'baselines': [[{', '.join(names)}, b], ...]}}; got {state!r}"
        ) from None
    if pool != names:
        raise ValueError(
            f"want a state of {estimator!r} with pools by {names}, got one by {pool}"
        )
    for key, mean in rows.items():
        if not math.isfinite(mean):
            where = ", ".join(f"{n} {k}" for n, k in zip(names, key, strict=True))
            raise ValueError(
                f"want finite baselines in the state of {estimator!r}, got {mean} of {where}"
            )
    return rows


def whole_returns(turns: Trajectories, reward: Floats) -> Floats:
    """float64[N]: of each turn, the return Gᵢ of its whole trajectory."""
    return np.asarray(returns_to_go(turns, reward)[turns.first][turns.index])


def return_moments(
    turns: Trajectories,
    pools: Pools,
    returns: Floats,
    over: Ints | slice = slice(None),
    discount: float = 1.0,
    ddof: int = 1,
) -> Moments:
    """Mean and standard deviation of the returns of each pool, safe against rounding.

    Rounding errors of large rewards remain when the rewards cancel, and would look like a
    deviation. A deviation up to 1e-6 of the summed absolute rewards is therefore 0.

    Args:
        turns: the turns that count.
        pools: of the turns.
        returns: float64[N], returns-to-go or whole returns, in the reward's unit.
        over: the turns whose returns enter the moments; `turns.first` for one value per
            trajectory, all turns by default.
        discount: γ of the returns.
        ddof: 1 divides the variance by n - 1, 0 by n.
    """
    sizes = sizes_to_go(turns, turns.column("reward"), discount)
    return moments(returns[over], pools.of[over], len(pools.key), ddof, sizes[over])


def check_scaling(scale: str, ddof: int, eps: float) -> None:
    """ValueError unless the options for division by the deviation are in range."""
    check_choice("scale", scale, SCALES)
    check_range("ddof", ddof, 0, 1)
    check_range("eps", eps, 0, float("inf"))
