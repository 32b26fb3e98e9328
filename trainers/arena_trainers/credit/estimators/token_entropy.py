"""Token weights from entropy: `aepo` and `hapo`."""

from collections.abc import Sequence

import numpy as np

from arena_trainers.credit.batch import Floats, Ints
from arena_trainers.credit.estimators.grpo import episode
from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    check_range,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.rounding import beyond_rounding
from arena_trainers.credit.scales import unit_scale
from arena_trainers.credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)

MIN_ENTROPY = 1e-8  # of a token, before its logarithm is taken
SMOOTH = 5.0  # a larger token-level z-score is replaced by that of trajectories


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

    with Aᵢ that of `episode`, and z over the tokens of the entropy pool (ddof 1, 0 where
    they are alike).

    This is the entropy-aware advantage alone: the paper's rollouts and its clipping, which
    keeps gradients of clipped tokens, are no matter of credit. Departs from the released
    code, where the entropies of one micro-batch are compared; `entropy_pool=()` compares
    those of the whole batch.

    Reduces to: `episode` with the same ddof and eps where a = 0, or where all entropies are
    alike.

    Bias: pools are divided by their spread, and tokens weighed by entropy. The first is the
    bias of `episode`; the second turns the gradient towards uncertain tokens. A token's
    weight is below 0 where its entropy is more than 1/a deviations below the mean. The mean
    weight of a pool is 1.

    See "Agentic Entropy-Balanced Policy Optimization" by Dong et al.
    (https://arxiv.org/abs/2510.14545).

    Args:
        turns: the turns that count, with `num_tokens` and the token column `entropy`.
        strength: a.
        pool: columns that agree within a pool of returns, constant on trajectories.
        entropy_pool: columns that agree within a pool of entropies.
        ddof: of the returns' deviation: 1 for the unbiased variance, 0 for the plain one.
        eps: added to the returns' deviation.

    Returns:
        float64[num_tokens.sum()] per token, without unit; 0 where masked, and in a pool of
        one trajectory or of equal returns.

    Raises:
        ValueError: an option out of range, or a column that is missing.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0], seat=[0, 0], turn=[0, 0], group=[0, 0], num_tokens=[2, 1])
    >>> tokens = {"entropy": [0.0, 1.0, 2.0]}  # z-scores -1, 0 and 1
    >>> turns = TurnBatch(reward=[0, 2], episode=[0, 1], **one, tokens=tokens)
    >>> estimate("aepo", turns).advantage.round(3)  # z-scores of returns ±.707
    array([-0.566, -0.707,  0.849])
    """
    check_range("strength", strength, 0, float("inf"))
    base = episode(turns, pool=pool, ddof=ddof, eps=eps)
    entropy = turns.column("tokens.entropy")
    own, num = _token_pools(turns, entropy_pool)
    stats = moments(entropy, own, num)
    z = (entropy - stats.mean[own]) * unit_scale(stats.std, 0.0)[own]
    advantage = np.repeat(base.advantage, turns.column("num_tokens"))
    return base._replace(advantage=advantage * (1 + strength * z))


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
    """Credits tokens with their trajectory's return, relative to all tokens (HAPO).

        Aᵢ = (Gᵢ - mean G) / (std G + eps)    over the TOKENS of the pool, ddof 0
        Aᵢₜ = Aᵢ (1 + b h'ᵢₜ) where h' ≤ 0,   else Aᵢ
        h = log H - quantile(log H),   h' = h / max h where h > 0,   h / |min h| where h ≤ 0

    A trajectory counts once for each of its tokens, so that before redistribution (b = 0)
    the credit of a pool's tokens sums to 0. Where some |Aᵢ| of a pool reaches 5, the pool
    has the z-scores of trajectories instead (ddof 1).

    This is what holds at the first update after sampling, when the ratio of old and new
    policy is 1: the paper's redistribution also asks, for each token, how far the ratio has
    moved, and belongs to the loss, like its clipping; its temperature belongs to sampling.
    Departs from the released code, where h' is positive for low entropies too, as they are
    divided by a negative minimum; here h' is in [-1, 1], as the paper has it.

    Reduces to: `episode` with `ddof=0` and the same eps where b = 0, trajectories have
    equally many tokens, and no |Aᵢ| reaches 5.

    Bias: pools are divided by their spread, and sure tokens trained less. The first is the
    bias of `episode`, with a mean that weighs trajectories by their tokens: where play
    decides how much is said, a small pool can be wrong in direction. Redistribution trains
    tokens below the quantile less, and the surest of these not at all.

    See "From Uniform to Heterogeneous: Tailoring Policy Optimization to Every Token's
    Nature" by Liu et al. (https://arxiv.org/abs/2509.16591).

    Args:
        turns: the turns that count, with `num_tokens` and the token column `entropy`.
        strength: b.
        quantile: which quantile of the log-entropies is 0; the nearest value.
        pool: columns that agree within a pool of returns, constant on trajectories.
        entropy_pool: columns that agree within a pool of entropies.
        eps: added to the returns' deviation.

    Returns:
        float64[num_tokens.sum()] per token, without unit; 0 where masked, and in a pool of
        one trajectory or of equal returns.

    Raises:
        ValueError: an option out of range, a column that is missing, or an entropy below 0.

    >>> from arena_trainers.credit import TurnBatch, estimate
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
    of_tokens, num = np.repeat(pools.of, num_tokens), len(pools.key)
    stats = moments(np.repeat(returns, num_tokens), of_tokens, num, ddof=0)
    sizes = sizes_to_go(turns, reward)[turns.first][turns.index]
    whole = np.bincount(pools.of, num_tokens * sizes**2, num) / np.maximum(
        stats.size, 1
    )
    stats = stats._replace(std=beyond_rounding(stats.std, np.sqrt(whole)))
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
    """float64[L] in [-1, 1]: values relative to a quantile of their pool, by its range."""
    own, num = _token_pools(turns, names)
    order = np.argsort(own, kind="stable")
    size = np.bincount(own, minlength=num)
    starts = np.cumsum(size) - size
    pivot = np.empty(num)
    for i, part in enumerate(np.split(values[order], starts[1:])[:num]):
        nearest = round(quantile * (len(part) - 1))
        pivot[i] = np.partition(part, nearest)[nearest]
    relative = values - pivot[own]
    ranked = relative[order]
    high = np.maximum.reduceat(ranked, starts)[own]
    low = np.minimum.reduceat(ranked, starts)[own]
    span = np.where(relative > 0, high, -low)
    share: Floats = np.divide(
        relative, span, out=np.zeros_like(relative), where=span > 0
    )
    return share
