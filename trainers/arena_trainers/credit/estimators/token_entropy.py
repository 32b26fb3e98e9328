"""Token weights from entropy: `aepo` and `hapo`."""

from collections.abc import Sequence

import numpy as np

from arena_trainers.credit.batch import Floats, Ints
from arena_trainers.credit.estimators.outcome import episode
from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    beyond_rounding,
    check_range,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.scales import unit_scale
from arena_trainers.credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)

MIN_ENTROPY = 1e-8  # of a token, before its logarithm is taken
SMOOTH = 5.0  # from this |z-score| on, a pool is scored over trajectories


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
    """float64[L]: values minus a quantile of their pool, scaled to [-1, 1]."""
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
