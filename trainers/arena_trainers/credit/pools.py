"""Pools of turns that are compared with each other, their moments, and the report.

Differences that may be rounding alone count as 0 (`beyond_rounding`). Checks of the advantages
that an estimator returned are at the end.
"""

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from statistics import NormalDist
from typing import Any, NamedTuple

import numpy as np

from arena_trainers.credit.batch import POOL_COLUMNS, Bools, Floats, Ints, TurnBatch
from arena_trainers.credit.trajectories import Trajectories

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
    known = OF_TRAJECTORIES if whole else (*POOL_COLUMNS, "num_turns")
    names = column_names(names)
    for name in names:
        check_choice("pool columns", name, known)
    if "group" in names and "game" not in names:
        names = ("game", *names)
    columns = [
        getattr(turns, name) if name in ("num_turns", "turn") else turns.column(name)
        for name in names
    ]
    index, examples = number(columns, len(turns.row))
    keys = [column[examples] for column in columns]
    key = np.stack(keys, axis=1) if keys else np.zeros((len(examples), 0), np.int64)
    return Pools(names, key, index)


def only(pools: Pools, chosen: Bools) -> Pools:
    """The pools of the chosen turns; `of` has these turns only, and no pool is empty."""
    if chosen.all():
        return pools
    kept, of = np.unique(pools.of[chosen], return_inverse=True)
    return Pools(pools.names, pools.key[kept], of.ravel().astype(np.int64))


def column_names(names: Sequence[str]) -> tuple[str, ...]:
    """The columns that an option names; raises ValueError unless it is a sequence."""
    if isinstance(names, str) or not isinstance(names, Sequence):
        raise ValueError(f"want a sequence of columns such as ('game',), got {names!r}")
    return tuple(names)


def number(columns: Sequence[Ints], size: int) -> tuple[Ints, Ints]:
    """Numbers rows by their values.

    Returns:
        int64[size], the number of each row; int64[P], one example row for each number.

    >>> index, examples = number([np.array([7, 3, 7]), np.array([0, 0, 0])], 3)
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
) -> Moments:
    """Moments of the values of each pool.

    Args:
        values: float64[V].
        index: int64[V], pool of each value.
        num: P, number of pools.
        ddof: 0 divides by the size, 1 by the size less 1.
        sizes: float64[V], sum of the absolute numbers that each value is the sum of
            (`sizes_to_go`); None for |values|. `beyond_rounding` takes their rms.

    Returns:
        float64[P] each; 0 for an empty pool.

    >>> moments(np.array([5e6, 5e6 + 1]), np.array([0, 0]), 1).std  # float32 is off by 1/2
    array([0.])
    """
    size = np.bincount(index, minlength=num)
    mean = np.bincount(index, values, num) / np.maximum(size, 1)
    # corrects the rounding of the mean: else equal returns of 1e12 have a spread
    mean += np.bincount(index, values - mean[index], num) / np.maximum(size, 1)
    square = np.bincount(index, (values - mean[index]) ** 2, num)
    std = np.sqrt(square / np.maximum(size - ddof, 1))
    if sizes is None:
        whole = mean**2 + square / np.maximum(size, 1)
    else:
        whole = np.bincount(index, sizes**2, num) / np.maximum(size, 1)
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

    >>> found = reply_values(np.array([1.0, 3.0, 8.0]), np.zeros(3, int), np.array([0, 0, 1]))
    >>> found.size, found.mean, found.mean - found.low  # t = 12.706 and S = √2
    (array([2, 1]), array([2., 8.]), array([12.70620474, 17.96928706]))
    """
    of, examples = number([states, replies], len(returns))
    size, mean, _ = moments(returns, of, len(examples))
    state, firsts = number([states[examples]], len(examples))
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
    """

    names: tuple[str, ...]
    key: Ints
    size: Ints
    mean: Floats
    std: Floats
    zeros: Floats
    within: "PoolReport | None" = None

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


def check_choice(name: str, value: str, known: Sequence[str]) -> None:
    """Raises ValueError unless an option has one of the known values."""
    if value not in known:
        raise ValueError(f"want {name} among {', '.join(known)}, got {value!r}")


def check_range(name: str, value: float, low: float, high: float) -> None:
    """Raises ValueError unless an option is a number between two bounds."""
    if not isinstance(value, Real) or not low <= value <= high:
        raise ValueError(f"want {name} between {low} and {high}, got {value!r}")


class FlatPoolWarning(UserWarning):
    """All advantages of a pool are 0: its turns do not change the policy."""


def check_finite(name: str, advantage: Floats) -> None:
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
    found = report
    if report.within is not None and not (report.zeros == 1).any():
        found = report.within
    if (found.zeros == 1).any():
        what = (
            "the advantages are" if found is report else "a part of the advantages is"
        )
        warnings.warn(
            f"estimator {name!r}: a pool by ({', '.join(found.names)}) holds a single "
            f"value or equal values, so {what} 0 there; `report` of the result lists the "
            "pools",
            FlatPoolWarning,
            stacklevel=3,
        )
