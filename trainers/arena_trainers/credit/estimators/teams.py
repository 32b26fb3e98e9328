"""Credit of a team and of a planner: `advevo_public_baseline`, `matpo`."""

from collections.abc import Sequence

import numpy as np

from arena_trainers.credit.batch import Ints
from arena_trainers.credit.estimators.grpo import episode
from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    number,
    pools_by,
    with_report,
)
from arena_trainers.credit.scales import relative
from arena_trainers.credit.trajectories import Trajectories


@needs("team")
def advevo_public_baseline(
    turns: Trajectories, *, pool: Sequence[str] = ("group", "team")
) -> Credit:
    """Credits every turn with its trajectory's return minus the mean of its team.

        Aᵢₖ = Gᵢ - mean{Gⱼ : seats of the same team},   Gᵢ = Σₖ rᵢₖ

    This is the public baseline of AdvEvo-MARL: all seats with the same function share it.

    Reduces to: `dr_grpo` with one seat in a team.

    Bias:

    - *Unbiased when*: pools are large and no limit cuts an episode. Groups may share the
      draws of chance.
    - *Biased by*: the returns of the own episode in the mean, teammates' included;
      truncation (the missing return counts as 0).
    - *Number*: cosine 1.000, factor 0.500 in `signal`, batches of two; cosine 1.000, factor
      1.000 in `signal`, shared chance (`arena credit check`).

    With n episodes in the pool, the expected gradient of seat s is that of its return G_s
    minus 1/n times that of the team's mean return. Examples: the factor is 1 - 1/n if
    teammates are paid alike. It is 1 - 1/(mn) if the team has m seats and a seat changes
    only its own return.

    See "AdvEvo-MARL: Shaping Internalized Safety through Adversarial Co-Evolution in
    Multi-Agent Reinforcement Learning" by Pan et al.
    (https://proceedings.mlr.press/v306/pan26p.html).

    Args:
        turns: the turns that count, with `team`.
        pool: columns whose equal values define a pool, constant on trajectories.

    Returns:
        float64[N], in the reward's unit; 0 where masked, and in a pool of one trajectory or
        of equal returns.

    Raises:
        ValueError: there is no column `team`, or one of `pool` is not constant on
            trajectories.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, group=[0] * 4, episode=[0] * 4, turn=[0] * 4)
    >>> turns = TurnBatch([1, 3, 7, 9], seat=range(4), team=[0, 0, 1, 1], **one)
    >>> estimate("advevo_public_baseline", turns).advantage
    array([-1.,  1., -1.,  1.])
    """
    return episode(turns, pool=pool, scale="none")


def matpo(
    turns: Trajectories,
    *,
    pool: Sequence[str] = ("group",),
    ddof: int = 1,
    eps: float = 1e-6,
) -> Credit:
    """Credits planners with their return's z-score, workers with their planner's (MATPO).

        Aᵢ = (Gᵢ - mean G) / (std G + eps) for planners,   A_w = A of its planner

    A planner is a trajectory without a parent. In play of an agent (`agent`) there are no parents:
    the calls of its planner and of its workers are turns of one trajectory. The pool contains planners only. Gᵢ is the
    sum of the rewards of the planner and of all its workers; workers have no return of
    their own. The `parent` of a worker is the episode of its planner, or of the worker that
    sent it. All workers of a planner share one advantage, so the actions of the planner and
    of the other workers are noise for each worker.

    Reduces to: `episode` with the same ddof and eps where nobody has workers and a group
    has one seat.

    Bias:

    - *Unbiased when*: never. It always divides by a spread, as `episode` does.
    - *Biased by*: division by the pool's spread; truncation (the missing return counts as
      0).
    - *Number*: cosine -1.000, factor -0.424 in `bandit`, batches of two; cosine -1.000,
      factor -1.200 in `bandit`, shared chance (`arena credit check`).

    In one large pool of independent planners the spread only scales the gradient, by the
    same factor for planners and workers, for any number of workers. In small pools, and in
    groups that share the draws of chance, it can turn the sign.

    See "Multi-Agent Tool-Integrated Policy Optimization" by Mo et al.
    (https://arxiv.org/abs/2510.04678).

    Args:
        turns: the turns that count. An episode that `parent` names is of one seat.
        pool: columns whose equal values define a pool of planners, constant on
            trajectories.
        ddof: 1 divides the variance by n - 1, 0 by n.
        eps: added to the standard deviation.

    Returns:
        float64[N], without unit; 0 where masked, in a pool of one planner or of equal
        returns, and for workers of a masked planner.

    Raises:
        ValueError: an option out of range, a parent that is not in the batch, or that has
            several seats.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0], turn=[0, 0, 0])
    >>> tree = dict(episode=[0, 1, 2], parent=[-1, -1, 1])
    >>> turns = TurnBatch(reward=[1, 2, 1], **one, **tree)
    >>> matpo = estimate("matpo", turns, ddof=0, eps=0)
    >>> matpo.advantage  # planners 1 and 2 + 1, mean 2, deviation 1
    array([-1.,  1.,  1.])
    """
    root = _roots(turns)
    known = root >= 0
    pools = pools_by(turns, pool, whole=True)
    reward, num = turns.column("reward"), len(turns.first)
    planners = np.flatnonzero(root == np.arange(num))
    whole, sizes = np.zeros((2, num))  # a planner's return and sizes, at its own place
    for sums, paid in ((whole, reward), (sizes, np.abs(reward))):
        np.add.at(sums, root[known], np.bincount(turns.index, paid)[known])
    own = pools.of[turns.first][planners]
    scaled = ("std", ddof, eps, sizes[planners])
    advantage, stats = relative(whole[planners], own, len(pools.key), *scaled)
    share = np.zeros(len(root))
    share[planners] = advantage
    share = np.where(known, share[root], 0.0)
    return with_report(share[turns.index], pools, stats)


def _roots(turns: Trajectories) -> Ints:
    """int64[R]: the planner of each trajectory, as a trajectory; -1 if it is masked."""
    if turns.batch.parent is None:
        return np.arange(len(turns.first))
    parent = turns.column("parent")[turns.first]
    sent = parent >= 0
    absent = np.flatnonzero(sent & ~np.isin(parent, turns.batch.episode))
    if len(absent) > 0:
        raise ValueError(
            f"want parents that are episodes of the turn batch, got {parent[absent[0]]} "
            f"for episode {turns.column('episode')[turns.first][absent[0]]}"
        )
    episodes = turns.column("episode")
    _, examples = number([episodes, turns.index], len(episodes))
    episodes, trajectories = episodes[examples], turns.index[examples]
    at = np.searchsorted(episodes, parent)
    seats = np.searchsorted(episodes, parent, "right") - at
    several = np.flatnonzero(sent & (seats > 1))
    if len(several) > 0:
        raise ValueError(
            f"want one seat in an episode with workers, got {seats[several[0]]} in "
            f"episode {parent[several[0]]}"
        )
    root = np.where(sent, -1, np.arange(len(parent)))
    found = sent & (seats == 1)
    root[found] = trajectories[at[found]]
    for _ in range(len(root).bit_length()):
        root = np.where(root >= 0, root[root], -1)
    return root
