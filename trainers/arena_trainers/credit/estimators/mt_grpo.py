"""Outcome and turn rewards, normalised apart: `mt_grpo`."""

from collections.abc import Sequence

import numpy as np

from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    check_range,
    pools_by,
    with_report,
)
from arena_trainers.credit.scales import relative
from arena_trainers.credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)


@needs("rewards.game", paid_part="outcome")
def mt_grpo(
    turns: Trajectories,
    *,
    outcome: str = "game",
    coefficient: float = 1.0,
    pool: Sequence[str] = ("group", "seat"),
    ddof: int = 1,
    eps: float = 1e-4,
) -> Credit:
    """Credits the first turn with turn rewards besides the outcome (MT-GRPO).

        A₁ = z(O) + λ z(T),   Aₖ = z(O) for k > 1,   and A₁ = z(O + T) in a game of one turn

    O is what the trajectory was paid as outcome, T all else that it was paid, z their
    scores over the trajectories of the pool. Made for two turns, a call of a tool and an
    answer, with T the reward of the call.

    Reduces to: `episode` with the same ddof and eps with one-turn episodes, or where
    nothing but the outcome is paid; `flow_grpo` of the same outcome with λ = 0 where all
    trajectories have several turns.

    Bias: outcome and turn rewards are divided by spreads of their own. A small reward
    weighs as much as the outcome, and the sign can be wrong in batches of any size (a first
    turn is paid .1 for what lowers the chance of an outcome of 1 from .5 to .2: the true
    gradient is against it, this one for it). What later turns are paid besides the outcome
    is credited to the first turn only: to them it is worth nothing. Besides that, the bias
    of `episode`.

    See "Reinforcing Multi-Turn Reasoning in LLM Agents via Turn-Level Credit Assignment" by
    Zeng et al. (https://arxiv.org/abs/2505.11821) and its code
    (https://github.com/SiliangZeng/Multi-Turn-RL-Agent).

    Args:
        turns: the turns that count, with `rewards`.
        outcome: the part of the reward that is the outcome, as it is paid: `rewards` holds
            it times its weight, so that T is what is left of the reward.
        coefficient: λ, weight of the turn rewards.
        pool: columns that agree within a pool, constant on trajectories.
        ddof: 1 for the unbiased variance, 0 for the plain one.
        eps: added to the standard deviations.

    Returns:
        float64[N], without unit; 0 where masked. Each part is 0 in a pool of one trajectory
        or of equal values.

    Raises:
        ValueError: an option out of range, or no such part of the reward.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, seat=[0] * 4, group=[0] * 4, rewards={"game": [0, 2, 0, 4]})
    >>> turns = TurnBatch([3, 2, 1, 4], episode=[0, 0, 1, 1], turn=[0, 1, 0, 1], **one)
    >>> mt = estimate("mt_grpo", turns, ddof=0, eps=0)
    >>> mt.advantage  # outcomes 2 and 4, turn rewards 3 and 1
    array([ 0., -1.,  0.,  1.])
    """
    check_range("coefficient", coefficient, 0, float("inf"))
    pools = pools_by(turns, pool, whole=True)
    own, num = pools.of[turns.first], len(pools.key)
    paid, paid_size, verdict, verdict_size = (
        sums(turns, turns.column(name))[turns.first]
        for name in ("reward", f"rewards.{outcome}")
        for sums in (returns_to_go, sizes_to_go)
    )
    scaled = ("std", ddof, eps)
    whole, stats = relative(paid, own, num, *scaled, paid_size)
    late, _ = relative(verdict, own, num, *scaled, verdict_size)
    both = paid_size + verdict_size
    besides, _ = relative(paid - verdict, own, num, *scaled, both)
    alone = turns.left[turns.first] == 0
    early = np.where(alone, whole, late + coefficient * besides)
    advantage = late[turns.index]
    advantage[turns.first] = early
    return with_report(advantage, pools, stats)
