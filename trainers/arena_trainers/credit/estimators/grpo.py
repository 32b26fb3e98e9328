"""Z-scores within a pool: `episode` (GRPO) and `normalise_then_sum`."""

from collections.abc import Sequence

from arena_trainers.credit.estimators.returns import (
    check_scaling,
    return_moments,
    whole_returns,
)
from arena_trainers.credit.pools import (
    Credit,
    pools_by,
    with_report,
)
from arena_trainers.credit.scales import relative, unit_scale
from arena_trainers.credit.trajectories import Trajectories, returns_to_go


def episode(
    turns: Trajectories,
    *,
    pool: Sequence[str] = ("group", "seat"),
    scale: str = "std",
    ddof: int = 1,
    eps: float = 1e-4,
) -> Credit:
    """Credits every turn with the z-score of its trajectory's return in its pool (GRPO).

        Aᵢₖ = (Gᵢ - mean G) / (std G + eps),   Gᵢ = Σₖ rᵢₖ

    Mean and standard deviation are over the trajectories of the pool. All turns of a
    trajectory share one advantage, so early rewards are noise for late turns. `grpo` is a
    second name of this estimator.

    Reduces to: `dr_grpo` with `scale="none"`; with one-turn episodes, what
    `trl.GRPOTrainer` computes for groups of the same size.

    Bias:

    - *Unbiased when*: `scale="none"`, pools are large and no limit cuts an episode. A pool
      of n trajectories shrinks the gradient by the factor 1 - 1/n.
    - *Biased by*: division by the pool's spread; truncation (the missing return counts as
      0). In one large pool of independent episodes the spread only scales the gradient. In
      small pools, and in groups that share the draws of chance, it can turn the sign.
    - *Number*: cosine -1.000, factor -0.424 in `bandit`, batches of two; cosine -1.000,
      factor -1.200 in `bandit`, shared chance (`arena credit check`).

    See "DeepSeekMath" by Shao et al. (https://arxiv.org/abs/2402.03300) and "Understanding
    R1-Zero-Like Training" by Liu et al. (https://arxiv.org/abs/2503.20783).

    Args:
        turns: the turns that count.
        pool: columns whose equal values define a pool, constant on trajectories.
        scale: `"std"` or `"none"`.
        ddof: 1 divides the variance by n - 1, 0 by n.
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
    check_scaling(scale, ddof, eps)
    pools = pools_by(turns, pool, whole=True)
    returns = whole_returns(turns, turns.column("reward"))
    stats = return_moments(turns, pools, returns, turns.first, ddof=ddof)
    advantage = returns - stats.mean[pools.of]
    if scale == "std":
        advantage *= unit_scale(stats.std, eps)[pools.of]
    return with_report(advantage, pools, stats)


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

    Mean and standard deviation are over the turn rewards of the pool. With `pool=("game",
    "seat"), scale="none"` it is the core of the released MARS code.

    Reduces to: `episode` over the same pool with the same ddof and eps, with one-turn
    episodes.

    Bias:

    - *Unbiased when*: never, unless γ = 1, all trajectories have the same number of turns,
      `scale="none"` and pools are large.
    - *Biased by*: length (each further turn costs the mean turn reward); truncation (the
      missing return counts as 0).
    - *Number*: cosine -1.000, factor -2.074 in `stop_or_go`, batches of two; cosine -1.000,
      factor -5.080 in `stop_or_go`, one large group (`arena credit check`).

    Large batches keep the length bias. Example: a player continues with probability p and
    earns μ one turn later. The gradient is p(1-p)μ / (1+p) instead of p(1-p)μ. If stopping
    earns slightly less than μ, the sign is wrong.

    See "DeepSeekMath" by Shao et al., section 4.1.3 (https://arxiv.org/abs/2402.03300).

    Args:
        turns: the turns that count.
        discount: γ, per turn of the same seat.
        pool: columns whose equal values define a pool.
        scale: `"std"` or `"none"`.
        ddof: 1 divides the variance by n - 1, 0 by n.
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
    pools = pools_by(turns, pool)
    reward = turns.column("reward")
    normal, stats = relative(reward, pools.of, len(pools.key), scale, ddof, eps)
    return with_report(returns_to_go(turns, normal, discount), pools, stats)
