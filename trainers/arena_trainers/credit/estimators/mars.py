"""Turn-level credit relative to the own game and seat: `mars` and `mars_loo`."""

from collections.abc import Sequence

from arena_trainers.credit.baselines import mean_of_others
from arena_trainers.credit.batch import Floats, Ints
from arena_trainers.credit.pools import (
    Credit,
    Pools,
    check_choice,
    check_range,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.scales import SCALES, unit_scale
from arena_trainers.credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)

BASELINES = ("turn_returns", "episode_returns")


def mars(
    turns: Trajectories,
    *,
    discount: float = 1.0,
    pool: Sequence[str] = ("game", "seat"),
    scale: str = "none",
    ddof: int = 1,
    eps: float = 1e-6,
    baseline: str = "turn_returns",
) -> Credit:
    """Credits a turn with its return-to-go, relative to its own game and seat.

        Aₖ = Rₖ - mean{R of every turn of the pool},   Rₖ = Σ_{j ≥ k} γ^{j - k} rⱼ

    The paper's form. The released code computes something else: `mars_released`.

    Reduces to: `gae` with γ = λ = 1 and the mean of the pool as value; with one-turn
    episodes `dr_grpo` over the same pool, or `episode` with `scale="std"` and the same eps;
    with γ = 0 `normalise_then_sum` over the same pool with `discount=0.0, scale="none"`, a
    turn's own reward less the mean reward.

    Bias: the mean contains the trajectory itself, by its length. None in an infinite batch,
    where the baseline depends on nothing that the turn decides and groups may share the
    draws of chance, if no limit cut an episode: what a limit cuts off counts as nothing,
    which may turn the gradient around. With one-turn episodes a finite batch shrinks it by
    1 - 1/n, n trajectories in the pool. Where a turn decides how many follow, its
    trajectory weighs in the mean by its length, and a small batch can be wrong in direction
    too (stop pays 10, going on 10 and then -1, evenly chosen: true gradient -.25, batches
    of 2 expect +.5, of 8 -.08). `"episode_returns"` is only shrunk, by 1 - 1/n, and
    `mars_loo` is exact. γ < 1 ignores what comes late; `"std"` weighs each pool by 1 / std,
    with the bias that `episode` has. A bonus per turn ranks early turns above late ones.

    See "MARS: Reinforcing Multi-Agent Reasoning of LLMs through Self-Play in Strategic
    Games" by Yuan et al. (https://arxiv.org/abs/2510.15414).

    Args:
        turns: the turns that count.
        discount: γ, per turn of the same seat.
        pool: columns that agree within a pool. Without `"seat"`: the paper's ablation of
            agent-specific normalisation.
        scale: `"std"` divides by the standard deviation of the pool, `"none"` does not.
        ddof: 1 for the unbiased variance, 0 for the plain one.
        eps: added to the standard deviation.
        baseline: mean of `"turn_returns"`, or of `"episode_returns"` (R of the first turns).

    Returns:
        float64[N], in the reward's unit (`"std"`: without unit); 0 where masked, and in a
        pool of one turn or of equal returns. With `"turn_returns"` it sums to zero over
        each pool.

    Raises:
        ValueError: an option out of range.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> turns = TurnBatch(reward=[0, 1, 4], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> estimate("mars", turns).advantage  # returns-to-go 1, 1 and 4, mean 2
    array([-1., -1.,  2.])
    """
    check_choice("scale", scale, SCALES)
    check_range("ddof", ddof, 0, 1)
    check_range("eps", eps, 0, float("inf"))
    pools, to_go, where = _compared(turns, discount, pool, baseline)
    sizes = sizes_to_go(turns, turns.column("reward"), discount)[where]
    stats = moments(to_go[where], pools.of[where], len(pools.key), ddof, sizes)
    relative = to_go - stats.mean[pools.of]
    if scale == "std":
        relative *= unit_scale(stats.std, eps)[pools.of]
    return with_report(relative, pools, stats)


def mars_loo(
    turns: Trajectories,
    *,
    discount: float = 1.0,
    pool: Sequence[str] = ("game", "seat"),
    baseline: str = "turn_returns",
) -> Credit:
    """Credits a turn with its return-to-go, relative to the other episodes of its pool.

        Aₖ = Rₖ - mean{R of the pool's turns in other episodes},   0 if there are none

    The turns of a trajectory depend on each other, and so do the seats of an episode, and
    the episodes of a turn tree (`parent`): what is left out is the whole own episode, or
    tree, so far as it is in the pool.

    Reduces to: `rloo` over the same pool with one-turn episodes, and there n / (n - 1)
    times `mars` with n trajectories of one seat in the pool.

    Bias: none at γ = 1 where no limit cut an episode. So it is in batches of any size, also
    where groups share the draws of chance, as long as episodes are independent given these.
    What a limit cuts off counts as nothing. With nothing to compare with, the return itself
    stands: unbiased, and noisy.

    See "Back to Basics: Revisiting REINFORCE-Style Optimization for Learning from Human
    Feedback in LLMs" by Ahmadian et al. (https://arxiv.org/abs/2402.14740).

    Args:
        turns: the turns that count.
        discount: γ, per turn of the same seat.
        pool: columns that agree within a pool.
        baseline: mean of `"turn_returns"`, or of `"episode_returns"` (R of the first turns).

    Returns:
        float64[N], in the reward's unit; 0 where masked.

    Raises:
        ValueError: an option out of range.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> turns = TurnBatch(reward=[0, 1, 4], episode=[0, 0, 1], turn=[0, 1, 0], **one)
    >>> estimate("mars_loo", turns).advantage  # of others: mean 4, and mean (1 + 1) / 2
    array([-3., -3.,  3.])
    """
    pools, to_go, where = _compared(turns, discount, pool, baseline)
    baselines = mean_of_others(pools, turns.batch.tree[turns.row], to_go, where)
    stats = moments(to_go[where], pools.of[where], len(pools.key))
    return with_report(to_go - baselines, pools, stats)


def _compared(
    turns: Trajectories, discount: float, pool: Sequence[str], baseline: str
) -> tuple[Pools, Floats, Ints | slice]:
    """The pools, all returns-to-go, and which of these enter the baseline."""
    check_range("discount", discount, 0, 1)
    check_choice("baseline", baseline, BASELINES)
    by_episode = baseline == "episode_returns"
    pools = pools_by(turns, pool, whole=by_episode)
    to_go = returns_to_go(turns, turns.column("reward"), discount)
    return pools, to_go, turns.first if by_episode else slice(None)
