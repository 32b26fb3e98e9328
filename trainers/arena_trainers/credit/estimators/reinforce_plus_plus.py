"""`reinforce_plus_plus_baseline`: centred on the group, scaled by the whole batch."""

from collections.abc import Sequence

import numpy as np

from arena_trainers.credit.estimators.outcome import dr_grpo
from arena_trainers.credit.pools import (
    Credit,
    Moments,
    beyond_rounding,
    check_choice,
    check_range,
    pools_by,
    with_report,
)
from arena_trainers.credit.scales import unit_scale
from arena_trainers.credit.trajectories import Trajectories, sizes_to_go

COUNTS = ("tokens", "turns")


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

    >>> from arena_trainers.credit import TurnBatch, estimate
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
    found = credit.report
    stats = Moments(found.size, found.mean, found.std)
    return with_report(result, pools_by(turns, pool, whole=True), stats)
