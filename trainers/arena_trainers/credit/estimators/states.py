"""Comparison of turns at the same state: `at_grpo`, `gigpo`, `agentprm`."""

from collections.abc import Sequence

import numpy as np

from arena_trainers.credit.batch import Floats
from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    check_choice,
    check_range,
    column_names,
    moments,
    only,
    pools_by,
    reply_values,
    with_inner,
    with_report,
)
from arena_trainers.credit.scales import relative, unit_scale
from arena_trainers.credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)

MEANS = ("trajectories", "turns")  # of GiGPO's mean and deviation of returns


@needs("state_key", "action", unselected_only=True)
def at_grpo(
    turns: Trajectories,
    *,
    discount: float = 0.0,
    pool: Sequence[str] = ("group", "seat", "state_key"),
    scale: str = "std",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Credit:
    """Credits a turn with the z-score of its reply's value among turns of its state (AT-GRPO).

        Aₖ = (Q(s, a) - mean R) / (std R + eps),   Rₖ = Σ_{j ≥ k} γ^{j - k} rⱼ

    Q is the mean of R over the turns of the pool with the same state and action, so that equal
    candidates get equal credit (`reply_values`). The paper's R is Q where all candidates
    differ. The gradient is the same, because equal replies have equal log-probabilities; its
    noise is lower where texts differ and actions do not.

    A pool holds the turns of one group and seat at which the seat knew the same
    (`state_key`), such as the candidates of a turn tree. In a turn tree the paper's key
    (instance, agent, turn) defines the same pools. The default γ = 0 is the paper's, whose games
    pay every turn. For games that pay only at the end, play the candidates to the end and
    set γ = 1. The paper's reward r = α r_team + r_local follows from the weights of the
    reward's parts.

    Turns that were selected by their return (`unselected` is false) enter R only: they are
    neither compared nor credited. In a tree that follows the best candidate, the later
    turns of candidates are of this kind.

    Departs from the released code where no state occurs twice: the released code keeps raw
    rewards, this estimator gives 0.

    Reduces to: `episode` with the same ddof and eps in games of one turn and one state;
    `mars` with γ = 1, `scale="none"` and `pool=("game", "seat")`; both where every action was
    tried once at its state.

    Bias:

    - *Unbiased when*: γ = 1, `scale="none"`, no limit cuts an episode, and pools are large.
      A pool of n turns shrinks the gradient of its state by the factor 1 - 1/n. A state
      that was seen once teaches nothing.
    - *Biased by*: division by the spread of each state (`"std"`); γ = 0 (later rewards
      count as 0); truncation (the missing return counts as 0); turn trees that follow the
      best candidate.
    - *Number*: cosine -1.000, factor -1.200 in `bandit`, shared chance; cosine 0.931,
      factor 0.800 in `three_seats`, one large group; both with γ = 1 (`arena credit
      check`).

    With γ = 0 the sign is wrong where a turn pays now and costs more later. Trees that
    follow the best candidate visit good states more often. Where information is hidden,
    they also visit lucky hidden states more often, and the sign can be wrong.

    See "Stronger Together: On-Policy Reinforcement Learning for Collaborative LLMs" by Zhao
    et al. (https://arxiv.org/abs/2510.11062).

    Args:
        turns: the turns that count, with `state_key` and `action`.
        discount: γ, per turn of the same seat.
        pool: columns whose equal values define a pool.
        scale: `"std"` or `"none"`.
        ddof: 1 divides the variance by n - 1, 0 by n.
        eps: added to the standard deviation.

    Returns:
        float64[N], without unit (`"none"`: in the reward's); 0 where masked, where a
        turn was selected by its return, and in a pool of one turn or of equal returns.

    Raises:
        ValueError: an option out of range, or there is no column `state_key` or `action`.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, seat=[0] * 4, group=[0] * 4, turn=[0] * 4)
    >>> done = dict(state_key=[5] * 4, action=[0, 0, 1, 2])
    >>> turns = TurnBatch([1, 4, 9, 6], episode=range(4), **one, **done)
    >>> estimate("at_grpo", turns, scale="none").advantage  # Q 2.5, 9 and 6, mean 5
    array([-2.5, -2.5,  4. ,  1. ])
    """
    pools = only(pools_by(turns, pool), turns.unselected)
    reward = turns.column("reward")
    to_go = returns_to_go(turns, reward, discount)[turns.unselected]
    scaled = (scale, ddof, eps, sizes_to_go(turns, reward, discount)[turns.unselected])
    _, stats = relative(to_go, pools.of, len(pools.key), *scaled)
    advantage = _reply_means(turns, pool, to_go) - stats.mean[pools.of]
    if scale == "std":
        advantage *= unit_scale(stats.std, eps)[pools.of]
    return _of_all(turns, with_report(advantage, pools, stats))


def _reply_means(turns: Trajectories, pool: Sequence[str], to_go: Floats) -> Floats:
    """Q(state, action) of the unselected turns, by the returns-to-go of those of its pool."""
    names = (*column_names(pool), "state_key")
    states = pools_by(turns, tuple(dict.fromkeys(names)))
    actions = turns.column("action")[turns.unselected]
    found = reply_values(to_go, states.of[turns.unselected], actions)
    return found.mean[found.of]


def _of_all(turns: Trajectories, unselected: Credit) -> Credit:
    """Extends the credit of the unselected turns to all turns; the others get 0."""
    advantage = np.zeros(len(turns.row))
    advantage[turns.unselected] = unselected.advantage
    return unselected._replace(advantage=advantage)


@needs("state_key", compares_trajectories=True)
def gigpo(
    turns: Trajectories,
    *,
    omega: float = 1.0,
    discount: float = 0.95,
    pool: Sequence[str] = ("group", "seat"),
    scale: str = "std",
    ddof: int = 1,
    eps: float = 1e-6,
    mean_over: str = "trajectories",
) -> Credit:
    """Credits a turn with two z-scores: of the whole return and at its state (GiGPO).

        Aᵢₖ = z(Gᵢ) + ω z(Rᵢₖ),   Gᵢ = Σₖ rᵢₖ,   Rᵢₖ = Σ_{j ≥ k} γ^{j - k} rᵢⱼ

    z(x) = (x - mean) / (std + eps). The first z is over the trajectories of the pool. The
    second is over the turns of the pool with the same `state_key`: a group within the
    group. The second part is 0 for a state that was seen once, and for a state whose turns
    have equal R. `within` in the report describes the states.

    `mean_over="trajectories"` is equation 3 of the paper. The released code takes mean and
    deviation of G over turns, so a trajectory counts once for each of its turns:
    `mean_over="turns"`. Departs from the released code where a pool holds a single turn: the
    released code keeps its return, this estimator gives 0.

    Reduces to: `episode` with the same ddof and eps where ω = 0, or where no state of a
    pool was seen twice.

    Bias:

    - *Unbiased when*: never. With `scale="none"` and ω = 0 it is `dr_grpo`.
    - *Biased by*: division by the spread of pools and states (`"std"`, as in `episode`);
      double weight of frequent states; γ < 1 (late rewards count less in the second part);
      truncation (the missing return counts as 0).
    - *Number*: cosine -1.000, factor -2.400 in `bandit`, shared chance; cosine 0.980,
      factor 1.469 in `three_seats`, one large group (`arena credit check`).

    A turn at a state that is seen often counts up to 1 + ω times. With `mean_over="turns"`
    long trajectories weigh more in the mean. In large pools this mean is a constant without
    bias. In small pools it depends on the trajectory's own length.

    See "Group-in-Group Policy Optimization for LLM Agent Training" by Feng et al.
    (https://arxiv.org/abs/2505.10978).

    Args:
        turns: the turns that count, with `state_key`.
        omega: ω, weight of the comparison at states.
        discount: γ, per turn of the same seat, of the second part.
        pool: columns whose equal values define a pool, constant on trajectories.
        scale: `"std"` for z-scores, `"none"` for differences from the mean.
        ddof: 1 divides the variance by n - 1, 0 by n.
        eps: added to the standard deviation.
        mean_over: `"trajectories"` (the paper) or `"turns"` (the released code), of the
            first part.

    Returns:
        float64[N], without unit (`"none"`: in the reward's); 0 where masked. Each part is 0
        in a pool of one or of equal returns.

    Raises:
        ValueError: an option out of range, or there is no column `state_key`.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0])
    >>> turns = TurnBatch(
    ...     [0, 2, 4], episode=[0, 0, 1], turn=[0, 1, 0], state_key=[5, 5, 5], **one
    ... )
    >>> gigpo = estimate("gigpo", turns, discount=0.5, scale="none")
    >>> gigpo.advantage  # returns 2, 4; at the state 1, 2, 4
    array([-2.33333333, -1.33333333,  2.66666667])
    """
    check_range("omega", omega, 0, float("inf"))
    reward = turns.column("reward")
    pools = pools_by(turns, pool, whole=True)
    check_choice("mean_over", mean_over, MEANS)
    each = turns.first if mean_over == "trajectories" else turns.first[turns.index]
    scaled = (scale, ddof, eps, sizes_to_go(turns, reward)[each])
    returns = returns_to_go(turns, reward)[each]
    whole, stats = relative(returns, pools.of[each], len(pools.key), *scaled)
    whole = whole[turns.index] if mean_over == "trajectories" else whole
    states = pools_by(turns, (*pool, "state_key"))
    to_go = returns_to_go(turns, reward, discount)
    scaled = (scale, ddof, eps, sizes_to_go(turns, reward, discount))
    at_state, own_stats = relative(to_go, states.of, len(states.key), *scaled)
    result = with_report(whole + omega * at_state, pools, stats)
    by_state = with_report(at_state, states, own_stats)
    return with_inner(result, by_state) if omega > 0 else result


@needs("state_key", "action", unselected_only=True)
def agentprm(
    turns: Trajectories,
    *,
    discount: float = 1.0,
    pool: Sequence[str] = ("game", "seat"),
) -> Credit:
    """Credits a turn with the mean return of its action minus that of its state (AgentPRM).

        Aₖ = Q(s, a) - V(s),   Q = mean{R at the same state and action},
        V = mean{R at the same state},   Rₖ = Σ_{j ≥ k} γ^{j - k} rⱼ

    Q is the Monte-Carlo target of the paper's process reward model. It is read from a table
    of visits (`reply_values`) instead of a fitted network. V is the baseline. Turns that were selected by
    their return (`unselected` is false) enter R only: they are neither compared nor
    credited.

    Departs from the released code, which discounts by γ^k with k the number of the turn, so
    late actions count less. Here the exponent is the distance to the reward.

    Reduces to: `at_grpo` with `scale="none"`, the same γ and `pool=("game", "seat",
    "state_key")`.

    Bias:

    - *Unbiased when*: γ = 1, batches are large and no limit cuts an episode. Groups may
      share the draws of chance.
    - *Biased by*: the own turn in the mean of its state; truncation (the missing return
      counts as 0); γ < 1 (late rewards count less); turn trees that follow the best
      candidate where information is hidden.
    - *Number*: cosine 0.953, factor 0.413 in `chain`, batches of two; cosine 1.000, factor
      1.000 in `chain`, one large group (`arena credit check`).

    With n visits the own turn shrinks the gradient at a state by the factor 1 - 1/n, which
    is 0 for a single visit. States with few visits then count less, so the direction
    changes.

    See "Process Reward Models for LLM Agents: Practical Framework and Directions" by
    Choudhury (https://arxiv.org/abs/2502.10325).

    Args:
        turns: the turns that count, with `state_key` and `action`.
        discount: γ, per turn of the same seat.
        pool: columns whose equal values define a pool; states are compared within it.

    Returns:
        float64[N], in the reward's unit; 0 where masked, where a turn was selected by its
        return, and at a state that was visited once or whose actions have equal Q.

    Raises:
        ValueError: γ out of range, or there is no column `state_key` or `action`.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0], turn=[0, 0, 0])
    >>> done = dict(state_key=[5, 5, 5], action=[0, 0, 1])
    >>> turns = TurnBatch([1, 3, 8], episode=[0, 1, 2], **one, **done)
    >>> estimate("agentprm", turns).advantage  # Q 2, 2 and 8, V 4
    array([-2., -2.,  4.])
    """
    to_go = returns_to_go(turns, turns.column("reward"), discount)[turns.unselected]
    states = only(pools_by(turns, (*column_names(pool), "state_key")), turns.unselected)
    value = moments(to_go, states.of, len(states.key))
    advantage = _reply_means(turns, pool, to_go) - value.mean[states.of]
    return _of_all(turns, with_report(advantage, states, value))
