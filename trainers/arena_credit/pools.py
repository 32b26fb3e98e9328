"""Pools of turns that are compared with each other: moments, report, baselines, scales.

Differences that may be rounding alone count as 0 (`beyond_rounding`). Checks of the advantages
that an estimator returned are at the end.

Baselines leave the own trajectory out, or average over earlier batches. `moments` gives the mean
of a pool. The value of a critic is a column of the turn batch.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from arena_credit.batch import POOL_COLUMNS, Bools, Floats, Ints, TurnBatch
from arena_credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)

OF_TRAJECTORIES = (
    "game",
    "episode",
    "seat",
    "group",
    "team",
    "opponent",
    "stratum",
    "rollout",
    "num_turns",
)
ROUNDED = 1e-6  # of the size of the numbers; float32 rounds by at most 6e-8 of it
ZERO = 1e-9  # an advantage of at most this size is counted as 0 in reports and metrics


def beyond_rounding(spread: Floats, size: Floats | float = 1.0) -> Floats:
    """Spreads of pools, and 0 where rounding alone may have made them.

        spread if spread > 1e-6 · size, else 0

    Why: rewards may come as float32, each off by up to 6e-8 of its size. A return is a sum
    of rewards. Large rewards may cancel, but their rounding stays. So equal returns can come
    out unequal. A z-score divides by the spread, and would turn this rounding into
    advantages of ±1. A pool of spread 0 is flat: its z-scores are 0.

    The threshold has to be relative to the size of the summed numbers, not of their sum:
    `sizes_to_go` gives it. A division also needs a spread above 1e-6 in the reward's unit
    (`size` 1, as `unit_scale` has it): the usual `eps` of z-scores is as large.

    Args:
        spread: float64[P], such as a standard deviation, in the unit of the values.
        size: float64[P], root mean square of the numbers that the values of the pool were
            summed from, in the same unit.

    Returns:
        float64[P].

    >>> beyond_rounding(np.array([0.5, 0.5]), np.array([1.0, 1e6]))
    array([0.5, 0. ])
    """
    return np.where(spread > ROUNDED * size, spread, 0.0)


class Pools(NamedTuple):
    """Pools: turns are compared with the other turns of their pool.

    names: columns that are constant within a pool. key: int64[P, len(names)], their values.
    of: int64[M], pool of each turn.
    """

    names: tuple[str, ...]
    key: Ints
    of: Ints


def pools_by(turns: Trajectories, names: Sequence[str], whole: bool = False) -> Pools:
    """Pools of turns with equal values in some columns.

    Args:
        turns: the turns that count.
        names: integer columns of the turn batch, or `"num_turns"`, the number of turns of
            the trajectory. `"group"` implies `"game"`. `"turn"` counts on over the segments
            of a rollout.
        whole: whether trajectories are compared. Columns must then be constant on each.

    Raises:
        ValueError: unknown column, or one that is not constant on trajectories.
    """
    allowed_columns = OF_TRAJECTORIES if whole else (*POOL_COLUMNS, "num_turns")
    names = column_names(names)
    for name in names:
        check_choice("pool columns", name, allowed_columns)
    if "group" in names and "game" not in names:
        names = ("game", *names)
    columns = [
        getattr(turns, name) if name in ("num_turns", "turn") else turns.column(name)
        for name in names
    ]
    index, examples = number_rows(columns, len(turns.row))
    keys = [column[examples] for column in columns]
    key = np.stack(keys, axis=1) if keys else np.zeros((len(examples), 0), np.int64)
    return Pools(names, key, index)


def only(pools: Pools, selected: Bools) -> Pools:
    """The pools of the chosen turns; `of` has these turns only, and no pool is empty."""
    if selected.all():
        return pools
    pool_numbers, of = np.unique(pools.of[selected], return_inverse=True)
    return Pools(pools.names, pools.key[pool_numbers], of.ravel().astype(np.int64))


def column_names(names: Sequence[str]) -> tuple[str, ...]:
    """The columns that an option names; raises ValueError unless it is a sequence."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ValueError(f"want a sequence of columns such as ('game',), got {names!r}")
    return tuple(names)


def number_rows(columns: Sequence[Ints], size: int) -> tuple[Ints, Ints]:
    """Numbers rows by their values.

    Returns:
        int64[size], the number of each row; int64[P], one example row for each number.

    >>> index, examples = number_rows([np.array([7, 3, 7]), np.array([0, 0, 0])], 3)
    >>> index.tolist(), examples.tolist()
    ([1, 0, 1], [1, 0])
    """
    order = np.lexsort(columns[::-1]) if columns else np.arange(size)
    new = np.zeros(size, bool)
    new[:1] = True
    for column in columns:
        ranked = column[order]
        new[1:] |= ranked[1:] != ranked[:-1]
    index = np.empty(size, np.int64)
    index[order] = np.cumsum(new) - 1
    return index, order[new]


class Moments(NamedTuple):
    """Size, mean and standard deviation of each pool.

    The deviation is 0 for one value, and where it may be rounding (`beyond_rounding`).
    """

    size: Ints
    mean: Floats
    std: Floats


def moments(
    values: Floats,
    index: Ints,
    num: int,
    ddof: int = 1,
    sizes: Floats | None = None,
    counts: Ints | None = None,
) -> Moments:
    """Moments of the values of each pool.

    Args:
        values: float64[V].
        index: int64[V], pool of each value.
        num: P, number of pools.
        ddof: 0 divides by the size, 1 by the size less 1.
        sizes: float64[V], sum of the absolute numbers that each value is the sum of
            (`sizes_to_go`); None for |values|. `beyond_rounding` takes their rms.
        counts: int64[V], how often each value counts; None for once.

    Returns:
        float64[P] each; 0 for an empty pool.

    >>> moments(np.array([5e6, 5e6 + 1]), np.array([0, 0]), 1).std  # float32 is off by 1/2
    array([0.])
    """

    def pool_sums(column: Floats) -> Floats:
        weights = column if counts is None else counts * column
        return np.bincount(index, weights, num).astype(float)

    size = np.bincount(index, counts, num).astype(np.int64)
    mean = pool_sums(values) / np.maximum(size, 1)
    # corrects the rounding of the mean: else equal returns of 1e12 have a spread
    mean += pool_sums(values - mean[index]) / np.maximum(size, 1)
    square = pool_sums((values - mean[index]) ** 2)
    std = np.sqrt(square / np.maximum(size - ddof, 1))
    if sizes is None:
        whole = mean**2 + square / np.maximum(size, 1)
    else:
        whole = pool_sums(sizes**2) / np.maximum(size, 1)
    return Moments(size, mean, beyond_rounding(std, np.sqrt(whole)))


class ReplyValues(NamedTuple):
    """Q(state, reply), the mean return after equal replies at a state, with its interval.

    of: int64[V], the entry of each return. size: int64[Q], returns of an entry. mean: float64[Q].
    low, high: float64[Q], bounds of an interval of Q; infinite where no reply of the state
    was given twice.
    """

    of: Ints
    size: Ints
    mean: Floats
    low: Floats
    high: Floats


def reply_values(
    returns: Floats, states: Ints, replies: Ints, level: float = 0.95
) -> ReplyValues:
    """Merges equal replies at a state, then averages their returns.

        Q = mean{R of the same state and reply},   Q ± t S / √n,   S² = Σ (R - Q)² / (N - K)

    t is the quantile of Student's distribution with N - K degrees of freedom: the N returns of
    a state with K different replies share one variance, so that a reply with n = 1 has an
    interval, too. The interval has its level if returns are independent, normal and
    equally spread; where returns have few values it is too short for small n.

    Args:
        returns: float64[V].
        states: int64[V], equal where the seat knew the same.
        replies: int64[V], equal for equal replies at one state.
        level: of the intervals, above 0 and below 1.

    >>> values = reply_values(np.array([1.0, 3.0, 8.0]), np.zeros(3, int), np.array([0, 0, 1]))
    >>> values.size, values.mean, values.mean - values.low  # t = 12.706 and S = √2
    (array([2, 1]), array([2., 8.]), array([12.70620474, 17.96928706]))
    """
    of, examples = number_rows([states, replies], len(returns))
    size, mean, _ = moments(returns, of, len(examples))
    state, firsts = number_rows([states[examples]], len(examples))
    freedom = np.bincount(state, size - 1, len(firsts)).astype(int)
    square = np.bincount(state[of], (returns - mean[of]) ** 2, len(firsts))
    factors = {int(n): _student(level, int(n)) for n in np.unique(freedom)}
    spread = np.where(freedom > 0, np.sqrt(square / np.maximum(freedom, 1)), 1.0)
    half = np.array([factors[n] for n in freedom.tolist()]) * spread
    error = half[state] / np.sqrt(size)
    return ReplyValues(of, size, mean, mean - error, mean + error)


def _student(level: float, freedom: int) -> float:
    """Half the width of a central interval of Student's t: exact up to 2, then to 0.2 %.

    Above 2 by the expansion of Abramowitz and Stegun, 26.7.5.
    """
    if freedom <= 0:
        return math.inf
    if freedom == 1:
        return math.tan(math.pi * level / 2)
    if freedom == 2:
        return level * math.sqrt(2 / (1 - level**2))
    z = NormalDist().inv_cdf((1 + level) / 2)
    terms = (
        z,
        (z**3 + z) / 4,
        (5 * z**5 + 16 * z**3 + 3 * z) / 96,
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
    )
    return float(sum(t / freedom**power for power, t in enumerate(terms)))


class Pool(NamedTuple):
    """One pool of a report; the fields are those of `PoolReport`."""

    key: Mapping[str, int]
    size: int
    mean: float
    std: float
    zeros: float


@dataclass(frozen=True, eq=False)
class PoolReport:
    """Comparisons of an estimator, pool by pool. Iteration yields one `Pool` at a time.

    Args:
        names: columns that are constant within a pool.
        key: int64[P, len(names)], their values.
        size: int64[P], number of values in the pool: of turns, or of trajectories.
        mean: float64[P], of the values.
        std: float64[P], of the values.
        zeros: float64[P], share of the pool's turns with advantage 0.
        within: the report on smaller pools within these, such as strata, if the estimator
            adds a second comparison. Its zeros are those of the second comparison.
        surprise_z: `arena_credit.surprise_z` of the batch, if the estimator used surprise.
    """

    names: tuple[str, ...]
    key: Ints
    size: Ints
    mean: Floats
    std: Floats
    zeros: Floats
    within: "PoolReport | None" = None
    surprise_z: float | None = None

    def __len__(self) -> int:
        return len(self.size)

    def __iter__(self) -> Iterator[Pool]:
        columns = (self.size, self.mean, self.std, self.zeros)
        values = zip(*(column.tolist() for column in columns), strict=True)
        for key, row in zip(self.key.tolist(), values, strict=True):
            yield Pool(dict(zip(self.names, key, strict=True)), *row)


class Credit(NamedTuple):
    """The result of an estimator.

    advantage: float64[N] per turn, or float64[num_tokens.sum()] per token; 0 where masked.
    state: input of the next call, saved in checkpoints as JSON; None for no state.
    report: what was compared.
    """

    advantage: Floats
    state: Mapping[str, Any] | None
    report: PoolReport


def with_report(
    advantage: Floats,
    pools: Pools,
    stats: Moments,
    state: Mapping[str, Any] | None = None,
) -> Credit:
    """Advantages per turn, with the report on their pools."""
    num = len(pools.key)
    zero = np.bincount(pools.of, np.abs(advantage) <= ZERO, num)
    share = zero / np.maximum(np.bincount(pools.of, minlength=num), 1)
    return Credit(advantage, state, PoolReport(pools.names, pools.key, *stats, share))


def with_inner(credit: Credit, inner: Credit) -> Credit:
    """Credit with the report of a second comparison, `inner`, as `within`."""
    return credit._replace(report=replace(credit.report, within=inner.report))


def check_choice(name: str, value: str, choices: Sequence[str]) -> None:
    """Raises ValueError unless an option has one of the known values."""
    if value not in choices:
        raise ValueError(f"want {name} among {', '.join(choices)}, got {value!r}")


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raises ValueError unless an option is a number between two bounds."""
    if not isinstance(value, Real) or not low <= value <= high:
        raise ValueError(f"want {name} between {low} and {high}, got {value!r}")


def check_flag(name: str, value: object) -> None:
    """Raises ValueError unless an option is True or False."""
    if type(value) is not bool:
        raise ValueError(f"want {name} True or False, got {value!r:.80}")


SCALES = ("none", "std")
SPREADS = ("none", "std", "rms")


def unit_scale(std: Floats, eps: float) -> Floats:
    """float64[P]: 1 / (std + eps), and 0 where a pool is flat (`beyond_rounding`)."""
    spread = beyond_rounding(std)
    return 1.0 / (np.where(spread > 0, spread, np.inf) + eps)


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


def clip_values(
    values: Floats, low: float = -float("inf"), high: float = float("inf")
) -> Floats:
    """Values clipped to the range from `low` to `high`.

    Args:
        values: float64[V].
        low: at most 0.
        high: at least 0.

    Raises:
        ValueError: a bound on the wrong side of 0, which would change signs.

    >>> clip_values(np.array([-3.0, 0.5, 7.0]), -1, 3)
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
    owner, examples = number_rows([pools.of, whose], len(whose))
    entered, pool_of, owner_of = values[where], pools.of[where], owner[where]
    stats = moments(entered, pool_of, len(pools.key))
    total = np.bincount(pool_of, entered, len(pools.key))[pools.of[examples]]
    others = total - np.bincount(owner_of, entered, len(examples))
    size = stats.size[pools.of[examples]] - np.bincount(
        owner_of, minlength=len(examples)
    )
    mean = np.where(size > 0, others / np.maximum(size, 1), 0.0)
    return np.asarray(mean[owner])


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


PoolKey = tuple[int, ...]


def running_means(
    turns: Trajectories,
    pools: Pools,
    returns: Floats,
    decay: float,
    baselines: dict[PoolKey, float],
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
) -> dict[PoolKey, float]:
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


class FlatPoolWarning(UserWarning):
    """All advantages of a pool are 0: its turns do not change the policy."""


def check_finite_advantages(name: str, advantage: Floats) -> None:
    """Raises ValueError for an advantage that is not finite."""
    bad = np.flatnonzero(~np.isfinite(advantage))
    if len(bad) > 0:
        raise ValueError(
            f"want finite advantages, got {advantage[bad[0]]} for row {bad[0]} from "
            f"estimator {name!r}"
        )


def check_selected(
    name: str, turns: TurnBatch, advantage: Floats, per_token: bool
) -> None:
    """Raises ValueError for an advantage other than 0 where `unselected` is false."""
    if turns.unselected is None:
        return
    row = np.arange(len(turns.reward))
    if per_token and turns.num_tokens is not None:
        row = np.repeat(row, turns.num_tokens)
    bad = np.flatnonzero(~turns.unselected[row] & (advantage != 0))
    if len(bad) > 0:
        raise ValueError(
            "want advantages of 0 for turns that were selected by their return, got "
            f"{advantage[bad[0]]} for row {row[bad[0]]} from estimator {name!r}"
        )


def warn_of_flat_pools(name: str, report: PoolReport) -> None:
    """Warns with `FlatPoolWarning` of pools whose advantages are all 0.

    Pools within pools are only looked at if no outer pool is flat. The text is the same for
    all batches, so that Python shows it once.
    """
    flat_report = report
    if report.within is not None and not (report.zeros == 1).any():
        flat_report = report.within
    if (flat_report.zeros == 1).any():
        subject = (
            "the advantages are"
            if flat_report is report
            else "a part of the advantages is"
        )
        warnings.warn(
            f"estimator {name!r}: a pool by ({', '.join(flat_report.names)}) holds a single "
            f"value or equal values, so {subject} 0 there; `report` of the result lists the "
            "pools",
            FlatPoolWarning,
            stacklevel=3,
        )
