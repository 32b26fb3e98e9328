"""Credit from a judge's labels and from outcomes, normalised separately: `adca`."""

from collections.abc import Sequence

import numpy as np

from arena_trainers.credit.batch import Floats
from arena_trainers.credit.estimators.grpo import episode
from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    Moments,
    Pools,
    beyond_rounding,
    check_choice,
    check_range,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.trajectories import Trajectories, returns_to_go

OUTCOMES = ("last_turn", "all_turns")
COUNTS = ("trajectories", "turns")


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

    >>> from arena_trainers.credit import TurnBatch, estimate
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
    paid = judge_weight * np.divide(
        relative,
        spread,
        out=np.zeros_like(label),
        where=(beyond_rounding(stats.std) > 0)[pools.of],
    )
    paid += np.where((turns.left == 0) | (outcome == "all_turns"), base.advantage, 0.0)
    compared = Moments(base.report.size, base.report.mean, base.report.std)
    return with_report(returns_to_go(turns, paid), pools, compared)


def _moments(turns: Trajectories, label: Floats, pools: Pools, count: str) -> Moments:
    """Moments of the labels of each pool, ddof 0."""
    num, own = len(pools.key), pools.of[turns.first]
    if count == "turns":
        return moments(label, pools.of, num, ddof=0)
    length = np.bincount(turns.index)
    mean = moments(np.bincount(turns.index, label) / length, own, num).mean
    square = (label - mean[pools.of]) ** 2
    spread, whole = (
        moments(np.bincount(turns.index, values) / length, own, num)
        for values in (square, label**2)
    )
    std = beyond_rounding(np.sqrt(spread.mean), np.sqrt(whole.mean))
    return Moments(spread.size, mean, std)
