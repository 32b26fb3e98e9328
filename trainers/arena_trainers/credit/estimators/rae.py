"""Role-conditioned advantage estimation: `rae`, a running baseline per game and seat."""

from collections.abc import Mapping, Sequence
from typing import Any

from arena_trainers.credit.baselines import baselines_from, running_means
from arena_trainers.credit.pools import (
    Credit,
    check_choice,
    check_range,
    moments,
    pools_by,
    with_report,
)
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
    """Credits a trajectory with its return, relative to a running mean of its game and seat.

        pre:   Aᵢ = Gᵢ - b,  then  b ← α b + (1 - α) Gᵢ
        post:  b ← α b + (1 - α) Gᵢ,  then  Aᵢ = Gᵢ - b;   both  Aᵢₖ = γ^{K - k} Aᵢ

    episode by episode in ascending number, b = 0 at first. `"pre"` is the released code,
    `"post"` equation 2 of the paper read literally.

    Departs from the released code, which keeps b by seat alone, one in each process and
    not in checkpoints, and drops the samples whose advantage is 0.

    Reduces to: the return itself where α = 1, which is no baseline; `"post"` is α times
    `"pre"`.

    Bias: `"pre"` none at γ = 1 where no limit cut an episode. For that a pool must hold one
    seat, as b is made of earlier episodes, which may share the draws of chance; where
    batches differ in policy, b lags, which costs variance and not bias. Without `"seat"` in
    the pool, b has the returns of lower seats of the same episode in it, and 1 - α of their
    gradient is taken away. What a limit cuts off counts as nothing. `"post"` shrinks by α
    exactly. γ < 1 weighs early turns less. Early rewards are noise for late turns.

    See "SPIRAL: Self-Play on Zero-Sum Games Incentivizes Reasoning via Multi-Agent
    Multi-Turn Reinforcement Learning" by Liu et al. (https://arxiv.org/abs/2506.24119).

    Args:
        turns: the turns that count.
        state: what the call for the batch before returned; None at first.
        order: `"pre"` or `"post"`.
        decay: α, per episode.
        discount: γ, for each turn of the seat that is still to come.
        pool: columns that agree within a pool, constant on trajectories. Baselines live on
            by their numbers, which must mean the same in every batch: as those of games and
            seats do, and those of groups, episodes or states in the trainer do not.

    Returns:
        float64[N], in the reward's unit; 0 where masked. A pool of one and equal returns
        are nothing special, as pools are not compared within a batch. State:
        `{"pool": ["game", "seat"], "baselines": [[game, seat, b], ...]}`, or by the columns
        that `pool` names.

    Raises:
        ValueError: an option out of range, or a state of another estimator or `pool`, or with
            a baseline that is not finite.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> turns = TurnBatch(reward=[0, 2, 4], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> result = estimate("rae", turns, decay=0.5)  # b = 0, then 1, then 2.5
    >>> result.advantage, result.state
    (array([2., 2., 3.]), {'pool': ['game', 'seat'], 'baselines': [[0, 0, 2.5]]})
    """
    check_choice("order", order, ORDERS)
    check_range("decay", decay, 0, 1)
    check_range("discount", discount, 0, 1)
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
