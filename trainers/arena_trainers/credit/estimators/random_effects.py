"""Turn-level credit with a baseline by random effects: `random_effects`."""

from collections.abc import Sequence

import numpy as np

from arena_trainers.credit.batch import Floats, Ints
from arena_trainers.credit.estimators.returns import (
    check_scaling,
    return_moments,
    whole_returns,
)
from arena_trainers.credit.pools import (
    ROUNDED,
    Credit,
    Pools,
    moments,
    number,
    pools_by,
    with_report,
)
from arena_trainers.credit.scales import unit_scale
from arena_trainers.credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)


def random_effects(
    turns: Trajectories,
    *,
    discount: float = 1.0,
    pool: Sequence[str] = ("game", "seat", "turn"),
    paid: bool = True,
    scale: str = "none",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Credit:
    """Credits a turn with its return-to-go minus a shrunk mean of its group (random effects).

        Aₖ = Dₖ - (1 - w) mean{D of the pool in other groups}
                - w mean{D of the pool in m other episodes of the group}
        Dₖ = Rₖ - β Pₖ,   w = m τ² / (m τ² + σ²)

    Pₖ is what the seat was paid before the turn; β is the slope of R by P within the groups
    of the pool (in the whole pool if no group has two values), times max(0, 1 - 1 / F) with
    its F statistic. So a later reward that takes an earlier one back
    makes no noise. τ² and σ² are the variances of D between and within the groups of the
    pool, by the analysis of variance for groups of unequal sizes; a negative estimate of τ²
    counts as 0. So w is near 1 where luck that a group shares decides the return, and 0 where
    groups share nothing. All is computed without the own episode or turn tree (`parent`), β
    and w included. Without another group w is 1; without another episode in the group it is
    0; where no group has two other episodes, τ² and σ² cannot be told apart and count as equal.
    β is 0 with too few others for F.

    Reduces to: `mars_loo` over the same pool with `paid=False`, if the pool holds one group, or
    if every group has one episode.

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
        paid: whether β is estimated; else it is 0.
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
    if not isinstance(paid, bool):
        raise ValueError(f"want paid true or false, got {paid!r}")
    pools = pools_by(turns, pool)
    to_go = returns_to_go(turns, turns.column("reward"), discount)
    stats = return_moments(turns, pools, to_go, discount=discount, ddof=ddof)
    paid_before = _paid_before(turns, pools, paid)
    advantage = to_go - _baseline(turns, pools, to_go, stats.mean, *paid_before)
    if scale == "std":
        advantage *= unit_scale(stats.std, eps)[pools.of]
    return with_report(advantage, pools, stats)


def _paid_before(turns: Trajectories, pools: Pools, paid: bool) -> list[Floats]:
    """float64[M] each: rewards before a turn, less their mean in the pool; 0 unless `paid`.

    And the sum of squares that rounding may have made of them in the pool: where all others
    were paid alike, theirs is no more, and depends on the own episode.
    """
    reward = turns.column("reward") * paid
    found = whole_returns(turns, reward) - returns_to_go(turns, reward)
    sizes = sizes_to_go(turns, reward)[turns.first][turns.index]
    mean = moments(found, pools.of, len(pools.key)).mean
    rounding = np.bincount(pools.of, (ROUNDED * sizes) ** 2)[pools.of]
    return [found - mean[pools.of], np.asarray(rounding, np.float64)]


def _baseline(
    turns: Trajectories, pools: Pools, to_go: Floats, centre: Floats, *known: Floats
) -> Floats:
    """float64[M]: the mean of others, adjusted and shrunk; 0 where there are none."""
    tree = turns.batch.tree[turns.row]  # the episode or tree that is left out
    _, begins, of = np.unique(tree, return_index=True, return_inverse=True)
    group = turns.column("group")[begins][of]  # a tree is in one group
    own, examples = number([pools.of, tree], len(tree))
    cell, first = number([pools.of, group], len(tree))
    others = _Others(own, cell[examples], cell, pools.of[first])
    values = to_go - centre[pools.of]  # small numbers, for the sums of squares
    slope = np.zeros(len(examples))
    products = [others.products(values, values)]
    before, rounding = known
    if before.any():
        products += [others.products(values, before), others.products(before, before)]
        square, product, paid = (total for total, _, _ in products)
        paid = np.where(paid > rounding[examples], paid, 0.0)
        slope = _slope(others.freedom, square, product, paid)
    powers = (np.ones_like(slope), -2 * slope, slope**2)
    within, between = (
        np.maximum(sum(p * one[i] for p, one in zip(powers, products, strict=False)), 0)
        for i in (1, 2)
    )
    weight = others.m * np.where(others.known, between, 1.0)
    total = weight + np.where(others.known, within, 1.0)
    w = np.divide(weight, total, where=total > 0, out=np.ones_like(total))
    w = np.where(others.other_size > 0, w, 1.0) * (others.m > 0)
    (group_y, rest_y), (group_x, rest_x) = map(others.means, (values, before))
    mean = (1 - w) * (rest_y - slope * rest_x) + w * (group_y - slope * group_x)
    whole = mean[own] + slope[own] * before + centre[pools.of]
    return np.where((others.size == 0)[own], 0.0, whole)


def _slope(freedom: Floats, square: Floats, product: Floats, paid: Floats) -> Floats:
    """The slope of the values by what was paid, times max(0, 1 - 1 / F); float64[O].

    Args:
        freedom: degrees of freedom that the means leave; the slope takes one more.
        square: sum of value², around the means.
        product: likewise of value · paid.
        paid: likewise of paid².
    """
    has = (paid > 0) & (freedom > 1)
    slope = np.divide(product, paid, where=has, out=np.zeros_like(paid))
    explained = slope * product
    rest = np.maximum(square - explained, 0) / np.maximum(freedom - 1, 1)
    noise = np.divide(rest, explained, where=explained > 0, out=np.ones_like(rest))
    return np.asarray(slope * np.maximum(1 - noise, 0), np.float64)


class _Others:
    """Sums over the values of a pool that have another owner; float64[O], by owner in a pool.

    Args:
        own: int64[M], owner of each value in its pool.
        c: int64[O], group in a pool (cell) of each owner.
        cell: int64[M], likewise of each value.
        pool: int64[C], pool of each cell.

    Attributes:
        size: number of values. m: those of the own group. other_size: of other groups.
        known: whether variances within and between groups can be told apart.
        freedom: degrees of freedom within groups; around one mean if no group has two.
    """

    def __init__(self, own: Ints, c: Ints, cell: Ints, pool: Ints) -> None:
        self._own, self._c, self._cell, self._pool = own, c, cell, pool
        n = self._n = np.bincount(cell).astype(np.float64)
        self.m = n[c] - np.bincount(own)
        self.other_size = self._by_pool(n) - n[c]
        self.size = self.other_size + self.m
        groups = self._by_pool(np.ones_like(n)) - (self.m == 0)
        sizes = self._by_pool(n**2) - n[c] ** 2 + self.m**2
        self._free = np.maximum(groups - 1, 1)
        per_group = (self.size - sizes / np.maximum(self.size, 1)) / self._free
        self._per_group = np.where(groups > 1, per_group, 1.0)
        self._inside = self.size > groups
        self.freedom = self.size - np.where(self._inside, groups, 1)
        self.known = self._inside & (groups > 1)

    def means(self, values: Floats) -> tuple[Floats, Floats]:
        """Of the others in the own group, and of the other groups; 0 where there are none."""
        total, mine = np.bincount(self._cell, values), np.bincount(self._own, values)
        of_group = (total[self._c] - mine) / np.maximum(self.m, 1)
        rest = self._by_pool(total) - total[self._c]
        return (
            np.where(self.m > 0, of_group, 0.0),
            np.where(self.other_size > 0, rest / np.maximum(self.other_size, 1), 0.0),
        )

    def products(self, x: Floats, y: Floats) -> tuple[Floats, Floats, Floats]:
        """Products of deviations: sum and mean within groups, covariance between groups.

        If no group has two values, the sum is that around one mean.
        """
        cell, c, n = self._cell, self._c, self._n
        mean_x, mean_y = (np.bincount(cell, v) / n for v in (x, y))
        off_x, off_y = x - mean_x[cell], y - mean_y[cell]
        both = np.bincount(cell, off_x * off_y)
        mine = [np.bincount(self._own, v) for v in (off_x * off_y, off_x, off_y)]
        left = both[c] - mine[0] - mine[1] * mine[2] / np.maximum(self.m, 1)
        spread = self._by_pool(both) - both[c] + np.where(self.m > 0, left, 0.0)
        (group_x, _), (group_y, _) = self.means(x), self.means(y)
        total_x, total_y = (
            self._by_pool(n * mean) - np.bincount(self._own, v)
            for mean, v in ((mean_x, x), (mean_y, y))
        )
        means = n * mean_x * mean_y
        apart = self._by_pool(means) - means[c] + self.m * group_x * group_y
        apart -= total_x * total_y / np.maximum(self.size, 1)
        within = spread / np.where(self._inside, self.freedom, 1)
        total = np.where(self._inside, spread, apart)
        return total, within, (apart / self._free - within) / self._per_group

    def _by_pool(self, of_cell: Floats | Ints) -> Floats:
        found = np.bincount(self._pool, of_cell)[self._pool[self._c]]
        return np.asarray(found, np.float64)
