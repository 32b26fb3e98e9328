"""Credit of turns relative to others of their game, seat or group: MARS and others."""

from collections.abc import Sequence

import numpy as np

from arena_credit.batch import Floats, Ints
from arena_credit.claims import UNBIASED, Z_SCORED, claims
from arena_credit.estimators.outcome import episode
from arena_credit.needs import needs
from arena_credit.pools import (
    ROUNDED,
    Credit,
    Moments,
    Pools,
    beyond_rounding,
    check_choice,
    check_flag,
    check_range,
    check_scaling,
    clip_values,
    mean_of_others,
    moments,
    number_rows,
    pools_by,
    relative,
    return_moments,
    scaled_credit,
    unit_scale,
    whole_returns,
    with_report,
)
from arena_credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)

BASELINES = ("turn_returns", "episode_returns")


@claims(
    Z_SCORED,
    bias_infinite="exact",
    bias_shared_chance="exact",
    zero_mean=("game", "seat"),
    groups_apart=False,
)
def mars(
    turns: Trajectories,
    *,
    discount: float = 1.0,
    pool: Sequence[str] = ("game", "seat"),
    scale: str = "none",
    ddof: int = 1,
    eps: float = 1e-6,
    baseline: str = "turn_returns",
) -> Credit:
    """Credits a turn with its return-to-go minus the mean of its game and seat (MARS).

        Aₖ = Rₖ - mean{R of every turn of the pool},   Rₖ = Σ_{j ≥ k} γ^{j - k} rⱼ

    This is the formula of the paper. The released code computes something else:
    `mars_released`. A bonus that is paid every turn favours early turns over late ones.

    Reduces to: `gae` with γ = λ = 1 and the mean of the pool as value; with one-turn
    episodes `dr_grpo` over the same pool, or `episode` with `scale="std"` and the same eps;
    with γ = 0 `normalise_then_sum` over the same pool with `discount=0.0, scale="none"`, a
    turn's own reward minus the mean reward.

    Bias:

    - *Unbiased when*: γ = 1, batches are large and no limit cuts an episode. Groups may
      share the draws of chance.
    - *Biased by*: the own trajectory in the mean; truncation (the missing return counts as
      0); γ < 1 (late rewards count less); `"std"` (as in `episode`).
    - *Number*: cosine -1.000, factor -2.000 in `toll`, batches of two; cosine 1.000, factor
      1.000 in `toll`, one large group (`arena credit check`).

    With n one-turn episodes the own return shrinks the gradient by the factor 1 - 1/n. A
    longer trajectory has more turns in the mean, so a small batch can turn the sign where
    play decides the length. `"episode_returns"` only shrinks by the factor 1 - 1/n.
    `mars_loo` has none of this bias.

    See "MARS: Reinforcing Multi-Agent Reasoning of LLMs through Self-Play in Strategic
    Games" by Yuan et al. (https://arxiv.org/abs/2510.15414).

    Args:
        turns: the turns that count.
        discount: γ, per turn of the same seat.
        pool: columns whose equal values define a pool. Without `"seat"` it is
            the paper's ablation of agent-specific normalisation.
        scale: `"std"` divides by the standard deviation of the pool, `"none"` does not.
        ddof: 1 divides the variance by n - 1, 0 by n.
        eps: added to the standard deviation.
        baseline: mean of `"turn_returns"`, or of `"episode_returns"` (R of first turns).

    Returns:
        float64[N], in the reward's unit (`"std"`: without unit); 0 where masked, and in a
        pool of one turn or of equal returns. With `"turn_returns"` it sums to zero over
        each pool.

    Raises:
        ValueError: an option out of range.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> turns = TurnBatch(reward=[0, 1, 4], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> estimate("mars", turns).advantage  # returns-to-go 1, 1 and 4, mean 2
    array([-1., -1.,  2.])
    """
    check_scaling(scale, ddof, eps)
    averaged = _averaged(turns, baseline)
    pools = pools_by(turns, pool, whole=baseline == "episode_returns")
    to_go = returns_to_go(turns, turns.column("reward"), discount)
    stats = return_moments(turns, pools, to_go, averaged, discount, ddof)
    return scaled_credit(to_go - stats.mean[pools.of], pools, stats, scale, eps)


@claims(
    UNBIASED, bootstraps=False, shift=True, groups_apart=False, singleton_pool="return"
)
def mars_loo(
    turns: Trajectories,
    *,
    discount: float = 1.0,
    pool: Sequence[str] = ("game", "seat"),
    baseline: str = "turn_returns",
) -> Credit:
    """Credits a turn with its return-to-go minus the mean of the pool's other episodes.

        Aₖ = Rₖ - mean{R of the pool's turns in other episodes},   Aₖ = Rₖ if there are none

    The turns of an episode depend on each other, and so do its seats and the episodes of a
    turn tree (`parent`). The mean therefore leaves out the whole own episode, or the whole
    own tree.

    Reduces to: `rloo` over the same pool with one-turn episodes, and there n / (n - 1)
    times `mars` with n trajectories of one seat in the pool.

    Bias:

    - *Unbiased when*: γ = 1 and no limit cuts an episode, in batches of any size. Groups
      may share the draws of chance.
    - *Biased by*: truncation (the missing return counts as 0); γ < 1 (late rewards count
      less).
    - *Number*: cosine 1.000, factor 1.000 in `toll`, batches of two; cosine -0.966, factor
      -0.488 in `patience`, batches of two, where a limit cuts (`arena credit check`).

    See "Back to Basics: Revisiting REINFORCE-Style Optimization for Learning from Human
    Feedback in LLMs" by Ahmadian et al. (https://arxiv.org/abs/2402.14740).

    Args:
        turns: the turns that count.
        discount: γ, per turn of the same seat.
        pool: columns whose equal values define a pool.
        baseline: mean of `"turn_returns"`, or of `"episode_returns"` (R of first turns).

    Returns:
        float64[N], in the reward's unit; 0 where masked.

    Raises:
        ValueError: an option out of range.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> turns = TurnBatch(reward=[0, 1, 4], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> estimate("mars_loo", turns).advantage  # of others: mean 4, and mean (1 + 1) / 2
    array([-3., -3.,  3.])
    """
    averaged = _averaged(turns, baseline)
    pools = pools_by(turns, pool, whole=baseline == "episode_returns")
    to_go = returns_to_go(turns, turns.column("reward"), discount)
    tree = turns.batch.tree[turns.row]  # the episode or tree that is left out
    advantage = to_go - mean_of_others(pools, tree, to_go, averaged)
    stats = moments(to_go[averaged], pools.of[averaged], len(pools.key))
    return with_report(advantage, pools, stats)


def _averaged(turns: Trajectories, baseline: str) -> Ints | slice:
    """The turns whose return-to-go enters the mean: all, or each trajectory's first."""
    check_choice("baseline", baseline, BASELINES)
    return turns.first if baseline == "episode_returns" else slice(None)


SEATS = (0, 1)  # "player_0" and "player_1" are written into the released code
REWARD_NORMS = ("mean", "mean_std", "asym_clip", "identity")
ADVANTAGE_NORMS = ("mean", "none")
ASYMMETRIC = (-1.0, 3.0)  # the bounds of "asym_clip"
STD_EPS = 1e-6
EPS = 1e-8  # added to the variance when whitening
TINY = 1e-300  # smallest divisor


@claims(labels=False)
def mars_released(
    turns: Trajectories,
    *,
    reward_norm: str = "mean",
    reward_clip: float | None = None,
    whiten_rewards: bool = True,
    advantage_norm: str = "mean",
    whiten_advantages: bool = True,
    advantage_clip: float | None = None,
) -> Credit:
    """Credits turns as the released MARS code does; to compare with, not to train with.

        1. cₖ = rₖ - mean{r of every turn of the same (game, seat)}, or another norm
        2. divide cₖ by the standard deviation over the batch's trained tokens; cₖ sits on
           the last token of its turn, all other tokens hold 0
        3. Aₖ = Σ_{j ≥ k} cⱼ
        4. per seat, over all games: subtract the mean of the DISTINCT values among all
           positions of its rows, padding included
        5. whiten over the batch's trained tokens; all tokens of a turn have its value

    Variances divide by n - 1, and 1e-8 is added. These defects of the released code are
    kept: steps 1 and 4 change seats 0 and 1 only; token counts matter; games mix in steps
    2, 4 and 5; a turn's baseline is the mean turn reward times the number of turns that
    remain.

    Step 4 counts positions as follows. A row is a trajectory's whole conversation. Prompts
    hold the value of the turn after them, so they add no value. Padding on the right holds
    0. The released code pads every row to 32,768 tokens, so 0 is always one of the values.

    Departs from the released code twice. Step 4 treats values as equal if they differ by up
    to 1e-6 of the numbers they were summed from; the released code compares float32
    exactly. Where step 1 does not centre (further seats, `"asym_clip"`, `"identity"`, a
    clip), step 2 does not subtract the token mean; the released code then gives every token
    of a turn a different value.

    Reduces to: `normalise_then_sum` with `pool=("game", "seat"), scale="none"` for seats 0
    and 1, without steps 2, 4 and 5; the return-to-go with `reward_norm="identity"` as well.

    Bias:

    - *Unbiased when*: never, unless steps 1, 2, 4 and 5 are switched off.
    - *Biased by*: length (each further turn costs the mean turn reward); whitening over the
      batch; truncation (the missing return counts as 0).
    - *Number*: cosine -1.000, factor -5.682 in `stop_or_go`, batches of two; cosine -1.000,
      factor -8.615 in `stop_or_go`, one large group (`arena credit check`).

    Large batches keep the length bias, as in `normalise_then_sum`. A constant added to a
    seat's final rewards changes the result, and so do the rewards of other games.

    See https://github.com/thu-nics/MARS and "MARS: Reinforcing Multi-Agent Reasoning of
    LLMs through Self-Play in Strategic Games" by Yuan et al.
    (https://arxiv.org/abs/2510.15414), whose formula is `mars`.

    Args:
        turns: the turns that count, with `num_tokens`.
        reward_norm: norm of step 1. `"mean"` subtracts the mean. `"mean_std"` also divides
            by the standard deviation (ddof 1, eps 1e-6). `"asym_clip"` does both and clips
            to [-1, 3]. `"identity"` changes nothing.
        reward_clip: largest absolute value after step 1; None for no limit.
        whiten_rewards: true to do step 2.
        advantage_norm: `"mean"` does step 4, `"none"` leaves it out.
        whiten_advantages: true to do step 5.
        advantage_clip: largest absolute value of the advantage; None for no limit.

    Returns:
        float64[N], without unit (without whitening: in the reward's unit); 0 where masked.

    Raises:
        ValueError: there is no column `num_tokens`, or an option is unknown.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0], num_tokens=[1, 1, 1])
    >>> turns = TurnBatch(reward=[1, 2, 6], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> off = dict(whiten_rewards=False, whiten_advantages=False)
    >>> estimate("mars_released", turns, **off).advantage  # {-3, -1, 0, 3}, mean -1/4
    array([-2.75, -0.75,  3.25])
    """
    check_choice("reward_norm", reward_norm, REWARD_NORMS)
    check_choice("advantage_norm", advantage_norm, ADVANTAGE_NORMS)
    _check_clip("reward_clip", reward_clip)
    _check_clip("advantage_clip", advantage_clip)
    check_flag("whiten_rewards", whiten_rewards)
    check_flag("whiten_advantages", whiten_advantages)
    num_tokens = turns.column("num_tokens")
    seat, reward = turns.column("seat"), turns.column("reward")
    pools = pools_by(turns, ("game", "seat"))
    stats = moments(reward, pools.of, len(pools.key))
    normal = _normalised(reward, pools.of, stats, reward_norm)
    values = _held(np.where(np.isin(seat, SEATS), normal, reward), reward_clip)
    sizes = np.abs(reward) + np.abs(stats.mean[pools.of])
    if reward_norm in ("mean_std", "asym_clip"):
        sizes *= unit_scale(stats.std, STD_EPS)[pools.of]
    if whiten_rewards:
        spread = _token_spread(values, num_tokens, last_only=True)
        values, sizes = values / spread, sizes / spread
    values, sizes = returns_to_go(turns, values), sizes_to_go(turns, sizes)
    if advantage_norm == "mean":
        for number in SEATS:
            of_seat = seat == number
            values[of_seat] = centre_distinct(values[of_seat], sizes[of_seat])
    if whiten_advantages:
        values = values - (num_tokens * values).sum() / max(int(num_tokens.sum()), 1)
        values = values / _token_spread(values, num_tokens)
    return with_report(_held(values, advantage_clip), pools, stats)


def _check_clip(name: str, size: float | None) -> None:
    if size is not None:
        check_range(name, size, 0, float("inf"))


def _token_spread(values: Floats, num_tokens: Ints, last_only: bool = False) -> float:
    """Steps 2 and 5: root mean square over the batch's trained tokens.

    A turn's value is on all of its tokens, or on the last one while the others hold 0.
    """
    weight = 1 if last_only else num_tokens
    square = (weight * values**2).sum() / max(int(num_tokens.sum()) - 1, 1)
    return float(np.sqrt(square + EPS))


def _normalised(reward: Floats, index: Ints, stats: Moments, norm: str) -> Floats:
    """Step 1: rewards of turns, relative to those of their pool."""
    if norm == "identity":
        return reward
    centred = np.where(stats.std[index] > 0, reward - stats.mean[index], 0.0)
    if norm == "mean":
        return centred
    z = centred * unit_scale(stats.std, STD_EPS)[index]
    return clip_values(z, *ASYMMETRIC) if norm == "asym_clip" else z


def _held(values: Floats, size: float | None) -> Floats:
    return values if size is None else clip_values(values, -size, size)


def centre_distinct(values: Floats, sizes: Floats | None = None) -> Floats:
    """Subtracts the mean of the distinct values of a seat, 0 (padding) among them.

    Args:
        values: float64[V].
        sizes: float64[V], sums of the absolute rewards behind each value, as `moments`
            takes them. Values that differ by up to 1e-6 of the largest size count as one.

    >>> centre_distinct(np.array([3.0, 3.0, 1.0, 1.0]))  # {0, 1, 3}, mean 4/3
    array([ 1.66666667,  1.66666667, -0.33333333, -0.33333333])
    """
    whole = np.abs(values) if sizes is None else sizes
    apart = max(ROUNDED * whole.max(initial=0.0), TINY)
    ranked = np.sort(np.append(values, 0.0))
    new = np.diff(ranked, prepend=-np.inf) > apart
    start = ranked[new][np.cumsum(new) - 1]
    cell = (ranked - start) // apart  # or many near neighbours would be one value
    new[1:] |= cell[1:] != cell[:-1]
    return np.asarray(values - ranked[new].mean())


@claims(
    UNBIASED,
    bootstraps=False,
    shift=True,
    groups_apart=False,
    singleton_pool="return",
    noise=1.2,
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

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, seat=[0] * 4, turn=[0] * 4, episode=[0, 1, 2, 3])
    >>> turns = TurnBatch(reward=[0, 2, 4, 8], group=[0, 0, 1, 1], **one)
    >>> advantage = estimate("random_effects", turns).advantage
    >>> advantage[:1]  # others: σ² = 8, τ² = 4²/2 - 8 · 3/4 = 2, so w = 0.2 and 0.8 · 6 + 0.2 · 2
    array([-5.2])
    """
    check_scaling(scale, ddof, eps)
    check_flag("paid", paid)
    pools = pools_by(turns, pool)
    to_go = returns_to_go(turns, turns.column("reward"), discount)
    stats = return_moments(turns, pools, to_go, discount=discount, ddof=ddof)
    paid_before = _paid_before(turns, pools, paid)
    advantage = to_go - _baseline(turns, pools, to_go, stats.mean, *paid_before)
    return scaled_credit(advantage, pools, stats, scale, eps)


def _paid_before(turns: Trajectories, pools: Pools, with_paid: bool) -> list[Floats]:
    """float64[M] each: rewards before a turn, less their mean in the pool; 0 unless `with_paid`.

    And the sum of squares that rounding may have made of them in the pool: where all others
    were paid alike, theirs is no more, and depends on the own episode.
    """
    reward = turns.column("reward") * with_paid
    earlier = whole_returns(turns, reward) - returns_to_go(turns, reward)
    sizes = sizes_to_go(turns, reward)[turns.first][turns.index]
    mean = moments(earlier, pools.of, len(pools.key)).mean
    rounding = np.bincount(pools.of, (ROUNDED * sizes) ** 2)[pools.of]
    return [earlier - mean[pools.of], np.asarray(rounding, np.float64)]


def _baseline(
    turns: Trajectories,
    pools: Pools,
    to_go: Floats,
    centre: Floats,
    *before_and_rounding: Floats,
) -> Floats:
    """float64[M]: the mean of others, adjusted and shrunk; 0 where there are none."""
    tree = turns.batch.tree[turns.row]  # the episode or tree that is left out
    _, begins, of = np.unique(tree, return_index=True, return_inverse=True)
    group = turns.column("group")[begins][of]  # a tree is in one group
    owner, examples = number_rows([pools.of, tree], len(tree))
    cell, first = number_rows([pools.of, group], len(tree))
    others = _Others(owner, cell[examples], cell, pools.of[first])
    values = to_go - centre[pools.of]  # small numbers, for the sums of squares
    slope = np.zeros(len(examples))
    products = [others.products(values, values)]
    before, rounding = before_and_rounding
    if before.any():
        products += [others.products(values, before), others.products(before, before)]
        square, product, before_squares = (total for total, _, _ in products)
        before_squares = np.where(
            before_squares > rounding[examples], before_squares, 0.0
        )
        slope = _slope(others.freedom, square, product, before_squares)
    powers = (np.ones_like(slope), -2 * slope, slope**2)
    within, between = (
        np.maximum(
            sum(p * sums[i] for p, sums in zip(powers, products, strict=False)), 0
        )
        for i in (1, 2)
    )
    weight = others.m * np.where(others.known, between, 1.0)
    total = weight + np.where(others.known, within, 1.0)
    w = np.divide(weight, total, where=total > 0, out=np.ones_like(total))
    w = np.where(others.other_size > 0, w, 1.0) * (others.m > 0)
    (group_y, rest_y), (group_x, rest_x) = map(others.means, (values, before))
    mean = (1 - w) * (rest_y - slope * rest_x) + w * (group_y - slope * group_x)
    whole = mean[owner] + slope[owner] * before + centre[pools.of]
    return np.where((others.size == 0)[owner], 0.0, whole)


def _slope(freedom: Floats, square: Floats, product: Floats, squares: Floats) -> Floats:
    """The slope of the values by what was paid, times max(0, 1 - 1 / F); float64[O].

    Args:
        freedom: degrees of freedom that the means leave; the slope takes one more.
        square: sum of value², around the means.
        product: likewise of value · paid.
        squares: likewise of paid².
    """
    has = (squares > 0) & (freedom > 1)
    slope = np.divide(product, squares, where=has, out=np.zeros_like(squares))
    explained = slope * product
    residual = np.maximum(square - explained, 0) / np.maximum(freedom - 1, 1)
    noise = np.divide(
        residual, explained, where=explained > 0, out=np.ones_like(residual)
    )
    return np.asarray(slope * np.maximum(1 - noise, 0), np.float64)


class _Others:
    """Sums over the values of a pool that have another owner; float64[O], by owner in a pool.

    Args:
        owner: int64[M], owner of each value in its pool.
        c: int64[O], group in a pool (cell) of each owner.
        cell: int64[M], likewise of each value.
        pool: int64[C], pool of each cell.

    Attributes:
        size: number of values. m: those of the own group. other_size: of other groups.
        known: whether variances within and between groups can be told apart.
        freedom: degrees of freedom within groups; around one mean if no group has two.
    """

    def __init__(self, owner: Ints, c: Ints, cell: Ints, pool: Ints) -> None:
        self._own, self._c, self._cell, self._pool = owner, c, cell, pool
        n = self._n = np.bincount(cell).astype(np.float64)
        self.m = n[c] - np.bincount(owner)
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
        other_total = self._by_pool(total) - total[self._c]
        return (
            np.where(self.m > 0, of_group, 0.0),
            np.where(
                self.other_size > 0, other_total / np.maximum(self.other_size, 1), 0.0
            ),
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
        pool_sums = np.bincount(self._pool, of_cell)[self._pool[self._c]]
        return np.asarray(pool_sums, np.float64)


@claims(Z_SCORED, bias_infinite="reversed", zero_sum=("group", "seat"))
@needs("rewards.game", paid_part="outcome")
def mt_grpo(
    turns: Trajectories,
    *,
    outcome: str = "game",
    coefficient: float = 1.0,
    pool: Sequence[str] = ("group", "seat"),
    ddof: int = 1,
    eps: float = 1e-4,
) -> Credit:
    """Credits all turns with the outcome, the first also with the turn rewards (MT-GRPO).

        A₁ = z(O) + λ z(T),   Aₖ = z(O) for k > 1
        A₁ = z(O + T) in a trajectory of one turn

    O is the sum of the trajectory's rewards that are its outcome (`outcome`), T the sum of
    all its other rewards. z(x) = (x - mean) / (std + eps) over the trajectories of the
    pool. The paper has two turns, a call of a tool and an answer, and T is the reward of
    the call.

    Reduces to: `episode` with the same ddof and eps with one-turn episodes, or where
    nothing but the outcome is paid; `flow_grpo` of the same outcome with λ = 0 where all
    trajectories have several turns.

    Bias:

    - *Unbiased when*: never. It always divides by a spread, as `episode` does.
    - *Biased by*: two different spreads for O and T; turn rewards at the wrong turn;
      division by the pool's spread, as in `episode`; truncation (the missing return counts
      as 0).
    - *Number*: cosine -0.749, factor -0.396 in `call`, batches of two; cosine -0.749,
      factor -0.318 in `call`, one large group (`arena credit check`).

    A small T gets the same weight as O. The turn rewards of later turns are credited to the
    first turn. An example of the wrong sign: a first turn is paid 0.1 and lowers the chance
    of an outcome of 1 from 0.5 to 0.2. The true gradient is against it, this one is for it.

    See "Reinforcing Multi-Turn Reasoning in LLM Agents via Turn-Level Credit Assignment" by
    Zeng et al. (https://arxiv.org/abs/2505.11821) and its code
    (https://github.com/SiliangZeng/Multi-Turn-RL-Agent).

    Args:
        turns: the turns that count, with `rewards`.
        outcome: name of the part of the reward that is the outcome. `rewards` holds this
            part times its weight, so T is the reward minus this part.
        coefficient: λ, weight of the turn rewards.
        pool: columns whose equal values define a pool, constant on trajectories.
        ddof: 1 divides the variance by n - 1, 0 by n.
        eps: added to the standard deviations.

    Returns:
        float64[N], without unit; 0 where masked. Each part is 0 in a pool of one trajectory
        or of equal values.

    Raises:
        ValueError: an option out of range, or no such part of the reward.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, seat=[0] * 4, group=[0] * 4, turn=[0, 1, 0, 1])
    >>> parts = {"game": [0, 2, 0, 4]}
    >>> turns = TurnBatch([3, 2, 1, 4], episode=[0, 0, 1, 1], rewards=parts, **one)
    >>> mt = estimate("mt_grpo", turns, ddof=0, eps=0)
    >>> mt.advantage  # outcomes 2 and 4, turn rewards 3 and 1
    array([ 0., -1.,  0.,  1.])
    """
    check_range("coefficient", coefficient, 0, float("inf"))
    pools = pools_by(turns, pool, whole=True)
    pool_of, num = pools.of[turns.first], len(pools.key)
    total, total_size, verdict, verdict_size = (
        sums(turns, turns.column(name))[turns.first]
        for name in ("reward", f"rewards.{outcome}")
        for sums in (returns_to_go, sizes_to_go)
    )
    scaled = ("std", ddof, eps)
    whole, stats = relative(total, pool_of, num, *scaled, total_size)
    late, _ = relative(verdict, pool_of, num, *scaled, verdict_size)
    both = total_size + verdict_size
    besides, _ = relative(total - verdict, pool_of, num, *scaled, both)
    alone = turns.left[turns.first] == 0
    early = np.where(alone, whole, late + coefficient * besides)
    advantage = late[turns.index]
    advantage[turns.first] = early
    return with_report(advantage, pools, stats)


OUTCOMES = ("last_turn", "all_turns")
COUNTS = ("trajectories", "turns")


@claims(Z_SCORED, bias_infinite="direction")
@needs("rewards.judge")
def adca(
    turns: Trajectories,
    *,
    judge_weight: float = 0.1,
    outcome: str = "last_turn",
    count: str = "trajectories",
    pool: Sequence[str] = ("group", "seat"),
    eps: float = 1e-8,
) -> Credit:
    """Credits a turn with the judged turns and the outcome that follow it (ADCA-GRPO).

        cₖ = α z(lₖ) + [k is last] z(G),   Aₖ = Σ_{j ≥ k} cⱼ

    lₖ is the judge's label, such as +0.2 for a good turn and -0.2 for a bad one. G is the
    return of the episode. z is the z-score with ddof 0: labels over the turns of the pool,
    outcomes over its trajectories. Two separate z-scores keep one from dominating the
    other. With `count="trajectories"`, each trajectory has the same weight in the mean and
    deviation of the labels. Multiplying all labels by a constant changes nothing, except
    through eps.

    The label should not be part of the reward as well. In `TurnGRPOTrainer`, the function
    in `columns={"rewards.judge": function}` adds nothing to the reward unless
    `part_weights` names `judge`. A reward model may take the place of the function:
    `columns={"rewards.judge": RewardColumn(PATH)}`. Its label is the score minus the mean score
    of other replies to the same prompt, so neither the zero nor the scale of the scores matters.

    Reduces to: `episode` with `ddof=0, eps=0.0` where α = 0, or where the labels of a pool
    are all alike.

    Bias:

    - *Unbiased when*: never. With α = 0 the bias of `episode` remains.
    - *Biased by*: length (each further turn costs the mean label); division by the pool's
      spread, as in `episode`; errors of the judge; truncation (the missing return counts as
      0).
    - *Number*: cosine -1.000, factor -1.000 in `bandit`, shared chance; cosine 0.994,
      factor 0.805 in `three_seats`, one large group (`arena credit check`).

    If play decides how many turns follow, the length bias can turn the sign.
    `outcome="all_turns"` adds the outcome once for each turn that follows, so early turns
    get it several times.

    See "AgentEvolver: Towards Efficient Self-Evolving Agent System" by Zhai et al.
    (https://arxiv.org/abs/2511.10395).

    Args:
        turns: the turns that count, with the reward part `judge`.
        judge_weight: α.
        outcome: where z(G) is added, to the `"last_turn"` or to `"all_turns"`.
        count: the unit with equal weight in mean and deviation of the labels:
            `"trajectories"` or `"turns"`.
        pool: columns whose equal values define a pool, constant on trajectories.
        eps: added to the variance of the labels.

    Returns:
        float64[N], without unit; 0 where masked. The labels of a pool add 0 if they are all
        equal. The outcomes add 0 in a pool of one trajectory or of equal returns.

    Raises:
        ValueError: an option out of range, or a column that is missing.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> one |= dict(turn=[0, 1, 0], rewards={"judge": [1, 1, -1]})
    >>> turns = TurnBatch(reward=[0, 2, 0], episode=[0, 0, 1], **one)
    >>> estimate("adca", turns).advantage.round(3)  # labels ±1, outcomes ±1
    array([ 1.2,  1.1, -1.1])
    """
    check_range("judge_weight", judge_weight, 0, float("inf"))
    check_choice("outcome", outcome, OUTCOMES)
    check_choice("count", count, COUNTS)
    check_range("eps", eps, 0, float("inf"))
    base = episode(turns, pool=pool, ddof=0, eps=0.0)
    pools = pools_by(turns, pool, whole=True)
    label = turns.column("rewards.judge")
    stats = _moments(turns, label, pools, count)
    spread = np.sqrt(stats.std**2 + eps)[pools.of]
    relative = label - stats.mean[pools.of]
    turn_credit = judge_weight * np.divide(
        relative,
        spread,
        out=np.zeros_like(label),
        where=(beyond_rounding(stats.std) > 0)[pools.of],
    )
    turn_credit += np.where(
        (turns.left == 0) | (outcome == "all_turns"), base.advantage, 0.0
    )
    compared = Moments(base.report.size, base.report.mean, base.report.std)
    return with_report(returns_to_go(turns, turn_credit), pools, compared)


def _moments(turns: Trajectories, label: Floats, pools: Pools, count: str) -> Moments:
    """Moments of the labels of each pool, ddof 0."""
    num, pool_of = len(pools.key), pools.of[turns.first]
    if count == "turns":
        return moments(label, pools.of, num, ddof=0)
    length = np.bincount(turns.index)
    mean = moments(np.bincount(turns.index, label) / length, pool_of, num).mean
    square = (label - mean[pools.of]) ** 2
    spread, whole = (
        moments(np.bincount(turns.index, values) / length, pool_of, num)
        for values in (square, label**2)
    )
    std = beyond_rounding(np.sqrt(spread.mean), np.sqrt(whole.mean))
    return Moments(spread.size, mean, std)
