"""Turn-level credit relative to the own game and seat: `mars` and `mars_loo`."""

from collections.abc import Sequence

from arena_trainers.credit.batch import Ints
from arena_trainers.credit.estimators.returns import check_scaling, return_moments
from arena_trainers.credit.pools import (
    Credit,
    check_choice,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.scales import mean_of_others, unit_scale
from arena_trainers.credit.trajectories import Trajectories, returns_to_go

BASELINES = ("turn_returns", "episode_returns")


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

    >>> from arena_trainers.credit import TurnBatch, estimate
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
    advantage = to_go - stats.mean[pools.of]
    if scale == "std":
        advantage *= unit_scale(stats.std, eps)[pools.of]
    return with_report(advantage, pools, stats)


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

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> turns = TurnBatch(reward=[0, 1, 4], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> estimate("mars_loo", turns).advantage  # of others: mean 4, and mean (1 + 1) / 2
    array([-3., -3.,  3.])
    """
    averaged = _averaged(turns, baseline)
    pools = pools_by(turns, pool, whole=baseline == "episode_returns")
    to_go = returns_to_go(turns, turns.column("reward"), discount)
    own = turns.batch.tree[turns.row]  # the episode or tree that is left out
    advantage = to_go - mean_of_others(pools, own, to_go, averaged)
    stats = moments(to_go[averaged], pools.of[averaged], len(pools.key))
    return with_report(advantage, pools, stats)


def _averaged(turns: Trajectories, baseline: str) -> Ints | slice:
    """The turns whose return-to-go enters the mean: all, or each trajectory's first."""
    check_choice("baseline", baseline, BASELINES)
    return turns.first if baseline == "episode_returns" else slice(None)
