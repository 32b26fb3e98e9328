"""Group-relative estimators: `episode` and `normalise_then_sum`."""

from collections.abc import Sequence

from arena_trainers.credit.pools import (
    Credit,
    check_range,
    pools_by,
    with_report,
)
from arena_trainers.credit.scales import relative
from arena_trainers.credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)


def episode(
    turns: Trajectories,
    *,
    pool: Sequence[str] = ("group", "seat"),
    scale: str = "std",
    ddof: int = 1,
    eps: float = 1e-4,
) -> Credit:
    """Credits every turn with its trajectory's return, relative to its pool (GRPO).

        Aᵢₖ = (Gᵢ - mean G) / (std G + eps),   Gᵢ = Σₖ rᵢₖ

    over the trajectories of the pool.

    Reduces to: `dr_grpo` with `scale="none"`; with one-turn episodes, what
    `trl.GRPOTrainer` computes for groups of the same size.

    Bias: each pool is divided by its own spread (`"std"`). In one large pool of independent
    episodes that is a positive factor. But where a group shares the draws of chance, as in
    training, each deal is divided by a spread of its own, though a seat may not see which
    it is, and the sign can be wrong in batches of any size (with nine cards of ten daring
    pays .05, with the other it costs 1, unseen: the true gradient is against it, that of
    z-scores for it). In small pools the spread depends on the trajectory, and the sign can
    be wrong: towards what wins often, away from what seldom pays much (A pays 1, B pays 10
    with chance .2, evenly chosen: true gradient towards B, groups of 8 expect one towards
    A). With `"none"` the gradient is only shrunk, by 1 - 1/n with n trajectories in the
    pool. What a limit of turns cuts off counts as nothing. Early rewards are noise for late
    turns, as all turns share one number.

    See "DeepSeekMath" by Shao et al. (https://arxiv.org/abs/2402.03300) and "Understanding
    R1-Zero-Like Training" by Liu et al. (https://arxiv.org/abs/2503.20783).

    Args:
        turns: the turns that count.
        pool: columns that agree within a pool, constant on trajectories.
        scale: `"std"` or `"none"`.
        ddof: 1 for the unbiased variance, 0 for the plain one.
        eps: added to the standard deviation.

    Returns:
        float64[N], without unit (`"none"`: in the reward's); 0 where masked, and in a pool
        of one trajectory or of equal returns.

    Raises:
        ValueError: an option out of range.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> turns = TurnBatch(reward=[1, 2, 5], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> estimate("episode", turns, scale="none").advantage  # returns 3 and 5
    array([-1., -1.,  1.])
    """
    pools = pools_by(turns, pool, whole=True)
    reward = turns.column("reward")
    returns = returns_to_go(turns, reward)[turns.first]
    sizes = sizes_to_go(turns, reward)[turns.first]
    own = pools.of[turns.first]  # [R]
    advantage, stats = relative(returns, own, len(pools.key), scale, ddof, eps, sizes)
    return with_report(advantage[turns.index], pools, stats)


def normalise_then_sum(
    turns: Trajectories,
    *,
    discount: float = 1.0,
    pool: Sequence[str] = ("game",),
    scale: str = "std",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Credit:
    """Credits a turn with the sum of normalised rewards from it on (process-reward GRPO).

        Aₖ = Σ_{j ≥ k} γ^{j - k} (rⱼ - mean r) / (std r + eps)

    over the turn rewards of the pool. Here for comparison, and as the core of the released MARS
    (`pool=("game", "seat"), scale="none"`).

    Reduces to: `episode` over the same pool with the same ddof and eps, with one-turn
    episodes.

    Bias: every further turn is charged the mean turn reward. That is wrong in direction, in
    batches of any size, where what a player does decides how many turns follow: the
    gradient is p(1-p)μ / (1+p) instead of p(1-p)μ when continuing, with probability p,
    earns μ one turn later, and has the wrong sign when stopping earns a little less than
    that.

    See "DeepSeekMath" by Shao et al., section 4.1.3 (https://arxiv.org/abs/2402.03300).

    Args:
        turns: the turns that count.
        discount: γ, per turn of the same seat.
        pool: columns that agree within a pool.
        scale: `"std"` or `"none"`.
        ddof: 1 for the unbiased variance, 0 for the plain one.
        eps: added to the standard deviation.

    Returns:
        float64[N], without unit (`"none"`: in the reward's); 0 where masked. A turn reward
        adds 0 in a pool of one or of equal rewards.

    Raises:
        ValueError: an option out of range.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> turns = TurnBatch(reward=[1, 2, 6], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> estimate("normalise_then_sum", turns, scale="none").advantage  # mean reward 3
    array([-3., -1.,  3.])
    """
    check_range("discount", discount, 0, 1)
    pools = pools_by(turns, pool)
    reward = turns.column("reward")
    normal, stats = relative(reward, pools.of, len(pools.key), scale, ddof, eps)
    return with_report(returns_to_go(turns, normal, discount), pools, stats)
