"""Turn-level credit with a baseline by random effects: `random_effects`."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from arena_trainers.credit.batch import Floats, Ints
from arena_trainers.credit.estimators.returns import check_scaling, return_moments
from arena_trainers.credit.pools import (
    Credit,
    Pools,
    check_range,
    number,
    pools_by,
    with_report,
)
from arena_trainers.credit.scales import unit_scale
from arena_trainers.credit.trajectories import Trajectories, returns_to_go


def random_effects(
    turns: Trajectories,
    *,
    discount: float = 1.0,
    pool: Sequence[str] = ("game", "seat", "turn"),
    scale: str = "none",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Credit:
    """Credits a turn with its return-to-go minus a shrunk mean of its group (random effects).

        Aₖ = Rₖ - (1 - w) mean{R of the pool in other groups}
                - w mean{R of the pool in m other episodes of the group}
        w = m τ² / (m τ² + σ²)

    τ² and σ² are the variances between and within the groups of the pool, by the analysis of
    variance for groups of unequal sizes; a negative estimate of τ² counts as 0. So w is near
    1 where luck that a group shares decides the return, and 0 where groups share nothing. All
    is computed without the own episode or turn tree (`parent`), w included. Without another
    group w is 1; without another episode in the group it is 0; where no group has two
    other episodes, τ² and σ² cannot be told apart and count as equal.

    Reduces to: `mars_loo` over the same pool if it holds one group, or if every group has one
    episode.

    Bias:

    - *Unbiased when*: γ = 1, no `"std"` and no limit cuts an episode, in batches of any size.
      Groups may share the draws of chance.
    - *Biased by*: truncation (the missing return counts as 0); γ < 1 (late rewards count
      less); `"std"` (as in `episode`).
    - *Number*: cosine 1.000, factor 1.000 in `toll`, batches of two; cosine 1.000, factor
      1.000 in `hidden_card`, shared chance (`arena credit check`).

    See "Shrinking the Variance: Shrinkage Baselines for Reinforcement Learning with
    Verifiable Rewards" by Zeng et al. (https://arxiv.org/abs/2511.03710) for whole episodes.
    Departs from it: turns are compared with the same turn of others, groups have any size,
    and each group has its own w. The variances are those of Searle, Casella and McCulloch,
    "Variance Components", section 3.6.

    Args:
        turns: the turns that count.
        discount: γ, per turn of the same seat.
        pool: columns whose equal values define a pool of groups.
        scale: `"std"` divides by the standard deviation of the pool, `"none"` does not.
        ddof: 1 divides the variance of `"std"` by n - 1, 0 by n.
        eps: added to the standard deviation.

    Returns:
        float64[N], in the reward's unit (`"std"`: without unit); 0 where masked, Rₖ where the
        pool has no other episode.

    Raises:
        ValueError: an option out of range.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, seat=[0] * 4, turn=[0] * 4, episode=[0, 1, 2, 3])
    >>> turns = TurnBatch(reward=[0, 2, 4, 8], group=[0, 0, 1, 1], **one)
    >>> found = estimate("random_effects", turns).advantage
    >>> found[:1]  # others: σ² = 8, τ² = 4²/2 - 8 · 3/4 = 2, so w = 0.2 and 0.8 · 6 + 0.2 · 2
    array([-5.2])
    """
    check_scaling(scale, ddof, eps)
    check_range("discount", discount, 0, 1)
    pools = pools_by(turns, pool)
    to_go = returns_to_go(turns, turns.column("reward"), discount)
    stats = return_moments(turns, pools, to_go, discount=discount, ddof=ddof)
    advantage = to_go - _baseline(turns, pools, to_go, stats.mean)
    if scale == "std":
        advantage *= unit_scale(stats.std, eps)[pools.of]
    return with_report(advantage, pools, stats)


class _Others(NamedTuple):
    """The values of a pool that have another owner; float64[O] each, by owner in a pool.

    size, mean: of the own group. other_size, other_mean: of the other groups. within,
    between: σ² and τ², both 1 where they cannot be told apart.
    """

    size: Floats
    mean: Floats
    other_size: Floats
    other_mean: Floats
    within: Floats
    between: Floats


def _baseline(
    turns: Trajectories, pools: Pools, to_go: Floats, centre: Floats
) -> Floats:
    """float64[M]: the mean of others, shrunk; 0 where there are none."""
    tree = turns.batch.tree[turns.row]  # the episode or tree that is left out
    _, begins, of = np.unique(tree, return_index=True, return_inverse=True)
    group = turns.column("group")[begins][of]  # a tree is in one group
    own, examples = number([pools.of, tree], len(tree))
    cell, first = number([pools.of, group], len(tree))
    values = to_go - centre[pools.of]  # small numbers, for the sums of squares
    found = _others(own, cell[examples], cell, pools.of[first], values)
    weight = found.size * found.between
    total = weight + found.within
    w = np.divide(weight, total, where=total > 0, out=np.ones_like(total))
    w = np.where(found.other_size > 0, w, 1.0) * (found.size > 0)
    mean = (1 - w) * found.other_mean + w * found.mean
    alone = found.size + found.other_size == 0
    whole = np.where(alone, 0.0, mean + centre[pools.of[examples]])
    return np.asarray(whole[own])


def _others(own: Ints, c: Ints, cell: Ints, pool: Ints, values: Floats) -> _Others:
    """Means and variances of others, from sums over pools, groups and owners.

    Args:
        own: int64[M], owner of each value in its pool.
        c: int64[O], group in a pool (cell) of each owner.
        cell: int64[M], likewise of each value.
        pool: int64[C], pool of each cell.
        values: float64[M].
    """

    def by_pool(of_cell: Floats) -> Floats:
        return np.asarray(np.bincount(pool, of_cell)[pool[c]], np.float64)

    n = np.bincount(cell).astype(np.float64)
    mean = np.bincount(cell, values) / n
    rest = values - mean[cell]
    square = np.bincount(cell, rest**2).astype(np.float64)
    a, mine = np.bincount(own), np.bincount(own, values)
    m = n[c] - a  # others of the own group
    kept, least = m > 0, np.maximum(m, 1)
    own_mean = np.where(kept, (n[c] * mean[c] - mine) / least, 0.0)
    left = square[c] - np.bincount(own, rest**2) - np.bincount(own, rest) ** 2 / least
    size = by_pool(n) - a
    groups = by_pool(np.ones_like(n)) - ~kept
    spread = by_pool(square) - square[c] + np.where(kept, left, 0.0)
    within = np.maximum(spread, 0) / np.maximum(size - groups, 1)
    total = by_pool(n * mean) - mine
    squares = by_pool(n * mean**2) - n[c] * mean[c] ** 2 + m * own_mean**2
    free = np.maximum(groups - 1, 1)
    sizes = by_pool(n**2) - n[c] ** 2 + m**2
    per_group = (size - sizes / np.maximum(size, 1)) / free
    excess = (squares - total**2 / np.maximum(size, 1)) / free - within
    between = np.maximum(excess, 0) / np.where(groups > 1, per_group, 1.0)
    known = (size > groups) & (groups > 1)
    other_size = by_pool(n) - n[c]
    other = (by_pool(n * mean) - n[c] * mean[c]) / np.maximum(other_size, 1)
    one = np.ones_like(within)
    return _Others(
        m,
        own_mean,
        other_size,
        other,
        np.where(known, within, one),
        np.where(known, between, one),
    )
