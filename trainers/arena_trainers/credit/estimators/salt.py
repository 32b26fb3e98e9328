"""Credit by a graph of trajectories: `salt`."""

from collections.abc import Sequence

from arena_trainers.credit.estimators.grpo import episode
from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    Moments,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.trajectories import Trajectories


@needs("state_key", "action", compares_trajectories=True)
def salt(
    turns: Trajectories,
    *,
    pool: Sequence[str] = ("group", "seat"),
    scale: str = "std",
    ddof: int = 1,
    eps: float = 1e-4,
) -> Credit:
    """Credits a turn with the mean of all trajectories that did the same there (SALT).

        Aₖ = mean{Aᵢ : turns of the pool with the same state and action},   Aᵢ by `episode`

    The trajectories of a pool make a graph: states are its nodes, actions its edges. A step
    that only one of them took keeps its trajectory's advantage, one that all took gets 0,
    and steps shared by good and bad trajectories are in between.

    Departs from the paper, which compares the texts of the last few steps: here nodes are
    `state_key`, so that steps are merged exactly where the seat knew the same.

    Reduces to: `episode` with the same options where no step is shared.

    Bias: each pool is divided by its own spread, as in `episode`. Turns that share an edge
    share their score if the policy sees only what is in the key, and the sum over the edge
    stays the same: for a tabular policy the gradient IS that of `episode`. What changes is
    the credit of different words for one action, and what clipping does.

    See "SALT: Step-level Advantage Assignment for Long-horizon Agents via Trajectory Graph"
    by Li et al. (https://arxiv.org/abs/2510.20022).

    Args:
        turns: the turns that count, with `state_key` and `action`.
        pool: columns that agree within a graph, constant on trajectories.
        scale: `"std"` or `"none"`, of `episode`.
        ddof: 1 for the unbiased variance, 0 for the plain one.
        eps: added to the standard deviation.

    Returns:
        float64[N], without unit (`"none"`: in the reward's); 0 where masked, and in a pool
        of one trajectory or of equal returns.

    Raises:
        ValueError: an option out of range, or a column that is missing.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, seat=[0] * 4, group=[0] * 4, turn=[0, 1, 0, 1])
    >>> one |= dict(state_key=[5, 6, 5, 6], action=[0, 0, 0, 1])
    >>> turns = TurnBatch(reward=[0, 1, 0, 3], episode=[0, 0, 1, 1], **one)
    >>> estimate("salt", turns, scale="none").advantage  # the first step is shared
    array([ 0., -1.,  0.,  1.])
    """
    base = episode(turns, pool=pool, scale=scale, ddof=ddof, eps=eps)
    edges = pools_by(turns, (*pool, "state_key", "action"))
    shared = moments(base.advantage, edges.of, len(edges.key)).mean[edges.of]
    stats = Moments(base.report.size, base.report.mean, base.report.std)
    return with_report(shared, pools_by(turns, pool, whole=True), stats)
