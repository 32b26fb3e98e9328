"""Comparing turns of the same state: `at_grpo`, `gigpo`, `agentprm`."""

from collections.abc import Sequence

import numpy as np

from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    check_choice,
    check_range,
    column_names,
    moments,
    only,
    pools_by,
    with_inner,
    with_report,
)
from arena_trainers.credit.scales import relative
from arena_trainers.credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)

MEANS = ("trajectories", "turns")  # what GiGPO's mean and deviation of returns are over


@needs("state_key", unselected_only=True)
def at_grpo(
    turns: Trajectories,
    *,
    discount: float = 0.0,
    pool: Sequence[str] = ("group", "seat", "state_key"),
    scale: str = "std",
    ddof: int = 1,
    eps: float = 1e-6,
) -> Credit:
    """Credits a turn relative to what else was tried at the same place (AT-GRPO).

        Aₖ = (Rₖ - mean R) / (std R + eps),   Rₖ = Σ_{j ≥ k} γ^{j - k} rⱼ

    over the turns of one group and seat in which the seat knew the same, such as the
    candidates of a turn tree, where the paper's key (instance, agent, turn) means just
    that. γ = 0 is the paper's: its games pay every turn, for the team and for the agent.
    Where only the end is paid, candidates are played to the end, and γ = 1. Turns that are
    not `unselected` count in R alone, as do the later turns of candidates in a tree that follows
    the best. The paper's r = α r_team + r_local, with α = 1, is what the weights of the
    reward's parts make of it.

    Departs from the released code, which keeps raw rewards where no state occurs twice:
    here these turns get 0.

    Reduces to: `episode` with the same ddof and eps in games of one turn and one state;
    `mars` with γ = 1, `scale="none"` and `pool=("game", "seat")`.

    Bias: each state is divided by its spread; γ = 0 ignores what comes later. With γ = 1
    and `"none"`, at each state only shrunk, by 1 - 1/n with n turns in the pool; states
    that were seen once teach nothing. In trees, states that were followed for what they paid
    are seen more often, and where information is hidden with what was kind there, which can
    be wrong in direction. γ = 0 is wrong in direction where a turn pays now
    what it costs then. `"std"` weighs each state of a group by 1 / std, with the bias that
    `episode` has: the sign can be wrong where a group shares the draws of chance.

    See "Stronger Together: On-Policy Reinforcement Learning for Collaborative LLMs" by Zhao
    et al. (https://arxiv.org/abs/2510.11062).

    Args:
        turns: the turns that count, with `state_key`.
        discount: γ, per turn of the same seat.
        pool: columns that agree within a pool.
        scale: `"std"` or `"none"`.
        ddof: 1 for the unbiased variance, 0 for the plain one.
        eps: added to the standard deviation.

    Returns:
        float64[N], without unit (`"none"`: in the reward's); 0 where masked or selected by its return, and
        in a pool of one turn or of equal returns.

    Raises:
        ValueError: an option out of range, or there is no column `state_key`.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, seat=[0] * 4, group=[0] * 4, turn=[0] * 4)
    >>> turns = TurnBatch([1, 4, 9, 7], episode=range(4), state_key=[5, 5, 6, 6], **one)
    >>> estimate("at_grpo", turns, scale="none").advantage
    array([-1.5,  1.5,  1. , -1. ])
    """
    check_range("discount", discount, 0, 1)
    pools = only(pools_by(turns, pool), turns.unselected)
    reward = turns.column("reward")
    to_go = returns_to_go(turns, reward, discount)[turns.unselected]
    scaled = (scale, ddof, eps, sizes_to_go(turns, reward, discount)[turns.unselected])
    advantage, stats = relative(to_go, pools.of, len(pools.key), *scaled)
    return _of_all(turns, with_report(advantage, pools, stats))


def _of_all(turns: Trajectories, unselected: Credit) -> Credit:
    """Credit of the unselected turns as that of all: the others have none."""
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
    """Credits a turn with its trajectory's return and with its own at its state (GiGPO).

        Aᵢₖ = z(Gᵢ) + ω z(Rᵢₖ),   Gᵢ = Σₖ rᵢₖ,   Rᵢₖ = Σ_{j ≥ k} γ^{j - k} rᵢⱼ

    z over the trajectories of the pool for G, and over its turns of the same state for R: a
    group in a group. A state that was seen once adds 0, and so does one whose turns led to
    the same, of which the report tells (`within`).

    That is the paper (equation 3), `mean_over="trajectories"`. The released code takes mean
    and deviation of G over the turns of the pool, so that a trajectory counts as often as
    it has turns: `mean_over="turns"`. (It also keeps the whole return where a pool holds a
    single turn, which gets 0 here.)

    Reduces to: `episode` with the same ddof and eps where ω = 0, or where no state of a
    pool was seen twice.

    Bias: pools and states are divided by their spread. With `"none"` and γ = 1 it is the
    sum of two estimates, so that a turn whose state is seen often is weighed up to 1 + ω
    times; states do not lose their direction. γ < 1 prefers early rewards, in the second
    part alone. `"std"` divides both parts, with the bias that `episode` has, to the wrong
    sign where a group shares the draws of chance, and weighs rare and even states up.
    `mean_over="turns"` moves the baseline towards the returns of long trajectories. In large
    pools that is a constant, which adds no bias. In small ones it depends on the
    trajectory's own length, and with `"none"` the gradient is no longer only shrunk.

    See "Group-in-Group Policy Optimization for LLM Agent Training" by Feng et al.
    (https://arxiv.org/abs/2505.10978).

    Args:
        turns: the turns that count, with `state_key`.
        omega: ω, weight of the comparison at states.
        discount: γ, per turn of the same seat, of the second part.
        pool: columns that agree within a pool, constant on trajectories.
        scale: `"std"` for z-scores, `"none"` for differences from the mean.
        ddof: 1 for the unbiased variance, 0 for the plain one.
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
    check_range("discount", discount, 0, 1)
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
    """Credits a turn with what its action led to, over all its visits (AgentPRM).

        Aₖ = Q(s, a) - V(s),   Q = mean{R at the same state and action},
        V = mean{R at the same state},   Rₖ = Σ_{j ≥ k} γ^{j - k} rⱼ

    Q is the Monte-Carlo target of the paper's process reward model, read from its table
    instead of from a network that was fitted to it; V is subtracted as a baseline. As in
    `at_grpo`, turns that are not `unselected` count in R alone.

    Departs from the released code, which discounts by γ^k of the turn's index k, so that
    late actions count less, instead of by the distance to what is paid.

    Reduces to: `at_grpo` with `scale="none"`, the same γ and `pool=("game", "seat",
    "state_key")`, where every action was tried once at its state.

    Bias: the mean of a state contains the turn itself. At each state the gradient is shrunk
    by 1 - 1/n with n visits, 0 for one, and so turned in small batches. It is that of
    `at_grpo` over the same pools, unscaled, exactly where turns of one state and action
    have the same score (a tabular policy). None in large batches at γ = 1, but that what a
    limit of turns cuts off counts as nothing, and that trees which follow the best are
    wrong where information is hidden, as with `at_grpo`. γ < 1 ignores what comes late.

    See "Process Reward Models for LLM Agents: Practical Framework and Directions" by
    Choudhury (https://arxiv.org/abs/2502.10325).

    Args:
        turns: the turns that count, with `state_key` and `action`.
        discount: γ, per turn of the same seat.
        pool: columns that agree wherever states are compared.

    Returns:
        float64[N], in the reward's unit; 0 where masked or selected by its return, and where a state was
        visited once or all its actions led to the same on average.

    Raises:
        ValueError: γ out of range, or there is no column `state_key` or `action`.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0, 0], seat=[0, 0, 0], group=[0, 0, 0], turn=[0, 0, 0])
    >>> done = dict(state_key=[5, 5, 5], action=[0, 0, 1])
    >>> turns = TurnBatch([1, 3, 8], episode=[0, 1, 2], **one, **done)
    >>> estimate("agentprm", turns).advantage  # Q 2, 2 and 8, V 4
    array([-2., -2.,  4.])
    """
    check_range("discount", discount, 0, 1)
    to_go = returns_to_go(turns, turns.column("reward"), discount)[turns.unselected]
    states = pools_by(turns, (*column_names(pool), "state_key"))
    actions = only(pools_by(turns, (*states.names, "action")), turns.unselected)
    states = only(states, turns.unselected)
    value = moments(to_go, states.of, len(states.key))
    action_value = moments(to_go, actions.of, len(actions.key))
    advantage = action_value.mean[actions.of] - value.mean[states.of]
    return _of_all(turns, with_report(advantage, states, value))
