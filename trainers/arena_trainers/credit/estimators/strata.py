"""Pools that are split into strata or weighed by density: `stratified_grpo`, `bnpo`."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena_trainers.credit.batch import Floats, Ints
from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    beyond_rounding,
    check_range,
    column_names,
    moments,
    number,
    pools_by,
    with_inner,
    with_report,
)
from arena_trainers.credit.scales import relative
from arena_trainers.credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)

LARGEST = 1e6  # bound on 1 / density, as released
ROUNDING = 1e-9  # relative; a return may exceed a bound by this rounding error
TINY = 1e-300  # smallest p and 1 - p whose logarithm is taken


def stratified_grpo(
    turns: Trajectories,
    *,
    strata: Sequence[str] = ("num_turns",),
    blend: float = 0.5,
    pool: Sequence[str] = ("group", "seat"),
    ddof: int = 1,
    eps: float = 1e-6,
) -> Credit:
    """Credits a trajectory with its z-scores in stratum and pool (Stratified GRPO).

        Aᵢₖ = α z(Gᵢ; own stratum of the pool) + (1 - α) z(Gᵢ; pool)

    z(x) = (x - mean) / (std + eps). A stratum holds the trajectories of a pool with equal
    values in the columns `strata`; in the paper, the number of searches. The paper tunes α;
    the default 0.5 is ours. In a stratum of one trajectory the first part is 0, so (1 - α)
    times `episode` remains. `within` in the report describes the strata.

    Reduces to: `episode` with the same ddof and eps where α = 0, or where a pool is one
    stratum; with α = 1, `episode` with the columns of the strata in its pool.

    Bias:

    - *Unbiased when*: never. It always divides by a spread, as `episode` does.
    - *Biased by*: division by the spread of strata and pools; strata that play decides,
      such as `num_turns`; truncation (the missing return counts as 0).
    - *Number*: cosine -1.000, factor -1.200 in `bandit`, shared chance; cosine 0.953,
      factor 0.600 in `three_seats`, one large group (`arena credit check`).

    Differences between strata count 1 - α. So with α = 1 nothing teaches which stratum to
    reach, and the gradient towards longer or shorter games is 0. Strata that follow from
    chance alone (`stratum`: cards, opponent) have less noise.

    See "Stratified GRPO: Handling Structural Heterogeneity in Reinforcement Learning of LLM
    Search Agents" (https://arxiv.org/abs/2510.06214).

    Args:
        turns: the turns that count.
        strata: further columns whose equal values define a stratum, constant on
            trajectories.
        blend: α, weight of the comparison within strata.
        pool: columns whose equal values define a pool, constant on trajectories.
        ddof: 1 divides the variance by n - 1, 0 by n.
        eps: added to the standard deviations.

    Returns:
        float64[N], without unit; 0 where masked. Each part is 0 in a pool or stratum of one
        trajectory or of equal returns.

    Raises:
        ValueError: an option out of range, or no such column.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, seat=[0] * 4, group=[0] * 4, turn=[0] * 4)
    >>> turns = TurnBatch([1, 3, 5, 7], episode=range(4), stratum=[0, 0, 1, 1], **one)
    >>> plain = dict(strata=("stratum",), ddof=0, eps=0)
    >>> estimate("stratified_grpo", turns, blend=1.0, **plain).advantage
    array([-1.,  1., -1.,  1.])
    """
    check_range("blend", blend, 0, 1)
    pools = pools_by(turns, pool, whole=True)
    own = pools_by(turns, (*pool, *column_names(strata)), whole=True)
    reward = turns.column("reward")
    returns = returns_to_go(turns, reward)[turns.first]
    scaled = ("std", ddof, eps, sizes_to_go(turns, reward)[turns.first])
    whole, stats = relative(returns, pools.of[turns.first], len(pools.key), *scaled)
    within, own_stats = relative(returns, own.of[turns.first], len(own.key), *scaled)
    advantage = blend * within + (1 - blend) * whole
    result = with_report(advantage[turns.index], pools, stats)
    strata_credit = with_report(within[turns.index], own, own_stats)
    return with_inner(result, strata_credit) if blend > 0 else result


@needs(return_bounds=("min_return", "max_return"))
def bnpo(
    turns: Trajectories,
    *,
    min_return: float | Mapping[str, float] | None = None,
    max_return: float | Mapping[str, float] | None = None,
    parts: Sequence[str] | None = None,
    pool: Sequence[str] = ("group", "seat"),
) -> Credit:
    """Credits a trajectory relative to its pool, over the density of such pools (BNPO).

        Aᵢₖ = (Yᵢ - p) / f(p; α, β),   p = mean Y,   Y = (G - min) / (max - min)
        α = max(1 + a/3, 1),   a = (m(1 - m)/v - 1) m
        β = max(1 + b/3, 1),   b = (m(1 - m)/v - 1)(1 - m)

    p is the mean over the pool, and f the density of the Beta distribution. m and v are
    mean and variance of p over all pools of the same game and seat. So pools with a common
    p weigh less, pools with a rare p more. With one pool, or with pools of equal p, f = 1.

    Two examples. If a win, draw or loss returns 1, 0 or -1, then Y is 1, 1/2 or 0. With
    α = β = 3/2, f is proportional to √(p(1-p)), the standard deviation of returns of 0
    and 1.

    With `parts`, A is the sum of the A of these parts of the reward. Each has its own
    bounds, p and f. This is the paper's advantage decomposition, up to a constant factor.

    Reduces to: `dr_grpo` of Y with one pool of each game and seat, or with pools of equal
    p; with returns of 0 and 1 and α = β = 3/2, `episode` with `ddof=0, eps=0.0` up to a
    constant factor.

    Bias:

    - *Unbiased when*: never exactly. One large pool without truncation has the true
      gradient times 1 / (max - min).
    - *Biased by*: the pool's weight 1 / f(p); bounds taken from the batch, where
      `min_return` or `max_return` is None; truncation (the missing return counts as 0).
    - *Number*: cosine -1.000, factor -0.300 in `bandit`, batches of two; cosine -1.000 in
      `hidden_card`, shared chance (`arena credit check`).

    In groups that share the draws of chance, a common deal weighs less than a rare one, and
    the sign can be wrong in batches of any size. Bounds from a small batch can turn the
    sign as well. The own return in p shrinks a pool of n by the factor 1 - 1/n. With
    `parts`, all parts count alike, whatever their weight in the reward.

    See "BNPO: Beta Normalization Policy Optimization" by Xiao et al.
    (https://arxiv.org/abs/2506.02864).

    Args:
        turns: the turns that count.
        min_return: the return with Y = 0, penalties included; None for the game's lowest
            return in this batch. Give it where it is known: the lowest return of a batch is
            random. `TurnGRPOTrainer` refuses bounds that a return of its games can exceed.
        max_return: the return with Y = 1; None for the game's highest return in this batch.
            With `parts`, both bounds are mappings from parts to numbers; a part that is
            left out has no given bound.
        parts: names of the parts of the reward, such as ("game", "format"); None for the
            whole reward.
        pool: columns whose equal values define a pool, constant on trajectories.

    Returns:
        float64[N], without unit; 0 where masked, and in a pool of one trajectory or of
        equal returns.

    Raises:
        ValueError: bounds in the wrong order, a return outside of them, or no such part.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, seat=[0] * 4, group=[0] * 4, turn=[0] * 4)
    >>> turns = TurnBatch([-1, 1, 1, 1], episode=range(4), **one)
    >>> estimate("bnpo", turns, min_return=-1, max_return=1).advantage  # p = 3/4
    array([-0.75,  0.25,  0.25,  0.25])
    """
    pools = pools_by(turns, pool, whole=True)
    own = pools.of[turns.first]
    at = turns.first
    fits, _ = number([turns.column("game")[at], turns.column("seat")[at]], len(at))
    fit = np.zeros(len(pools.key), np.int64)
    fit[own] = fits
    advantage, shares, all_sizes = np.zeros((3, len(at)))
    for paid, *bounds in _decomposed(parts, min_return, max_return):
        reward = turns.column(paid)
        share, width = _between(turns, returns_to_go(turns, reward)[at], *bounds)
        sizes = share + sizes_to_go(turns, reward)[at] / width
        centred, stats = relative(share, own, len(pools.key), sizes=sizes)
        largest = np.zeros(len(pools.key))
        np.maximum.at(largest, own, sizes)
        weight = _weight(stats.mean, largest, fit)
        advantage += (
            centred * np.where(beyond_rounding(stats.std) > 0, weight, 0.0)[own]
        )
        shares += share
        all_sizes += sizes
    stats = moments(shares, own, len(pools.key), sizes=all_sizes)
    return with_report(advantage[turns.index], pools, stats)


def _decomposed(parts: Sequence[str] | None, low: Any, high: Any) -> list[Any]:
    """The column of each part (or of the whole reward) with its two bounds."""
    if parts is None:
        return [("reward", low, high)]
    names = column_names(parts)
    if not names:
        raise ValueError("want parts of the reward, got none")
    low, high = ({} if bound is None else bound for bound in (low, high))
    for name, bound in (("min_return", low), ("max_return", high)):
        if not isinstance(bound, Mapping) or not bound.keys() <= set(names):
            raise ValueError(f"want {name} by part {names}, got {bound!r}")
    return [(f"rewards.{name}", low.get(name), high.get(name)) for name in names]


def _between(
    turns: Trajectories, returns: Floats, low: float | None, high: float | None
) -> tuple[Floats, Floats]:
    """float64[R] each: Y, the returns scaled to [0, 1] between the bounds; max - min."""
    for name, bound in (("min_return", low), ("max_return", high)):
        if bound is not None:
            check_range(name, bound, -np.inf, np.inf)
    if low is not None and high is not None and not low < high:
        raise ValueError(f"want min_return below max_return, got {low} and {high}")
    game, examples = number([turns.column("game")[turns.first]], len(returns))
    bottom = np.full(len(examples), np.inf if low is None else float(low))
    top = np.full(len(examples), -np.inf if high is None else float(high))
    if low is None:
        np.minimum.at(bottom, game, returns)
    if high is None:
        np.maximum.at(top, game, returns)
    slack = ROUNDING * np.maximum(np.abs(bottom), np.abs(top))[game]
    beyond = np.flatnonzero(
        (returns < bottom[game] - slack) | (returns > top[game] + slack)
    )
    if len(beyond) > 0:
        at = turns.first[beyond[0]]
        raise ValueError(
            f"want returns from min_return {bottom[game[beyond[0]]]} to max_return "
            f"{top[game[beyond[0]]]}, got {returns[beyond[0]]} of seat "
            f"{turns.column('seat')[at]} in episode {turns.column('episode')[at]}"
        )
    returns = np.clip(returns, bottom[game], top[game])
    width = np.where(top > bottom, top - bottom, 1.0)[game]
    return np.asarray((returns - bottom[game]) / width), width


def _weight(p: Floats, sizes: Floats, fit: Ints) -> Floats:
    """float64[P]: 1 / f(p), f the Beta density fitted to all p of the same `fit`."""
    size, m, std = moments(p, fit, int(fit.max(initial=-1)) + 1, sizes=sizes)
    known = (size > 1) & (beyond_rounding(std) > 0)
    factor = m * (1 - m) / np.where(known, std**2, 1.0) - 1
    alpha = np.where(known, np.maximum(1 + factor * m / 3, 1.0), 1.0)
    beta = np.where(known, np.maximum(1 + factor * (1 - m) / 3, 1.0), 1.0)
    gammas = [
        math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)
        for x, y in zip(alpha.tolist(), beta.tolist(), strict=True)
    ]
    near, far = np.log(np.maximum(p, TINY)), np.log(np.maximum(1 - p, TINY))
    log_density = (
        (alpha - 1)[fit] * near + (beta - 1)[fit] * far - np.array(gammas)[fit]
    )
    return np.asarray(np.exp(np.minimum(-log_density, math.log(LARGEST))))
