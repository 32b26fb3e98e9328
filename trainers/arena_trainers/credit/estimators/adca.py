"""Credit from a judge's labels and from outcomes, normalised apart: `adca`."""

from collections.abc import Sequence

import numpy as np

from arena_trainers.credit.batch import Floats
from arena_trainers.credit.estimators.grpo import episode
from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    Moments,
    Pools,
    check_choice,
    check_range,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.rounding import beyond_rounding
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
    """Credits a turn with the judged turns and the outcome that follow (ADCA-GRPO).

        cₖ = α z(lₖ) + [k is last] z(G),   Aₖ = Σ_{j ≥ k} cⱼ

    with lₖ the judge's label, such as +0.2 for a good turn and -0.2 for a bad one, and G
    the episode return. The two are z-scored apart, labels over the turns of the pool and
    outcomes over its trajectories (ddof 0), so that neither drowns the other. With
    `count="trajectories"`, each trajectory weighs the same in the labels' moments. The
    labels' scale cancels but for eps.

    The judge's part is not to be paid as well. A function that `TurnGRPOTrainer` takes in
    `columns={"rewards.judge": function}` is not, unless `part_weights` names it.

    Reduces to: `episode` with `ddof=0, eps=0.0` where α = 0, or where the labels of a pool
    are all alike.

    Bias: further turns are charged the mean label, and pools divided by their spread. The
    one is wrong in direction where what a player does decides how many turns follow, as in
    `normalise_then_sum`, the other where a group shares the draws of chance, as in
    `episode`. With `outcome="all_turns"` early turns get the outcome once for each turn
    that follows. And a judge is as wrong as it is.

    See "AgentEvolver: Towards Efficient Self-Evolving Agent System" by Zhai et al.
    (https://arxiv.org/abs/2511.10395).

    Args:
        turns: the turns that count, with the reward part `judge`.
        judge_weight: α.
        outcome: where z(G) is added, to the `"last_turn"` or to `"all_turns"`.
        count: what weighs the same in the moments of the labels, `"trajectories"` or
            `"turns"`.
        pool: columns that agree within a pool, constant on trajectories.
        eps: added to the variance of the labels.

    Returns:
        float64[N], without unit; 0 where masked. Labels add 0 where they are alike, outcomes
        in a pool of one trajectory or of equal returns.

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
