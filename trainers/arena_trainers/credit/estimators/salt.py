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
    """Credits a turn with the mean advantage of trajectories that did the same (SALT).

        Aₖ = mean{Aᵢ : turns of the pool with the same state and action},   Aᵢ by `episode`

    The trajectories of a pool form a graph. States are its nodes, actions its edges. A turn
    whose edge no other trajectory shares keeps the advantage of its trajectory. An edge
    that all trajectories share gets 0. An edge shared by good and bad trajectories lies in
    between.

    Departs from the paper, which compares the texts of the last few steps. Here nodes are
    `state_key`: two turns share a node if the seat knew the same.

    Reduces to: `episode` with the same options where no step is shared.

    Bias:

    - *Unbiased when*: `scale="none"`, pools are large and no limit cuts an episode, for a
      policy that depends on `state_key` only.
    - *Biased by*: division by the pool's spread, as in `episode`; truncation (the missing
      return counts as 0).
    - *Number*: cosine -1.000, factor -0.424 in `bandit`, batches of two; cosine -1.000,
      factor -1.200 in `bandit`, shared chance (`arena credit check`).

    For a policy that depends on `state_key` only, the gradient equals that of `episode`:
    turns on one edge have the same ∇log π, and the sum of their advantages does not change.
    For a policy that words one action in several ways, the credit of these words changes.
    Clipping acts on other advantages in both cases.

    See "SALT: Step-level Advantage Assignment for Long-horizon Agents via Trajectory Graph"
    by Li et al. (https://arxiv.org/abs/2510.20022).

    Args:
        turns: the turns that count, with `state_key` and `action`.
        pool: columns whose equal values define a graph, constant on trajectories.
        scale: `"std"` or `"none"`, as in `episode`.
        ddof: 1 divides the variance by n - 1, 0 by n.
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
