"""Credit of trajectories relative to others of their pool: GRPO, its variants, teams, planners.

`aepo` and `hapo` weigh tokens by entropy.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena_credit.batch import Floats, Ints
from arena_credit.claims import UNBIASED, Z_SCORED, claims
from arena_credit.needs import needs
from arena_credit.pools import (
    Credit,
    Moments,
    baselines_from,
    best_of_others,
    beyond_rounding,
    check_choice,
    check_range,
    check_scaling,
    mean_of_others,
    moments,
    number_rows,
    pools_by,
    relative,
    return_moments,
    running_means,
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


@claims(Z_SCORED, zero_sum=("group", "seat"))
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

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> turns = TurnBatch(reward=[1, 2, 5], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> estimate("episode", turns, scale="none").advantage  # returns 3 and 5
    array([-1., -1.,  1.])
    """
    check_scaling(scale, ddof, eps)
    pools = pools_by(turns, pool, whole=True)
    returns = whole_returns(turns, turns.column("reward"))
    stats = return_moments(turns, pools, returns, turns.first, ddof=ddof)
    return scaled_credit(returns - stats.mean[pools.of], pools, stats, scale, eps)


@claims(zero_sum=("game",), games_apart=True, tokens=True, singleton_pool="zero")
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

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> turns = TurnBatch(reward=[1, 2, 6], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> estimate("normalise_then_sum", turns, scale="none").advantage  # mean reward 3
    array([-3., -1.,  3.])
    """
    pools = pools_by(turns, pool)
    reward = turns.column("reward")
    normal, stats = relative(reward, pools.of, len(pools.key), scale, ddof, eps)
    return with_report(returns_to_go(turns, normal, discount), pools, stats)


@claims(
    Z_SCORED,
    bias_two="scaled",
    bias_infinite="exact",
    bias_shared_chance="exact",
    zero_sum=("group", "seat"),
    noise=1.0,
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

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> turns = TurnBatch(reward=[1, 2, 5], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> estimate("dr_grpo", turns).advantage  # returns 3 and 5
    array([-1., -1.,  1.])
    """
    return episode(turns, pool=pool, scale="none")


@claims(UNBIASED, bootstraps=False, shift=True, singleton_pool="return", noise=1.0)
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

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0], turn=[0, 0, 0])
    >>> turns = TurnBatch(reward=[1, 3, 8], episode=[0, 1, 2], **one)
    >>> estimate("rloo", turns).advantage  # means of the others 5.5, 4.5 and 2
    array([-4.5, -1.5,  6. ])
    """
    pools = pools_by(turns, pool, whole=True)
    returns = whole_returns(turns, turns.column("reward"))
    tree = turns.batch.tree[turns.row]  # the episode or tree that is left out
    advantage = returns - mean_of_others(pools, tree, returns, turns.first)
    stats = moments(returns[turns.first], pools.of[turns.first], len(pools.key))
    return with_report(advantage, pools, stats)


@claims(Z_SCORED, zero_sum=("group", "seat"))
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

    >>> from arena_credit import TurnBatch, estimate
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
    pool_of = pools.of[turns.first]
    advantage, stats = relative(
        outcomes, pool_of, len(pools.key), "std", ddof, eps, sizes
    )
    return with_report(advantage[turns.index], pools, stats)


@claims(Z_SCORED, bias_infinite="zero", bias_shared_chance="zero")
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

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0], turn=[0, 0, 0])
    >>> turns = TurnBatch(reward=[1, 3, 8], episode=[0, 1, 2], **one)
    >>> estimate("grpo_passk", turns).advantage
    array([0., 0., 5.])
    """
    pools = pools_by(turns, pool, whole=True)
    returns = returns_to_go(turns, turns.column("reward"))[turns.first]
    pool_of = pools.of[turns.first]
    sizes = sizes_to_go(turns, turns.column("reward"))[turns.first]
    _, stats = relative(returns, pool_of, len(pools.key), scale, ddof, eps, sizes)
    lead = np.maximum(returns - best_of_others(returns, pool_of), 0.0)
    lead[stats.size[pool_of] == 1] = 0.0
    return scaled_credit(lead[turns.index], pools, stats, scale, eps)


COUNTS = ("tokens", "turns")


@claims(bias_infinite="scaled", bias_shared_chance="scaled", shift=True)
def reinforce_plus_plus_baseline(
    turns: Trajectories,
    *,
    pool: Sequence[str] = ("group", "seat"),
    count: str = "tokens",
    eps: float = 1e-8,
) -> Credit:
    """Credits every turn with `dr_grpo`, whitened over the batch (REINFORCE++ w/ Baseline).

        A'ᵢₖ = Gᵢ - mean G,   Aᵢₖ = (A'ᵢₖ - mean A') / (std A' + eps),   Gᵢ = Σₖ rᵢₖ

    The mean of G is over the trajectories of the pool. Mean and deviation of A' are over
    all tokens of the batch (ddof 1); each token has the A' of its turn. The paper's second
    change, a KL term in the reward, is not part of credit.

    Reduces to: `dr_grpo` divided by one number where turns are equally many and equally
    long; `episode` with the same eps, with one pool of one-turn episodes and
    `count="turns"`.

    Bias:

    - *Unbiased when*: never exactly. In large batches without truncation the gradient is
      the true one times one positive factor, the same for all games, seats and groups.
      Groups may share the draws of chance.
    - *Biased by*: the own turn in the batch's mean and spread; a scale that all games
      share; truncation (the missing return counts as 0).
    - *Number*: cosine -1.000, factor -0.424 in `bandit`, batches of two; cosine 1.000,
      factor 0.485 in `bandit`, shared chance (`arena credit check`).

    In small batches the estimator can reverse the sign of the gradient, because the turn
    itself is in the mean and spread, as in `episode`. One spread for all games means that a
    game with rewards in units teaches little next to a game with rewards in hundreds.

    See "REINFORCE++: Stabilizing Critic-Free Policy Optimization with Global Advantage
    Normalization" by Hu et al. (https://arxiv.org/abs/2501.03262).

    Args:
        turns: the turns that count, with `num_tokens` if tokens are counted.
        pool: columns whose equal values define a pool, constant on trajectories.
        count: the unit with equal weight in mean and deviation: `"tokens"` or `"turns"`.
        eps: added to the standard deviation.

    Returns:
        float64[N], without unit; 0 where masked, and everywhere if all A' are equal. In a
        pool of one trajectory or of equal returns A' is 0, so A is -mean A' / (std A' +
        eps). A is then 0 if all trajectories have the same number of tokens (or turns, if
        turns are counted). The report's moments are those of G.

    Raises:
        ValueError: an option out of range, or a column is missing.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 3, seat=[0] * 3, group=[0] * 3, turn=[0] * 3)
    >>> turns = TurnBatch(reward=[1, 2, 3], episode=[0, 1, 2], num_tokens=[1, 1, 1], **one)
    >>> estimate("reinforce_plus_plus_baseline", turns, eps=0).advantage
    array([-1.,  0.,  1.])
    """
    check_choice("count", count, COUNTS)
    check_range("eps", eps, 0, float("inf"))
    credit = dr_grpo(turns, pool=pool)
    advantage = credit.advantage
    weight = np.ones(len(advantage))
    if count == "tokens":
        weight = turns.column("num_tokens").astype(np.float64)
    total = weight.sum()
    centred = advantage - weight @ advantage / max(total, 1)
    sizes = sizes_to_go(turns, turns.column("reward"))[turns.first][turns.index]
    std = beyond_rounding(
        np.sqrt(weight @ centred**2 / max(total - 1, 1)),
        np.sqrt(weight @ sizes**2 / max(total, 1)),
    )
    result = centred * unit_scale(std, eps)
    report = credit.report
    stats = Moments(report.size, report.mean, report.std)
    return with_report(result, pools_by(turns, pool, whole=True), stats)


METRICS = ("num_tokens", "num_turns", "entropy")


@claims(
    Z_SCORED,
    bias_two="exact",
    bias_infinite="direction",
    bias_shared_chance="direction",
    tokens=False,
)
@needs("num_tokens")
def canon(
    turns: Trajectories,
    *,
    metric: str = "num_tokens",
    mu: float = 1.0,
    pool: Sequence[str] = ("group", "seat"),
) -> Credit:
    """Credits a trajectory relative to two halves of its pool, split by a metric (CANON).

        Aᵢₖ = μ (Gᵢ - mean of the other half) + (1 - μ) (Gᵢ - mean of the own half)

    The lower half of a pool of n holds the n // 2 trajectories with the lowest metric, such
    as the number of tokens. Ties go by ascending episode, then seat. The released code also
    divides by the length of the longest reply, a constant.

    Reduces to: `dr_grpo` with μ = 1/2 and halves of equal size; `rloo` with two
    trajectories in a pool and μ = 1.

    Bias:

    - *Unbiased when*: a pool has two trajectories and μ = 1; or play does not affect the
      metric, pools are large and no limit cuts an episode.
    - *Biased by*: play that affects the metric; truncation (the missing return counts as
      0).
    - *Number*: cosine 1.000, factor 2.000 in `stop_or_go`, one large group; cosine 0.960,
      factor 1.191 in `three_seats`, one large group (`arena credit check`).

    With equal halves, A is that of `dr_grpo` plus (2μ - 1) times the mean of the own half
    minus the mean of the pool. So if an action decides the half, μ = 1 up to doubles its
    advantage, and μ = 0 removes up to all of it.

    See "Conditional Advantage Estimation for Reinforcement Learning in Large Reasoning
    Models" by Chen et al. (https://arxiv.org/abs/2509.23962).

    Args:
        turns: the turns that count, with `num_tokens`.
        metric: `"num_tokens"` of the trajectory, its `"num_turns"`, or the mean `"entropy"`
            of its tokens, which needs the token column.
        mu: μ, weight of the comparison between halves.
        pool: columns whose equal values define a pool, constant on trajectories.

    Returns:
        float64[N], in the reward's unit; 0 where masked, and in a pool of one trajectory or
        of equal returns.

    Raises:
        ValueError: an option out of range, or no such column.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, seat=[0] * 4, group=[0] * 4, turn=[0] * 4)
    >>> turns = TurnBatch([1, 3, 5, 9], episode=range(4), num_tokens=[1, 2, 3, 4], **one)
    >>> estimate("canon", turns).advantage  # halves of mean 2 and 7
    array([-6., -4.,  3.,  7.])
    """
    check_choice("metric", metric, METRICS)
    check_range("mu", mu, 0, 1)
    pools = pools_by(turns, pool, whole=True)
    pool_of = pools.of[turns.first]
    returns = returns_to_go(turns, turns.column("reward"))[turns.first]
    stats = moments(returns, pool_of, len(pools.key))
    order = np.lexsort(
        (turns.column("episode")[turns.first], _metric(turns, metric), pool_of)
    )
    rank = np.empty(len(pool_of), np.int64)
    rank[order] = (
        np.arange(len(pool_of)) - (np.cumsum(stats.size) - stats.size)[pool_of[order]]
    )
    half = 2 * pool_of + (rank >= stats.size[pool_of] // 2)
    halves = moments(returns, half, 2 * len(pools.key))
    opposite = half ^ 1
    mean = np.where(halves.size[opposite] > 0, halves.mean[opposite], returns)
    advantage = mu * (returns - mean) + (1 - mu) * (returns - halves.mean[half])
    return with_report(advantage[turns.index], pools, stats)


def _metric(turns: Trajectories, metric: str) -> Floats:
    """float64[R]: the metric that ranks the trajectories."""
    size = len(turns.first)
    if metric == "num_turns":
        return np.bincount(turns.index, minlength=size).astype(np.float64)
    num_tokens = turns.column("num_tokens")
    length = np.bincount(turns.index, num_tokens, size).astype(np.float64)
    if metric == "num_tokens":
        return np.asarray(length, np.float64)
    entropy = turns.column("tokens.entropy")
    total = np.bincount(np.repeat(turns.index, num_tokens), entropy, size)
    return np.asarray(total / np.maximum(length, 1))


ORDERS = ("pre", "post")


@claims(UNBIASED, bootstraps=False, groups_apart=False, singleton_pool="return")
def rae(
    turns: Trajectories,
    *,
    state: Mapping[str, Any] | None = None,
    order: str = "pre",
    decay: float = 0.95,
    discount: float = 1.0,
    pool: Sequence[str] = ("game", "seat"),
) -> Credit:
    """Credits a trajectory with its return minus a running mean of its game and seat (RAE).

        pre:   Aᵢ = Gᵢ - b,  then  b ← α b + (1 - α) Gᵢ
        post:  b ← α b + (1 - α) Gᵢ,  then  Aᵢ = Gᵢ - b;   both  Aᵢₖ = γ^{K - k} Aᵢ

    Each pool has its own b, which starts at 0 and is updated episode by episode in
    ascending number. K is the trajectory's last turn. `"pre"` is the released code of
    SPIRAL, `"post"` is equation 2 of the paper read literally. All turns share the return,
    so early rewards are noise for late turns.

    Departs from the released code in three ways. The released code keeps one b per seat, this
    estimator one per game and seat. There, each process has its own b and checkpoints do not
    contain it. It also drops samples with advantage 0.

    Reduces to: the return itself, without a baseline, where α = 1; `"post"` is α times
    `"pre"`.

    Bias:

    - *Unbiased when*: `"pre"`, γ = 1, every pool holds one seat and no limit cuts an
      episode, in batches of any size. Groups may share the draws of chance. If the policy
      changes, b lags behind; that adds variance only.
    - *Biased by*: truncation (the missing return counts as 0); γ < 1 (early turns count
      less); `"post"` (the factor α, exactly); a pool without `"seat"`.
    - *Number*: cosine 1.000, factor 1.000 in `bandit`, batches of two; cosine -0.966,
      factor -0.488 in `patience`, batches of two, where a limit cuts (`arena credit
      check`).

    In such a pool b contains the returns of lower seats of the same episode. That takes
    away 1 - α times the gradient of these returns.

    See "SPIRAL: Self-Play on Zero-Sum Games Incentivizes Reasoning via Multi-Agent
    Multi-Turn Reinforcement Learning" by Liu et al. (https://arxiv.org/abs/2506.24119).

    Args:
        turns: the turns that count.
        state: the state that the call for the previous batch returned; None at first.
        order: `"pre"` or `"post"`.
        decay: α, per episode.
        discount: γ, per turn of the seat that follows this one.
        pool: columns whose equal values define a pool, constant on trajectories. The
            state keeps baselines under the numbers in these columns, so a number must mean
            the same in every batch. In the trainer this holds for games and seats, and not
            for groups, episodes and states.

    Returns:
        float64[N], in the reward's unit; 0 where masked. A pool of one trajectory is
        credited like any other, since the baseline comes from earlier episodes. The state
        is `{"pool": ["game", "seat"], "baselines": [[game, seat, b], ...]}`, with the
        columns of `pool`.

    Raises:
        ValueError: an option out of range, a state of another estimator or `pool`, or a
            baseline in the state that is not finite.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> turns = TurnBatch(reward=[0, 2, 4], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> result = estimate("rae", turns, decay=0.5)  # b = 0, then 1, then 2.5
    >>> result.advantage, result.state
    (array([2., 2., 3.]), {'pool': ['game', 'seat'], 'baselines': [[0, 0, 2.5]]})
    """
    check_choice("order", order, ORDERS)
    check_range("decay", decay, 0, 1)
    pools = pools_by(turns, pool, whole=True)
    returns = returns_to_go(turns, turns.column("reward"))[turns.first]
    baselines = baselines_from(state, pools.names, "rae")
    before = running_means(turns, pools, returns, decay, baselines)
    after = decay * before + (1 - decay) * returns
    relative = returns - (before if order == "pre" else after)
    stats = moments(returns, pools.of[turns.first], len(pools.key))
    rows = [[*key, value] for key, value in sorted(baselines.items())]
    advantage = relative[turns.index] * discount**turns.left
    next_state = {"pool": list(pools.names), "baselines": rows}
    return with_report(advantage, pools, stats, next_state)


@claims(
    UNBIASED,
    bias_two="scaled",
    bootstraps=False,
    zero_sum=("group", "team"),
    seats_apart=False,
    singleton_pool="zero",
)
@needs("team")
def advevo_public_baseline(
    turns: Trajectories, *, pool: Sequence[str] = ("group", "team")
) -> Credit:
    """Credits every turn with its trajectory's return minus the mean of its team.

        Aᵢₖ = Gᵢ - mean{Gⱼ : seats of the same team},   Gᵢ = Σₖ rᵢₖ

    This is the public baseline of AdvEvo-MARL: all seats with the same function share it.

    Reduces to: `dr_grpo` with one seat in a team.

    Bias:

    - *Unbiased when*: pools are large and no limit cuts an episode. Groups may share the
      draws of chance.
    - *Biased by*: the returns of the own episode in the mean, teammates' included;
      truncation (the missing return counts as 0).
    - *Number*: cosine 1.000, factor 0.500 in `signal`, batches of two; cosine 1.000, factor
      1.000 in `signal`, shared chance (`arena credit check`).

    With n episodes in the pool, the expected gradient of seat s is that of its return G_s
    minus 1/n times that of the team's mean return. Examples: the factor is 1 - 1/n if
    teammates are paid alike. It is 1 - 1/(mn) if the team has m seats and a seat changes
    only its own return.

    See "AdvEvo-MARL: Shaping Internalized Safety through Adversarial Co-Evolution in
    Multi-Agent Reinforcement Learning" by Pan et al.
    (https://proceedings.mlr.press/v306/pan26p.html).

    Args:
        turns: the turns that count, with `team`.
        pool: columns whose equal values define a pool, constant on trajectories.

    Returns:
        float64[N], in the reward's unit; 0 where masked, and in a pool of one trajectory or
        of equal returns.

    Raises:
        ValueError: there is no column `team`, or one of `pool` is not constant on
            trajectories.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, group=[0] * 4, episode=[0] * 4, turn=[0] * 4)
    >>> turns = TurnBatch([1, 3, 7, 9], seat=range(4), team=[0, 0, 1, 1], **one)
    >>> estimate("advevo_public_baseline", turns).advantage
    array([-1.,  1., -1.,  1.])
    """
    return episode(turns, pool=pool, scale="none")


@claims(Z_SCORED, zero_sum=("group",), shift=False, seats_apart=False)
def matpo(
    turns: Trajectories,
    *,
    pool: Sequence[str] = ("group",),
    ddof: int = 1,
    eps: float = 1e-6,
) -> Credit:
    """Credits planners with their return's z-score, workers with their planner's (MATPO).

        Aᵢ = (Gᵢ - mean G) / (std G + eps) for planners,   A_w = A of its planner

    A planner is a trajectory without a parent. In play of an agent (`agent`) there are no parents:
    the calls of its planner and of its workers are turns of one trajectory. The pool contains planners only. Gᵢ is the
    sum of the rewards of the planner and of all its workers; workers have no return of
    their own. The `parent` of a worker is the episode of its planner, or of the worker that
    sent it. All workers of a planner share one advantage, so the actions of the planner and
    of the other workers are noise for each worker.

    Reduces to: `episode` with the same ddof and eps where nobody has workers and a group
    has one seat.

    Bias:

    - *Unbiased when*: never. It always divides by a spread, as `episode` does.
    - *Biased by*: division by the pool's spread; truncation (the missing return counts as
      0).
    - *Number*: cosine -1.000, factor -0.424 in `bandit`, batches of two; cosine -1.000,
      factor -1.200 in `bandit`, shared chance (`arena credit check`).

    In one large pool of independent planners the spread only scales the gradient, by the
    same factor for planners and workers, for any number of workers. In small pools, and in
    groups that share the draws of chance, it can turn the sign.

    See "Multi-Agent Tool-Integrated Policy Optimization" by Mo et al.
    (https://arxiv.org/abs/2510.04678).

    Args:
        turns: the turns that count. An episode that `parent` names is of one seat.
        pool: columns whose equal values define a pool of planners, constant on
            trajectories.
        ddof: 1 divides the variance by n - 1, 0 by n.
        eps: added to the standard deviation.

    Returns:
        float64[N], without unit; 0 where masked, in a pool of one planner or of equal
        returns, and for workers of a masked planner.

    Raises:
        ValueError: an option out of range, a parent that is not in the batch, or that has
            several seats.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0], turn=[0, 0, 0])
    >>> tree = dict(episode=[0, 1, 2], parent=[-1, -1, 1])
    >>> turns = TurnBatch(reward=[1, 2, 1], **one, **tree)
    >>> matpo = estimate("matpo", turns, ddof=0, eps=0)
    >>> matpo.advantage  # planners 1 and 2 + 1, mean 2, deviation 1
    array([-1.,  1.,  1.])
    """
    root = _roots(turns)
    has_root = root >= 0
    pools = pools_by(turns, pool, whole=True)
    reward, num = turns.column("reward"), len(turns.first)
    planners = np.flatnonzero(root == np.arange(num))
    whole, sizes = np.zeros((2, num))  # a planner's return and sizes, at its own place
    for sums, values in ((whole, reward), (sizes, np.abs(reward))):
        np.add.at(sums, root[has_root], np.bincount(turns.index, values)[has_root])
    pool_of = pools.of[turns.first][planners]
    scaled = ("std", ddof, eps, sizes[planners])
    advantage, stats = relative(whole[planners], pool_of, len(pools.key), *scaled)
    share = np.zeros(len(root))
    share[planners] = advantage
    share = np.where(has_root, share[root], 0.0)
    return with_report(share[turns.index], pools, stats)


def _roots(turns: Trajectories) -> Ints:
    """int64[R]: the planner of each trajectory, as a trajectory; -1 if it is masked."""
    if turns.batch.parent is None:
        return np.arange(len(turns.first))
    parent = turns.column("parent")[turns.first]
    sent = parent >= 0
    absent = np.flatnonzero(sent & ~np.isin(parent, turns.batch.episode))
    if len(absent) > 0:
        raise ValueError(
            f"want parents that are episodes of the turn batch, got {parent[absent[0]]} "
            f"for episode {turns.column('episode')[turns.first][absent[0]]}"
        )
    episodes = turns.column("episode")
    _, examples = number_rows([episodes, turns.index], len(episodes))
    episodes, trajectories = episodes[examples], turns.index[examples]
    at = np.searchsorted(episodes, parent)
    seats = np.searchsorted(episodes, parent, "right") - at
    several = np.flatnonzero(sent & (seats > 1))
    if len(several) > 0:
        raise ValueError(
            f"want one seat in an episode with workers, got {seats[several[0]]} in "
            f"episode {parent[several[0]]}"
        )
    root = np.where(sent, -1, np.arange(len(parent)))
    has_parent = sent & (seats == 1)
    root[has_parent] = trajectories[at[has_parent]]
    for _ in range(len(root).bit_length()):
        root = np.where(root >= 0, root[root], -1)
    return root


MIN_ENTROPY = 1e-8  # of a token, before its logarithm is taken
SMOOTH = 5.0  # from this |z-score| on, a pool is scored over trajectories


@claims(
    Z_SCORED,
    bias_infinite="direction",
    groups_apart=False,
    seats_apart=False,
    tokens=False,
)
@needs("num_tokens", "tokens.entropy", per_token=True)
def aepo(
    turns: Trajectories,
    *,
    strength: float = 0.2,
    pool: Sequence[str] = ("group", "seat"),
    entropy_pool: Sequence[str] = ("game",),
    ddof: int = 1,
    eps: float = 1e-6,
) -> Credit:
    """Credits uncertain tokens with more of their trajectory's z-score (AEPO).

        Aᵢₜ = Aᵢ (1 + a z(Hᵢₜ)),   z(H) = (H - mean H) / std H

    Aᵢ is the advantage by `episode`, Hᵢₜ the entropy of the policy at token t. z is over
    the tokens of the entropy pool, with ddof 1; it is 0 if all entropies are equal. The
    factor is negative for a token whose entropy is more than 1/a deviations below the mean.
    The mean factor of an entropy pool is 1.

    This is only the entropy-aware advantage. The paper's rollouts, and its clipping that
    keeps the gradient of clipped tokens, are not part of credit. Departs from the released
    code, which compares the entropies of one micro-batch; `entropy_pool=()` compares those
    of the whole batch.

    Reduces to: `episode` with the same ddof and eps where a = 0, or where all entropies are
    alike.

    Bias:

    - *Unbiased when*: never. With a = 0 the bias of `episode` remains.
    - *Biased by*: division by the pool's spread, as in `episode`; weights by entropy (the
      gradient turns towards uncertain tokens); truncation (the missing return counts as 0).
    - *Number*: cosine -1.000, factor -1.200 in `bandit`, shared chance; cosine 0.954,
      factor 0.683 in `three_seats`, one large group (`arena credit check`).

    See "Agentic Entropy-Balanced Policy Optimization" by Dong et al.
    (https://arxiv.org/abs/2510.14545).

    Args:
        turns: the turns that count, with `num_tokens` and the token column `entropy`.
        strength: a.
        pool: columns whose equal values define a pool of returns, constant on trajectories.
        entropy_pool: columns whose equal values define a pool of entropies.
        ddof: of the returns' deviation. 1 divides the variance by n - 1, 0 by n.
        eps: added to the returns' deviation.

    Returns:
        float64[num_tokens.sum()] per token, without unit; 0 where masked, and in a pool of
        one trajectory or of equal returns.

    Raises:
        ValueError: an option out of range, or a column that is missing.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0], seat=[0, 0], turn=[0, 0], group=[0, 0], num_tokens=[2, 1])
    >>> tokens = {"entropy": [0.0, 1.0, 2.0]}  # z-scores -1, 0 and 1
    >>> turns = TurnBatch(reward=[0, 2], episode=[0, 1], **one, tokens=tokens)
    >>> estimate("aepo", turns).advantage.round(3)  # z-scores of returns ±.707
    array([-0.566, -0.707,  0.849])
    """
    check_range("strength", strength, 0, float("inf"))
    base = episode(turns, pool=pool, ddof=ddof, eps=eps)
    entropy = turns.column("tokens.entropy")
    pool_of, num = _token_pools(turns, entropy_pool)
    stats = moments(entropy, pool_of, num)
    z = (entropy - stats.mean[pool_of]) * unit_scale(stats.std, 0.0)[pool_of]
    advantage = np.repeat(base.advantage, turns.column("num_tokens"))
    return base._replace(advantage=advantage * (1 + strength * z))


@claims(
    Z_SCORED,
    bias_infinite="direction",
    groups_apart=False,
    seats_apart=False,
    tokens=False,
)
@needs("num_tokens", "tokens.entropy", per_token=True)
def hapo(
    turns: Trajectories,
    *,
    strength: float = 1.0,
    quantile: float = 0.8,
    pool: Sequence[str] = ("group", "seat"),
    entropy_pool: Sequence[str] = ("game",),
    eps: float = 1e-6,
) -> Credit:
    """Credits tokens with their trajectory's z-score, and sure tokens with less (HAPO).

        Aᵢ = (Gᵢ - mean G) / (std G + eps)    over the TOKENS of the pool, ddof 0
        Aᵢₜ = Aᵢ (1 + b h'ᵢₜ) where h' ≤ 0,   else Aᵢ
        h = log H - quantile(log H),   h' = h / max h where h > 0,   h / |min h| where h ≤ 0

    H is the entropy of the policy at the token. quantile, max and min are over the tokens
    of the entropy pool. A trajectory enters mean and deviation once for each of its tokens,
    so with b = 0 the credit of a pool's tokens sums to 0. If some |Aᵢ| of a pool is 5 or
    more, the whole pool gets the z-scores over trajectories instead (ddof 1).

    The paper's redistribution also depends on the ratio of new and old policy at each
    token. That part and the clipping belong to the loss, the temperature to sampling. Here
    the ratio is 1, as at the first update after sampling. Departs from the released code,
    which divides low entropies by a negative minimum, so that h' is positive for them too;
    here h' is in [-1, 1], as in the paper.

    Reduces to: `episode` with `ddof=0` and the same eps where b = 0, trajectories have
    equally many tokens, and no |Aᵢ| reaches 5.

    Bias:

    - *Unbiased when*: never. With b = 0 the bias of `episode` remains.
    - *Biased by*: division by the pool's spread, as in `episode`; weights by entropy; a
      mean over tokens; truncation (the missing return counts as 0).
    - *Number*: cosine -1.000, factor -1.200 in `bandit`, shared chance; cosine 0.800,
      factor 0.590 in `three_seats`, one large group (`arena credit check`).

    Tokens below the quantile count less, with b = 1 the surest of them not at all. Where
    play decides the length of replies, the mean over tokens can turn the sign in a small
    pool.

    See "From Uniform to Heterogeneous: Tailoring Policy Optimization to Every Token's
    Nature" by Liu et al. (https://arxiv.org/abs/2509.16591).

    Args:
        turns: the turns that count, with `num_tokens` and the token column `entropy`.
        strength: b.
        quantile: the quantile of the log-entropies at which h = 0 (the nearest value).
        pool: columns whose equal values define a pool of returns, constant on trajectories.
        entropy_pool: columns whose equal values define a pool of entropies.
        eps: added to the returns' deviation.

    Returns:
        float64[num_tokens.sum()] per token, without unit; 0 where masked, and in a pool of
        one trajectory or of equal returns.

    Raises:
        ValueError: an option out of range, a column that is missing, or an entropy below 0.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0], seat=[0, 0], turn=[0, 0], group=[0, 0], num_tokens=[2, 2])
    >>> tokens = {"entropy": np.exp([0.0, 2.0, 3.0, 4.0])}  # quantile 3
    >>> turns = TurnBatch(reward=[0, 2], episode=[0, 1], **one, tokens=tokens)
    >>> estimate("hapo", turns, quantile=0.5, eps=0.0).advantage.round(3)
    array([-0.   , -0.667,  1.   ,  1.   ])
    """
    check_range("strength", strength, 0, 1)
    check_range("quantile", quantile, 0, 1)
    check_range("eps", eps, 0, float("inf"))
    entropy, num_tokens = turns.column("tokens.entropy"), turns.column("num_tokens")
    if (entropy < 0).any():
        raise ValueError(f"want entropies of at least 0, got {entropy.min()}")
    pools = pools_by(turns, pool, whole=True)
    reward = turns.column("reward")
    returns = returns_to_go(turns, reward)[turns.first][turns.index]
    sizes = sizes_to_go(turns, reward)[turns.first][turns.index]
    stats = moments(
        returns, pools.of, len(pools.key), ddof=0, sizes=sizes, counts=num_tokens
    )
    relative = (returns - stats.mean[pools.of]) * unit_scale(stats.std, eps)[pools.of]
    far = np.bincount(pools.of, np.abs(relative) >= SMOOTH, len(pools.key)) > 0
    whole = episode(turns, pool=pool, eps=eps).advantage
    relative = np.where(far[pools.of], whole, relative)
    logs = np.log(np.maximum(entropy, MIN_ENTROPY))
    surprise = _surprise(logs, turns, entropy_pool, quantile)
    weight = 1 + strength * np.minimum(surprise, 0.0)
    result = with_report(relative, pools, stats)
    return result._replace(advantage=np.repeat(relative, num_tokens) * weight)


def _token_pools(turns: Trajectories, names: Sequence[str]) -> tuple[Ints, int]:
    """The pool of each token, and how many pools there are."""
    pools = pools_by(turns, names)
    return np.repeat(pools.of, turns.column("num_tokens")), len(pools.key)


def _surprise(
    values: Floats, turns: Trajectories, names: Sequence[str], quantile: float
) -> Floats:
    """float64[L]: values minus a quantile of their pool, scaled to [-1, 1]."""
    pool_of, num = _token_pools(turns, names)
    # pool by pool, so that what a pool has in common is repeated and not looked up
    order = np.argsort(pool_of, kind="stable")
    ranked = values[order]
    size = np.bincount(pool_of, minlength=num)
    starts = np.cumsum(size) - size
    pivot = np.empty(num)
    for i, part in enumerate(np.split(ranked, starts[1:])[:num]):
        nearest = round(quantile * (len(part) - 1))
        pivot[i] = np.partition(part, nearest)[nearest]
    ranked -= np.repeat(pivot, size)
    high = np.repeat(np.maximum.reduceat(ranked, starts), size)
    low = np.repeat(np.minimum.reduceat(ranked, starts), size)
    span = np.where(ranked > 0, high, -low)
    np.divide(ranked, span, out=ranked, where=span > 0)
    ranked[span <= 0] = 0.0
    share = np.empty_like(ranked)
    share[order] = ranked
    return share
