"""Credit relative to turns of the same state, and to trajectories of the same stratum."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena_credit.batch import Floats, Ints
from arena_credit.claims import Z_SCORED, claims
from arena_credit.estimators.outcome import episode
from arena_credit.needs import needs
from arena_credit.pools import (
    Credit,
    Moments,
    beyond_rounding,
    check_choice,
    check_range,
    column_names,
    moments,
    number_rows,
    only,
    pools_by,
    relative,
    reply_values,
    scaled_credit,
    with_inner,
    with_report,
)
from arena_credit.trajectories import (
    Trajectories,
    returns_to_go,
    sizes_to_go,
)

MEANS = ("trajectories", "turns")  # of GiGPO's mean and deviation of returns


@claims(
    Z_SCORED,
    bias_infinite="direction",
    zero_mean=("group", "seat", "state_key"),
    shift=False,
)
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

    >>> from arena_credit import TurnBatch, estimate
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
    return _of_all(turns, scaled_credit(advantage, pools, stats, scale, eps))


def _reply_means(turns: Trajectories, pool: Sequence[str], to_go: Floats) -> Floats:
    """Q(state, action) of the unselected turns, by the returns-to-go of those of its pool."""
    names = (*column_names(pool), "state_key")
    states = pools_by(turns, tuple(dict.fromkeys(names)))
    actions = turns.column("action")[turns.unselected]
    reply_pools = reply_values(to_go, states.of[turns.unselected], actions)
    return reply_pools.mean[reply_pools.of]


def _of_all(turns: Trajectories, unselected: Credit) -> Credit:
    """Extends the credit of the unselected turns to all turns; the others get 0."""
    advantage = np.zeros(len(turns.row))
    advantage[turns.unselected] = unselected.advantage
    return unselected._replace(advantage=advantage)


@claims(Z_SCORED, bias_infinite="direction", shift=False)
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

    >>> from arena_credit import TurnBatch, estimate
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


@claims(
    Z_SCORED,
    bias_two="direction",
    bias_infinite="exact",
    bias_shared_chance="exact",
    zero_mean=("game", "seat", "state_key"),
    groups_apart=False,
)
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

    >>> from arena_credit import TurnBatch, estimate
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


@claims(Z_SCORED, max_ms=1000)
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

    >>> from arena_credit import TurnBatch, estimate
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


LARGEST = 1e6  # bound on 1 / density, as released
ROUNDING = 1e-9  # relative; a return may exceed a bound by this rounding error
TINY = 1e-300  # smallest p and 1 - p whose logarithm is taken


@claims(Z_SCORED, bias_infinite="direction", zero_sum=("group", "seat"))
def stratified_grpo(
    turns: Trajectories,
    *,
    strata: Sequence[str] = ("num_turns",),
    blend: float = 0.5,
    pool: Sequence[str] = ("group", "seat"),
    ddof: int = 1,
    eps: float = 1e-6,
) -> Credit:
    """Credits a trajectory with its z-scores in stratum and pool (Stratified GRPO).

        Aᵢₖ = α z(Gᵢ; own stratum of the pool) + (1 - α) z(Gᵢ; pool)

    z(x) = (x - mean) / (std + eps). A stratum holds the trajectories of a pool with equal
    values in the columns `strata`; in the paper, the number of searches. The paper tunes α;
    the default 0.5 is ours. In a stratum of one trajectory the first part is 0, so (1 - α)
    times `episode` remains. `within` in the report describes the strata.

    Reduces to: `episode` with the same ddof and eps where α = 0, or where a pool is one
    stratum; with α = 1, `episode` with the columns of the strata in its pool.

    Bias:

    - *Unbiased when*: never. It always divides by a spread, as `episode` does.
    - *Biased by*: division by the spread of strata and pools; strata that play decides,
      such as `num_turns`; truncation (the missing return counts as 0).
    - *Number*: cosine -1.000, factor -1.200 in `bandit`, shared chance; cosine 0.953,
      factor 0.600 in `three_seats`, one large group (`arena credit check`).

    Differences between strata count 1 - α. So with α = 1 nothing teaches which stratum to
    reach, and the gradient towards longer or shorter games is 0. Strata that follow from
    chance alone (`stratum`: cards, opponent) have less noise.

    See "Stratified GRPO: Handling Structural Heterogeneity in Reinforcement Learning of LLM
    Search Agents" (https://arxiv.org/abs/2510.06214).

    Args:
        turns: the turns that count.
        strata: further columns whose equal values define a stratum, constant on
            trajectories.
        blend: α, weight of the comparison within strata.
        pool: columns whose equal values define a pool, constant on trajectories.
        ddof: 1 divides the variance by n - 1, 0 by n.
        eps: added to the standard deviations.

    Returns:
        float64[N], without unit; 0 where masked. Each part is 0 in a pool or stratum of one
        trajectory or of equal returns.

    Raises:
        ValueError: an option out of range, or no such column.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, seat=[0] * 4, group=[0] * 4, turn=[0] * 4)
    >>> turns = TurnBatch([1, 3, 5, 7], episode=range(4), stratum=[0, 0, 1, 1], **one)
    >>> plain = dict(strata=("stratum",), ddof=0, eps=0)
    >>> estimate("stratified_grpo", turns, blend=1.0, **plain).advantage
    array([-1.,  1., -1.,  1.])
    """
    check_range("blend", blend, 0, 1)
    pools = pools_by(turns, pool, whole=True)
    strata_pools = pools_by(turns, (*pool, *column_names(strata)), whole=True)
    reward = turns.column("reward")
    returns = returns_to_go(turns, reward)[turns.first]
    scaled = ("std", ddof, eps, sizes_to_go(turns, reward)[turns.first])
    whole, stats = relative(returns, pools.of[turns.first], len(pools.key), *scaled)
    within, strata_stats = relative(
        returns, strata_pools.of[turns.first], len(strata_pools.key), *scaled
    )
    advantage = blend * within + (1 - blend) * whole
    result = with_report(advantage[turns.index], pools, stats)
    strata_credit = with_report(within[turns.index], strata_pools, strata_stats)
    return with_inner(result, strata_credit) if blend > 0 else result


@claims(
    Z_SCORED,
    zero_sum=("group", "seat"),
    shift=False,
    groups_apart=False,
    seats_apart=False,
)
@needs(return_bounds=("min_return", "max_return"))
def bnpo(
    turns: Trajectories,
    *,
    min_return: float | Mapping[str, float] | None = None,
    max_return: float | Mapping[str, float] | None = None,
    parts: Sequence[str] | None = None,
    pool: Sequence[str] = ("group", "seat"),
) -> Credit:
    """Credits a trajectory relative to its pool, over the density of such pools (BNPO).

        Aᵢₖ = (Yᵢ - p) / f(p; α, β),   p = mean Y,   Y = (G - min) / (max - min)
        α = max(1 + a/3, 1),   a = (m(1 - m)/v - 1) m
        β = max(1 + b/3, 1),   b = (m(1 - m)/v - 1)(1 - m)

    p is the mean over the pool, and f the density of the Beta distribution. m and v are
    mean and variance of p over all pools of the same game and seat. So pools with a common
    p weigh less, pools with a rare p more. With one pool, or with pools of equal p, f = 1.

    Two examples. If a win, draw or loss returns 1, 0 or -1, then Y is 1, 1/2 or 0. With
    α = β = 3/2, f is proportional to √(p(1-p)), the standard deviation of returns of 0
    and 1.

    With `parts`, A is the sum of the A of these parts of the reward. Each has its own
    bounds, p and f. This is the paper's advantage decomposition, up to a constant factor.

    Reduces to: `dr_grpo` of Y with one pool of each game and seat, or with pools of equal
    p; with returns of 0 and 1 and α = β = 3/2, `episode` with `ddof=0, eps=0.0` up to a
    constant factor.

    Bias:

    - *Unbiased when*: never exactly. One large pool without truncation has the true
      gradient times 1 / (max - min).
    - *Biased by*: the pool's weight 1 / f(p); bounds taken from the batch, where
      `min_return` or `max_return` is None; truncation (the missing return counts as 0).
    - *Number*: cosine -1.000, factor -0.300 in `bandit`, batches of two; cosine -1.000 in
      `hidden_card`, shared chance (`arena credit check`).

    In groups that share the draws of chance, a common deal weighs less than a rare one, and
    the sign can be wrong in batches of any size. Bounds from a small batch can turn the
    sign as well. The own return in p shrinks a pool of n by the factor 1 - 1/n. With
    `parts`, all parts count alike, whatever their weight in the reward.

    See "BNPO: Beta Normalization Policy Optimization" by Xiao et al.
    (https://arxiv.org/abs/2506.02864).

    Args:
        turns: the turns that count.
        min_return: the return with Y = 0, penalties included; None for the game's lowest
            return in this batch. Give it where it is known: the lowest return of a batch is
            random. `TurnGRPOTrainer` refuses bounds that a return of its games can exceed.
        max_return: the return with Y = 1; None for the game's highest return in this batch.
            With `parts`, both bounds are mappings from parts to numbers; a part that is
            left out has no given bound.
        parts: names of the parts of the reward, such as ("game", "format"); None for the
            whole reward.
        pool: columns whose equal values define a pool, constant on trajectories.

    Returns:
        float64[N], without unit; 0 where masked, and in a pool of one trajectory or of
        equal returns.

    Raises:
        ValueError: bounds in the wrong order, a return outside of them, or no such part.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0] * 4, seat=[0] * 4, group=[0] * 4, turn=[0] * 4)
    >>> turns = TurnBatch([-1, 1, 1, 1], episode=range(4), **one)
    >>> estimate("bnpo", turns, min_return=-1, max_return=1).advantage  # p = 3/4
    array([-0.75,  0.25,  0.25,  0.25])
    """
    pools = pools_by(turns, pool, whole=True)
    pool_of = pools.of[turns.first]
    at = turns.first
    fits, _ = number_rows([turns.column("game")[at], turns.column("seat")[at]], len(at))
    fit = np.zeros(len(pools.key), np.int64)
    fit[pool_of] = fits
    advantage, shares, all_sizes = np.zeros((3, len(at)))
    for part, *bounds in _decomposed(parts, min_return, max_return):
        reward = turns.column(part)
        share, width = _between(turns, returns_to_go(turns, reward)[at], *bounds)
        sizes = share + sizes_to_go(turns, reward)[at] / width
        centred, stats = relative(share, pool_of, len(pools.key), sizes=sizes)
        largest = np.zeros(len(pools.key))
        np.maximum.at(largest, pool_of, sizes)
        weight = _weight(stats.mean, largest, fit)
        advantage += (
            centred * np.where(beyond_rounding(stats.std) > 0, weight, 0.0)[pool_of]
        )
        shares += share
        all_sizes += sizes
    stats = moments(shares, pool_of, len(pools.key), sizes=all_sizes)
    return with_report(advantage[turns.index], pools, stats)


def _decomposed(parts: Sequence[str] | None, low: Any, high: Any) -> list[Any]:
    """The column of each part (or of the whole reward) with its two bounds."""
    if parts is None:
        return [("reward", low, high)]
    names = column_names(parts)
    if not names:
        raise ValueError("want parts of the reward, got none")
    low, high = ({} if bound is None else bound for bound in (low, high))
    for name, bound in (("min_return", low), ("max_return", high)):
        if not isinstance(bound, Mapping) or not bound.keys() <= set(names):
            raise ValueError(f"want {name} by part {names}, got {bound!r}")
    return [(f"rewards.{name}", low.get(name), high.get(name)) for name in names]


def _between(
    turns: Trajectories, returns: Floats, low: float | None, high: float | None
) -> tuple[Floats, Floats]:
    """float64[R] each: Y, the returns scaled to [0, 1] between the bounds; max - min."""
    for name, bound in (("min_return", low), ("max_return", high)):
        if bound is not None:
            check_range(name, bound, -np.inf, np.inf)
    if low is not None and high is not None and not low < high:
        raise ValueError(f"want min_return below max_return, got {low} and {high}")
    game, examples = number_rows([turns.column("game")[turns.first]], len(returns))
    bottom = np.full(len(examples), np.inf if low is None else float(low))
    top = np.full(len(examples), -np.inf if high is None else float(high))
    if low is None:
        np.minimum.at(bottom, game, returns)
    if high is None:
        np.maximum.at(top, game, returns)
    slack = ROUNDING * np.maximum(np.abs(bottom), np.abs(top))[game]
    beyond = np.flatnonzero(
        (returns < bottom[game] - slack) | (returns > top[game] + slack)
    )
    if len(beyond) > 0:
        at = turns.first[beyond[0]]
        raise ValueError(
            f"want returns from min_return {bottom[game[beyond[0]]]} to max_return "
            f"{top[game[beyond[0]]]}, got {returns[beyond[0]]} of seat "
            f"{turns.column('seat')[at]} in episode {turns.column('episode')[at]}"
        )
    returns = np.clip(returns, bottom[game], top[game])
    width = np.where(top > bottom, top - bottom, 1.0)[game]
    return np.asarray((returns - bottom[game]) / width), width


def _weight(p: Floats, sizes: Floats, fit: Ints) -> Floats:
    """float64[P]: 1 / f(p), f the Beta density fitted to all p of the same `fit`."""
    size, m, std = moments(p, fit, int(fit.max(initial=-1)) + 1, sizes=sizes)
    spreads = (size > 1) & (beyond_rounding(std) > 0)
    factor = m * (1 - m) / np.where(spreads, std**2, 1.0) - 1
    alpha = np.where(spreads, np.maximum(1 + factor * m / 3, 1.0), 1.0)
    beta = np.where(spreads, np.maximum(1 + factor * (1 - m) / 3, 1.0), 1.0)
    gammas = [
        math.lgamma(x) + math.lgamma(y) - math.lgamma(x + y)
        for x, y in zip(alpha.tolist(), beta.tolist(), strict=True)
    ]
    near, far = np.log(np.maximum(p, TINY)), np.log(np.maximum(1 - p, TINY))
    log_density = (
        (alpha - 1)[fit] * near + (beta - 1)[fit] * far - np.array(gammas)[fit]
    )
    return np.asarray(np.exp(np.minimum(-log_density, math.log(LARGEST))))
