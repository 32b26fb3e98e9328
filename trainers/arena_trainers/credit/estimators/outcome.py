"""One advantage for a whole trajectory: `dr_grpo`, `rloo`, `flow_grpo`, `grpo_passk`."""

from collections.abc import Sequence

import numpy as np

from arena_trainers.credit.estimators.grpo import episode
from arena_trainers.credit.estimators.returns import whole_returns
from arena_trainers.credit.pools import (
    Credit,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.scales import (
    best_of_others,
    mean_of_others,
    relative,
    unit_scale,
)
from arena_trainers.credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)


def dr_grpo(turns: Trajectories, *, pool: Sequence[str] = ("group", "seat")) -> Credit:
    """Credits every turn with its trajectory's return minus the mean of its pool (Dr.GRPO).

        Aᵢₖ = Gᵢ - mean G,   Gᵢ = Σₖ rᵢₖ

    All turns of a trajectory share one advantage, so early rewards are noise for late
    turns. The paper's second change, a loss without division by the reply's length, is the
    trainer's option `loss_type="dr_grpo"`.

    Reduces to: `episode` with `scale="none"`; (n - 1) / n times `rloo` with n trajectories
    of one seat in the pool; `mars` over the same pool with one-turn episodes.

    Bias:

    - *Unbiased when*: pools are large and no limit cuts an episode. Groups may share the
      draws of chance.
    - *Biased by*: the own return in the mean; truncation (the missing return counts as 0).
      The first only shrinks the gradient by the factor 1 - 1/n, with n trajectories in the
      pool.
    - *Number*: cosine 1.000, factor 0.500 in `bandit`, batches of two; cosine 1.000, factor
      1.000 in `bandit`, shared chance (`arena credit check`).

    See "Understanding R1-Zero-Like Training: A Critical Perspective" by Liu et al.
    (https://arxiv.org/abs/2503.20783).

    Args:
        turns: the turns that count.
        pool: columns whose equal values define a pool, constant on trajectories.

    Returns:
        float64[N], in the reward's unit; 0 where masked, and in a pool of one trajectory or
        of equal returns.

    Raises:
        ValueError: there is no such column, or it is not constant on trajectories.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> turns = TurnBatch(reward=[1, 2, 5], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> estimate("dr_grpo", turns).advantage  # returns 3 and 5
    array([-1., -1.,  1.])
    """
    return episode(turns, pool=pool, scale="none")


def rloo(turns: Trajectories, *, pool: Sequence[str] = ("group", "seat")) -> Credit:
    """Credits every turn with its trajectory's return minus the mean of the others (RLOO).

        Aᵢₖ = Gᵢ - mean{Gⱼ : other episodes of the pool},   Aᵢₖ = Gᵢ if there are none

    The seats of an episode depend on each other, and so do the episodes of a turn tree
    (`parent`). The mean therefore leaves out the whole own episode, or the whole own tree.
    All turns of a trajectory share one advantage, so early rewards are noise for late
    turns.

    Reduces to: `mars_loo` over the same pool with one-turn episodes; n / (n - 1) times
    `dr_grpo` with n trajectories of one seat in the pool.

    Bias:

    - *Unbiased when*: no limit cuts an episode, in batches of any size. Groups may share
      the draws of chance.
    - *Biased by*: truncation (the missing return counts as 0).
    - *Number*: cosine 1.000, factor 1.000 in `bandit`, batches of two; cosine -0.966,
      factor -0.488 in `patience`, batches of two, where a limit cuts (`arena credit
      check`).

    See "Back to Basics: Revisiting REINFORCE-Style Optimization for Learning from Human
    Feedback in LLMs" by Ahmadian et al. (https://arxiv.org/abs/2402.14740).

    Args:
        turns: the turns that count.
        pool: columns whose equal values define a pool, constant on trajectories.

    Returns:
        float64[N], in the reward's unit; 0 where masked.

    Raises:
        ValueError: there is no such column, or it is not constant on trajectories.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0], turn=[0, 0, 0])
    >>> turns = TurnBatch(reward=[1, 3, 8], episode=[0, 1, 2], **one)
    >>> estimate("rloo", turns).advantage  # means of the others 5.5, 4.5 and 2
    array([-4.5, -1.5,  6. ])
    """
    pools = pools_by(turns, pool, whole=True)
    returns = whole_returns(turns, turns.column("reward"))
    own = turns.batch.tree[turns.row]  # the episode or tree that is left out
    advantage = returns - mean_of_others(pools, own, returns, turns.first)
    stats = moments(returns[turns.first], pools.of[turns.first], len(pools.key))
    return with_report(advantage, pools, stats)


def flow_grpo(
    turns: Trajectories,
    *,
    outcome: str | None = None,
    pool: Sequence[str] = ("group", "seat"),
    ddof: int = 1,
    eps: float = 1e-6,
) -> Credit:
    """Credits every turn with the z-score of its trajectory's outcome (Flow-GRPO).

        Aᵢₖ = (Oᵢ - mean O) / (std O + eps)

    O is one part of the reward, summed over the trajectory (`outcome`), or the whole
    reward. All turns of a trajectory share one advantage. The paper also averages the loss
    over the tokens of a turn, then over turns, then over trajectories; that is an option of
    the trainer. Flow-GRPO for image models is another method.

    Reduces to: `episode` with the same ddof and eps where `outcome` is None, or where
    nothing but the outcome is paid.

    Bias:

    - *Unbiased when*: never. It always divides by a spread, as `episode` does.
    - *Biased by*: division by the pool's spread; ignored rewards (with `outcome`, all other
      parts count as 0); truncation (the missing return counts as 0).
    - *Number*: cosine -1.000, factor -0.424 in `bandit`, batches of two; cosine -1.000,
      factor -1.200 in `bandit`, shared chance (`arena credit check`).

    See "In-the-Flow Agentic System Optimization for Effective Planning and Tool Use" by Li
    et al. (https://arxiv.org/abs/2510.05592).

    Args:
        turns: the turns that count.
        outcome: name of the part of the reward that is the outcome; None for the whole
            reward.
        pool: columns whose equal values define a pool, constant on trajectories.
        ddof: 1 divides the variance by n - 1, 0 by n.
        eps: added to the standard deviation.

    Returns:
        float64[N], without unit; 0 where masked, and in a pool of one trajectory or of
        equal outcomes.

    Raises:
        ValueError: an option out of range, or no such part of the reward.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> parts = dict(rewards={"game": [0, 2, 4]})
    >>> turns = TurnBatch([9, 2, 4], episode=[0, 0, 1], turn=[0, 1, 0], **one, **parts)
    >>> flow = estimate("flow_grpo", turns, outcome="game", ddof=0, eps=0)
    >>> flow.advantage  # outcomes 2 and 4, mean 3, deviation 1
    array([-1., -1.,  1.])
    """
    reward = turns.column("reward" if outcome is None else f"rewards.{outcome}")
    pools = pools_by(turns, pool, whole=True)
    outcomes = returns_to_go(turns, reward)[turns.first]
    sizes = sizes_to_go(turns, reward)[turns.first]
    own = pools.of[turns.first]
    advantage, stats = relative(outcomes, own, len(pools.key), "std", ddof, eps, sizes)
    return with_report(advantage[turns.index], pools, stats)


def grpo_passk(
    turns: Trajectories,
    *,
    pool: Sequence[str] = ("group", "seat"),
    scale: str = "none",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Credit:
    """Credits a pool's best trajectory with its lead over the second, others with 0.

        Aᵢₖ = Gᵢ - max{Gⱼ : j ≠ i} if Gᵢ is the highest, else 0

    The lead is the best return of the pool minus the best return without this trajectory. A
    pool of one has no other trajectory, and gets 0. The paper does not scale
    (`scale="none"`). verl's estimator of the same name divides by the standard deviation of
    the pool's returns by default (`scale="std"`).

    Reduces to: `rloo` where that is positive, and 0 elsewhere, with two trajectories in a
    pool; with returns of 0 and 1, to 1 for a single winner and 0 for all others.

    Bias:

    - *Unbiased when*: never, for the expected return. For another objective it is: summed
      over a pool of n, it is unbiased for the gradient of the expected best return
      (pass@n).
    - *Biased by*: its objective, the best of n tries; truncation (the missing return counts
      as 0).
    - *Number*: cosine -1.000 in `hidden_card`, batches of two; cosine 0.000, factor 0.000
      in `bandit`, one large group (`arena credit check`).

    The mean return may fall. In large pools the lead goes to 0. `"std"` also weighs each
    pool by its spread: with returns of 0 and 1, a single winner among n gets √n instead of
    1.

    See "Optimizing Language Models for Inference Time Objectives using Reinforcement
    Learning" by Tang et al. (https://arxiv.org/abs/2503.19595).

    Args:
        turns: the turns that count.
        pool: columns whose equal values define a pool, constant on trajectories. A pool
            must hold one trajectory of an episode: two of them are not independent.
        scale: `"none"` (the paper) or `"std"` (the released code).
        ddof: 1 divides the variance by n - 1, 0 by n.
        eps: added to the standard deviation.

    Returns:
        float64[N], in the reward's unit (`"std"`: without unit); 0 where masked, in a pool
        of one trajectory, and where the two best are equal.

    Raises:
        ValueError: an option out of range, there is no such column, or it is not constant
            on trajectories.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0], turn=[0, 0, 0])
    >>> turns = TurnBatch(reward=[1, 3, 8], episode=[0, 1, 2], **one)
    >>> estimate("grpo_passk", turns).advantage
    array([0., 0., 5.])
    """
    pools = pools_by(turns, pool, whole=True)
    returns = returns_to_go(turns, turns.column("reward"))[turns.first]
    own = pools.of[turns.first]
    sizes = sizes_to_go(turns, turns.column("reward"))[turns.first]
    _, stats = relative(returns, own, len(pools.key), scale, ddof, eps, sizes)
    lead = np.maximum(returns - best_of_others(returns, own), 0.0)
    lead[stats.size[own] == 1] = 0.0
    if scale == "std":
        lead *= unit_scale(stats.std, eps)[own]
    return with_report(lead[turns.index], pools, stats)
