"""Role-conditioned advantage estimation: `rae`, a running baseline per game and seat."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from arena_trainers.credit.batch import Floats
from arena_trainers.credit.pools import (
    Credit,
    Pools,
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
) -> Credit:
    """Credits a trajectory with its return, relative to a running mean of its game and seat.

        pre:   Aᵢ = Gᵢ - b,  then  b ← α b + (1 - α) Gᵢ
        post:  b ← α b + (1 - α) Gᵢ,  then  Aᵢ = Gᵢ - b;   both  Aᵢₖ = γ^{K - k} Aᵢ

    episode by episode in ascending number, b = 0 at first. `"pre"` is the released code,
    `"post"` equation 2 of the paper read literally. α = 1 is no baseline.

    Departs from the released code, which keeps b by seat alone, one in each process and
    not in checkpoints, and drops the samples whose advantage is 0.

    Bias: `"pre"` none at γ = 1, as b is made of earlier episodes; where batches differ in
    policy, b lags, which costs variance and not bias. `"post"` shrinks by α exactly. γ < 1
    weighs early turns less. Early rewards are noise for late turns.

    See "SPIRAL: Self-Play on Zero-Sum Games Incentivizes Reasoning via Multi-Agent
    Multi-Turn Reinforcement Learning" by Liu et al. (https://arxiv.org/abs/2506.24119).

    Args:
        turns: the turns that count.
        state: what the call for the batch before returned; None at first.
        order: `"pre"` or `"post"`.
        decay: α, per episode.
        discount: γ, for each turn of the seat that is still to come.

    Returns:
        float64[N], in the reward's unit; 0 where masked. A pool of one and equal returns
        are nothing special, as pools are not compared within a batch. State:
        `{"baselines": [[game, seat, b], ...]}`.

    Raises:
        ValueError: an option out of range, or a state of another estimator.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> turns = TurnBatch(reward=[0, 2, 4], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> result = estimate("rae", turns, decay=0.5)  # b = 0, then 1, then 2.5
    >>> result.advantage, result.state
    (array([2., 2., 3.]), {'baselines': [[0, 0, 2.5]]})
    """
    check_choice("order", order, ORDERS)
    check_range("decay", decay, 0, 1)
    check_range("discount", discount, 0, 1)
    pools = pools_by(turns, ("game", "seat"), whole=True)
    returns = returns_to_go(turns, turns.column("reward"))[turns.first]
    baselines = _baselines(state)
    before = _running_means(turns, pools, returns, decay, baselines)
    after = decay * before + (1 - decay) * returns
    relative = returns - (before if order == "pre" else after)
    stats = moments(returns, pools.of[turns.first], len(pools.key))
    rows = [[*key, value] for key, value in sorted(baselines.items())]
    advantage = relative[turns.index] * discount**turns.left
    return with_report(advantage, pools, stats, {"baselines": rows})


def _baselines(state: Mapping[str, Any] | None) -> dict[tuple[int, int], float]:
    """The running mean of each (game, seat)."""
    if state is None:
        return {}
    try:
        return {(int(g), int(s)): float(value) for g, s, value in state["baselines"]}
    except (KeyError, TypeError, ValueError):
        raise ValueError(
            f"want the state that 'rae' returned, {{'baselines': [[game, seat, b], ...]}}; "
            f"got {state!r}"
        ) from None


def _running_means(
    turns: Trajectories,
    pools: Pools,
    returns: Floats,
    decay: float,
    baselines: dict[tuple[int, int], float],
) -> Floats:
    """float64[R]: b before each trajectory; `baselines` is brought up to date."""
    pool = pools.of[turns.first]
    order = np.lexsort((turns.column("episode")[turns.first], pool))
    ends = np.cumsum(np.bincount(pool, minlength=len(pools.key)))
    ordered = returns[order].tolist()
    means: list[float] = []
    for (game, seat), end in zip(pools.key.tolist(), ends.tolist(), strict=True):
        mean = baselines.get((game, seat), 0.0)
        for value in ordered[len(means) : end]:
            means.append(mean)
            mean = decay * mean + (1 - decay) * value
        baselines[game, seat] = mean
    before = np.empty_like(returns)
    before[order] = means
    return before
