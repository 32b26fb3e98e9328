"""Outcome and turn rewards, normalised separately: `mt_grpo`."""

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
    """Credits all turns with the outcome, the first also with the turn rewards (MT-GRPO).

        A₁ = z(O) + λ z(T),   Aₖ = z(O) for k > 1
        A₁ = z(O + T) in a trajectory of one turn

    O is the sum of the trajectory's rewards that are its outcome (`outcome`), T the sum of
    all its other rewards. z(x) = (x - mean) / (std + eps) over the trajectories of the
    pool. The paper has two turns, a call of a tool and an answer, and T is the reward of
    the call.

    Reduces to: `episode` with the same ddof and eps with one-turn episodes, or where
    nothing but the outcome is paid; `flow_grpo` of the same outcome with λ = 0 where all
    trajectories have several turns.

    Bias:

    - *Unbiased when*: never. It always divides by a spread, as `episode` does.
    - *Biased by*: two different spreads for O and T; turn rewards at the wrong turn;
      division by the pool's spread, as in `episode`; truncation (the missing return counts
      as 0).
    - *Number*: cosine -0.749, factor -0.396 in `call`, batches of two; cosine -0.749,
      factor -0.318 in `call`, one large group (`arena credit check`).

    A small T gets the same weight as O. The turn rewards of later turns are credited to the
    first turn. An example of the wrong sign: a first turn is paid 0.1 and lowers the chance
    of an outcome of 1 from 0.5 to 0.2. The true gradient is against it, this one is for it.

    See "Reinforcing Multi-Turn Reasoning in LLM Agents via Turn-Level Credit Assignment" by
    Zeng et al. (https://arxiv.org/abs/2505.11821) and its code
    (https://github.com/SiliangZeng/Multi-Turn-RL-Agent).

    Args:
        turns: the turns that count, with `rewards`.
        outcome: name of the part of the reward that is the outcome. `rewards` holds this
            part times its weight, so T is the reward minus this part.
        coefficient: λ, weight of the turn rewards.
        pool: columns whose equal values define a pool, constant on trajectories.
        ddof: 1 divides the variance by n - 1, 0 by n.
        eps: added to the standard deviations.

    Returns:
        float64[N], without unit; 0 where masked. Each part is 0 in a pool of one trajectory
        or of equal values.

    Raises:
        ValueError: an option out of range, or no such part of the reward.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, seat=[0] * 4, group=[0] * 4, turn=[0, 1, 0, 1])
    >>> parts = {"game": [0, 2, 0, 4]}
    >>> turns = TurnBatch([3, 2, 1, 4], episode=[0, 0, 1, 1], rewards=parts, **one)
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
