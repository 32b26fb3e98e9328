"""Role-conditioned advantage estimation: `rae`, a running baseline per game and seat."""

from collections.abc import Mapping, Sequence
from typing import Any

from arena_trainers.credit.pools import (
    Credit,
    check_choice,
    check_range,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.scales import baselines_from, running_means
from arena_trainers.credit.trajectories import Trajectories, returns_to_go

ORDERS = ("pre", "post")


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

    >>> from arena_trainers.credit import TurnBatch, estimate
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
    found = {"pool": list(pools.names), "baselines": rows}
    return with_report(advantage, pools, stats, found)
