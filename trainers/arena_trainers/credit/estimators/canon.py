"""Comparison between the halves of a pool: `canon`."""

from collections.abc import Sequence

import numpy as np

from arena_trainers.credit.batch import Floats
from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    check_choice,
    check_range,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.trajectories import Trajectories, returns_to_go

METRICS = ("num_tokens", "num_turns", "entropy")


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

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, seat=[0] * 4, group=[0] * 4, turn=[0] * 4)
    >>> turns = TurnBatch([1, 3, 5, 9], episode=range(4), num_tokens=[1, 2, 3, 4], **one)
    >>> estimate("canon", turns).advantage  # halves of mean 2 and 7
    array([-6., -4.,  3.,  7.])
    """
    check_choice("metric", metric, METRICS)
    check_range("mu", mu, 0, 1)
    pools = pools_by(turns, pool, whole=True)
    own = pools.of[turns.first]
    returns = returns_to_go(turns, turns.column("reward"))[turns.first]
    stats = moments(returns, own, len(pools.key))
    order = np.lexsort(
        (turns.column("episode")[turns.first], _metric(turns, metric), own)
    )
    rank = np.empty(len(own), np.int64)
    rank[order] = np.arange(len(own)) - (np.cumsum(stats.size) - stats.size)[own[order]]
    half = 2 * own + (rank >= stats.size[own] // 2)
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
