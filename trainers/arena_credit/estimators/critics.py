"""Credit by the values of a critic: GAE over turns or tokens, and Q - V of whole replies."""

import numpy as np

from arena_credit.batch import Floats
from arena_credit.claims import UNBIASED, claims
from arena_credit.needs import needs
from arena_credit.pools import (
    Credit,
    check_choice,
    check_range,
    moments,
    pools_by,
    with_report,
)
from arena_credit.tokens import decayed_sums
from arena_credit.trajectories import (
    Trajectories,
    discounted_sums,
    temporal_differences,
    values_after,
)


@claims(UNBIASED, noise=1.2)
@needs("value", "truncated")
def gae(
    turns: Trajectories,
    *,
    discount: float = 1.0,
    lambda_: float = 0.95,
    num_turns: int | None = None,
) -> Credit:
    """Credits a turn by generalised advantage estimation over turns (GAE).

        Aₖ = Σ_{l ≥ 0} (γλ)^l δₖ₊ₗ,   δₖ = rₖ + γ Vₖ₊₁ - Vₖ

    V is the value that a critic gives a turn. After a trajectory's last turn it is 0 if the
    game ended, and `next_value` if a limit cut the episode. δ is the TD error. With λ = 1
    and `num_turns` n, A is the n-step return minus the value.

    Reduces to: the return-to-go minus the value with λ = 1 (TD(1), Monte Carlo); the TD
    error δₖ with λ = 0 or `num_turns=1`; `mars` with γ = λ = 1 and the mean of the pool as
    value.

    Bias:

    - *Unbiased when*: γ = 1, and either the values are those of the current policy, or λ =
      1, `num_turns` is None and no limit cuts an episode; in batches of any size.
    - *Biased by*: errors of the critic with λ < 1, with `num_turns` or at a truncation;
      values that depend on the turn's own action, such as those of a critic that was fitted
      to the same episode before; γ < 1 (late rewards count less).
    - *Number*: cosine 1.000, factor 1.000 in `patience`, batches of two, with λ = 0.95 and
      exact values (`arena credit check`).

    See "High-Dimensional Continuous Control Using Generalized Advantage Estimation" by
    Schulman et al. (https://arxiv.org/abs/1506.02438).

    Args:
        turns: the turns that count, with `value` and `truncated`, and `next_value` where a
            trajectory was truncated.
        discount: γ, per turn of the same seat.
        lambda_: λ, per turn of the same seat.
        num_turns: n, the largest number of TD errors in the sum (l < n); None for all.

    Returns:
        float64[N], in the reward's unit; 0 where masked. There are no pools of
        turns to compare, so a single turn is credited like any other.

    Raises:
        ValueError: an option out of range, a missing column, or a value that is not finite.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0], seat=[0, 0], group=[0, 0], episode=[0, 0], turn=[0, 1])
    >>> turns = TurnBatch([0, 4], value=[1, 2], truncated=[False, False], **one)
    >>> estimate("gae", turns, lambda_=0.5).advantage  # differences 1 and 2
    array([2., 2.])
    """
    check_range("lambda_", lambda_, 0, 1)
    if num_turns is not None and not (isinstance(num_turns, int) and num_turns > 0):
        raise ValueError(f"want num_turns of at least 1, got {num_turns!r}")
    value = turns.column("value")
    delta = temporal_differences(turns, turns.column("reward"), value, discount)
    advantage = discounted_sums(delta, turns.left, discount * lambda_, num_turns)
    return with_value_pools(turns, value, advantage)


@claims(UNBIASED)
@needs("value", "truncated")
def turn_ppo(
    turns: Trajectories, *, discount: float = 0.99, lambda_: float = 0.9
) -> Credit:
    """Credits all tokens of a turn by GAE over turns, with the settings of Turn-PPO.

        Aₖ = Σ_{l ≥ 0} (γλ)^l δₖ₊ₗ,   δₖ = rₖ + γ Vₖ₊₁ - Vₖ

    This is `gae` with the paper's defaults γ = 0.99 and λ = 0.9. A turn is one action, and
    V is the critic's value at the start of the turn. The paper's second change, one ratio
    and one clip per turn, belongs to the loss.

    Reduces to: `gae` with the same γ and λ.

    Bias:

    - *Unbiased when*: γ = 1 and the values are those of the current policy, in batches of
      any size; with λ = 1 as `gae`.
    - *Biased by*: errors of the critic, as in `gae`; γ < 1 (late rewards count less).
    - *Number*: cosine 1.000, factor 1.000 in `patience`, batches of two, with γ = 1, λ =
      0.9 and exact values (`arena credit check`).

    See "Turn-PPO: Turn-Level Advantage Estimation with PPO for Improved Multi-Turn RL in
    Agentic LLMs" by Li et al. (https://arxiv.org/abs/2512.17008).

    Args:
        turns: the turns that count, with `value` and `truncated`, and `next_value` where a
            trajectory was truncated.
        discount: γ, per turn of the same seat.
        lambda_: λ, per turn of the same seat.

    Returns:
        float64[N], in the reward's unit; 0 where masked.

    Raises:
        ValueError: as `gae` does.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0], seat=[0, 0], group=[0, 0], episode=[0, 0], turn=[0, 1])
    >>> turns = TurnBatch([0, 4], value=[1, 2], truncated=[False, False], **one)
    >>> estimate("turn_ppo", turns).advantage  # .98 + .891 · 2
    array([2.762, 2.   ])
    """
    return gae(turns, discount=discount, lambda_=lambda_)


@claims(UNBIASED, tokens=False)
@needs("num_tokens", "tokens.value", "truncated", per_token=True)
def bi_level_gae(
    turns: Trajectories,
    *,
    discount: float = 0.95,
    discount_tokens: float = 1.0,
    lambda_: float = 1.0,
) -> Credit:
    """Credits tokens by GAE over turns first, then over the tokens of each turn (RAGEN).

        Aₖ = Σ_{l ≥ 0} (γλ)^l δₖ₊ₗ,   δₖ = rₖ + γ vₖ₊₁,ₙ - vₖₙ     turns, v of last tokens
        Aₖₙ = Aₖ,   Aₖₜ = (γ' vₖₜ₊₁ - vₖₜ) + γ' λ Aₖₜ₊₁             tokens before the last

    vₖₜ is the critic's value before token t of turn k, and n is the turn's last token. The
    first level is GAE over turns, with the value before the last token of each turn. The
    second level is GAE over the tokens of a turn, with the reward Aₖ + vₖₙ at the last
    token.

    Departs from the released code in three ways. The released code takes tokens with a
    reward other than 0 as ends of turns, so it misses turns without reward. It uses 0 as the
    value after a truncation. It whitens the advantages over the batch. This estimator does
    none of these.

    Reduces to: `gae` with the same γ and λ, of one token per turn; the return-to-go minus
    the token's value with γ = γ' = λ = 1.

    Bias:

    - *Unbiased when*: γ = γ' = λ = 1 and no limit cuts an episode, whatever the values are,
      in batches of any size.
    - *Biased by*: errors of the critic with λ < 1 or at a cut; γ < 1 (late rewards count
      less); γ' < 1 (the first tokens of long replies get less of the later rewards).
    - *Number*: cosine 1.000, factor 1.000 in `patience`, batches of two, with γ = 1 and
      exact values (`arena credit check`).

    See "RAGEN: Understanding Self-Evolution in LLM Agents via Multi-Turn Reinforcement
    Learning" by Wang et al. (https://arxiv.org/abs/2504.20073), and its code
    (https://github.com/RAGEN-AI/RAGEN), which has this estimator.

    Args:
        turns: the turns that count, with `num_tokens`, the token column `value` and
            `truncated`, and `next_value` where a trajectory was truncated.
        discount: γ, per turn of the same seat.
        discount_tokens: γ', per token of a turn.
        lambda_: λ, on both levels.

    Returns:
        float64[num_tokens.sum()] per token, in the reward's unit; 0 where masked.

    Raises:
        ValueError: an option out of range, a missing column, a turn without tokens, or a
            value that is not finite.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0], seat=[0, 0], group=[0, 0], episode=[0, 0], turn=[0, 1])
    >>> one |= dict(truncated=[False, False], num_tokens=[2, 1])
    >>> turns = TurnBatch([0, 4], tokens={"value": [1, 3, 2]}, **one)
    >>> estimate("bi_level_gae", turns, discount=0.5).advantage  # 2, then -2 + 2/2, 2 - 1
    array([ 1., -1.,  2.])
    """
    check_range("discount_tokens", discount_tokens, 0, 1)
    check_range("lambda_", lambda_, 0, 1)
    num, value = turns.column("num_tokens"), turns.column("tokens.value")
    ends = np.cumsum(num) - 1
    delta = temporal_differences(turns, turns.column("reward"), value[ends], discount)
    high = discounted_sums(delta, turns.left, discount * lambda_)
    differences = discount_tokens * np.append(value[1:], 0.0)[: len(value)] - value
    differences[ends] = high
    left = np.repeat(ends, num) - np.arange(len(value))
    low = discounted_sums(differences, left, discount_tokens * lambda_)
    return with_value_pools(turns, value[ends], high)._replace(advantage=low)


def with_value_pools(turns: Trajectories, value: Floats, advantage: Floats) -> Credit:
    """The advantages, with the moments of the returns they imply for each game and seat."""
    pools = pools_by(turns, ("game", "seat"))
    stats = moments(value + advantage, pools.of, len(pools.key))
    return with_report(advantage, pools, stats)


@claims(UNBIASED, tokens=False)
@needs("num_tokens", "tokens.value", "truncated", per_token=True)
def poad(
    turns: Trajectories,
    *,
    discount: float = 0.99,
    lambda_: float = 0.95,
    lambda_tokens: float = 0.95,
) -> Credit:
    """Credits tokens by GAE that discounts between turns only (POAD).

        δₖₜ = vₖₜ₊₁ - vₖₜ              inside a turn: no reward, no discount
        δₖₙ = rₖ + γ vₖ₊₁,₁ - vₖₙ      at its last token
        Aₖₜ = δₖₜ + λ' Aₖₜ₊₁,   and Aₖₙ = δₖₙ + γ λ Aₖ₊₁,₁

    vₖₜ is the critic's value before token t of turn k. After the last turn it is 0 if the
    game ended, and `next_value` if a limit cut the episode. This is the Bellman backup with
    action decomposition (BAD): the optimal policy does not depend on how many tokens an
    action has. With λ' = 1, splitting an action into more tokens of equal value changes no
    advantage.

    Reduces to: `gae` with the same γ and λ, of one token per turn; the return-to-go minus
    the token's value with γ = λ = λ' = 1.

    Bias:

    - *Unbiased when*: γ = 1, and either the values are those of the current policy, or λ =
      λ' = 1 and no limit cuts an episode; in batches of any size.
    - *Biased by*: errors of the critic with λ < 1, λ' < 1 or at a cut; γ < 1 (late rewards
      count less). With λ' < 1, as in the released code, the first token of a long reply
      gets less of the late rewards than that of a short reply.
    - *Number*: cosine 1.000, factor 1.000 in `patience`, batches of two, with γ = 1 and
      exact values (`arena credit check`).

    See "Reinforcing Language Agents via Policy Optimization with Action Decomposition" by
    Wen et al. (https://arxiv.org/abs/2405.15821).

    Args:
        turns: the turns that count, with `num_tokens`, `truncated` and the token column
            `value`; with `next_value` where a trajectory was truncated.
        discount: γ, per turn of the same seat.
        lambda_: λ, between turns.
        lambda_tokens: λ', between the tokens of a turn.

    Returns:
        float64[num_tokens.sum()] per token, in the reward's unit; 0 where masked. There
        are no pools of turns to compare, so a single turn is credited like any other.

    Raises:
        ValueError: an option out of range, or a column that is missing.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0], seat=[0, 0], episode=[0, 0], turn=[0, 1], group=[0, 0])
    >>> one |= dict(num_tokens=[2, 1], truncated=[False, False])
    >>> turns = TurnBatch(reward=[0, 4], **one, tokens={"value": [1.0, 2.0, 3.0]})
    >>> lambdas = dict(lambda_=1.0, lambda_tokens=1.0)
    >>> estimate("poad", turns, discount=0.5, **lambdas).advantage  # deltas 1, -.5, 1
    array([1., 0., 1.])
    """
    check_range("lambda_", lambda_, 0, 1)
    check_range("lambda_tokens", lambda_tokens, 0, 1)
    value, num_tokens = turns.column("tokens.value"), turns.column("num_tokens")
    ends = np.cumsum(num_tokens) - 1
    first = value[ends + 1 - num_tokens]
    after = np.append(value[1:], 0.0)[: len(value)]
    after[ends] = turns.column("reward") + discount * values_after(turns, first)
    decay = np.full(len(value), lambda_tokens)
    decay[ends] = np.where(turns.left > 0, discount * lambda_, 0.0)
    advantage = decayed_sums(after - value, decay)
    pools = pools_by(turns, ("game", "seat"))
    targets = advantage[ends + 1 - num_tokens] + first
    stats = moments(targets, pools.of, len(pools.key))
    turn_of = np.repeat(np.arange(len(first)), num_tokens)
    largest = np.zeros(len(first))
    np.maximum.at(largest, turn_of, np.abs(advantage))
    return with_report(largest, pools, stats)._replace(advantage=advantage)


ACTION_VALUES = ("td", "column")


@claims(UNBIASED)
@needs("value", "truncated")
def archer(
    turns: Trajectories, *, action_value: str = "td", discount: float = 0.9
) -> Credit:
    """Credits a turn with Q minus V of an utterance-level critic (ArCHer).

        Aₖ = Q(sₖ, aₖ) - V(sₖ)

    `"column"` reads Q from the column `action_value`. `"td"` takes the target that ArCHer
    fits Q to: Qₖ = rₖ + γ Vₖ₊₁, with V = 0 after the end of the game and `next_value` after
    a truncation. This target makes the advantage GAE over turns with λ = 0. All tokens of a turn share its
    advantage. ArCHer's optional token-level baseline is not implemented.

    The trainer's `critic="utterances"` supplies both columns. Departs from the released code in V: the
    released code samples new utterances for turns of a replay buffer.

    Reduces to: `gae` with λ = 0 and the same γ (`"td"`); the own reward minus the value at
    γ = 0; `counterfactual` (`"column"`).

    Bias:

    - *Unbiased when*: γ = 1 and the values are those of the current policy, in batches of
      any size.
    - *Biased by*: errors of the critic in Q, with `"td"` in Vₖ₊₁; γ < 1 (late rewards count
      less). An error in V(sₖ) adds variance only.
    - *Number*: cosine 1.000, factor 1.000 in `patience`, batches of two, with γ = 1 and
      exact values (`arena credit check`).

    See "ArCHer: Training Language Model Agents via Hierarchical Multi-Turn RL" by Zhou et
    al. (https://arxiv.org/abs/2402.19446).

    Args:
        turns: the turns that count, with `value` and `truncated`; with `next_value` where a
            trajectory was truncated, and with `action_value` for `"column"`.
        action_value: `"td"` or `"column"`.
        discount: γ, per turn of the same seat; the default is that of the released code.

    Returns:
        float64[N], in the reward's unit; 0 where masked. There are no pools of
        turns to compare, so a single turn is credited like any other.

    Raises:
        ValueError: an option out of range, or a column that is missing.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0], seat=[0, 0], episode=[0, 0], turn=[0, 1], group=[0, 0])
    >>> one |= dict(value=[2, 4], truncated=[False, False])
    >>> turns = TurnBatch(reward=[1, 3], **one)
    >>> estimate("archer", turns, discount=0.5).advantage  # 1 + .5 * 4 - 2, and 3 - 4
    array([ 1., -1.])
    """
    check_choice("action_value", action_value, ACTION_VALUES)
    value, reward = turns.column("value"), turns.column("reward")
    if action_value == "column":
        advantage = turns.column("action_value") - value
    else:
        advantage = temporal_differences(turns, reward, value, discount)
    return with_value_pools(turns, value, advantage)


@claims(UNBIASED, shift=True)
@needs("value", "action_value")
def counterfactual(turns: Trajectories) -> Credit:
    """Credits a turn with the exact value of its action minus that of its state (COMA).

        Aₖ = Q(Iₖ, aₖ) - V(Iₖ),   V(I) = Σₐ π(a | I) Q(I, a)

    I is the seat's information state. Q(I, a) is the seat's expected return-to-go if it
    plays a and all seats then follow their policies. This is COMA's advantage with exact
    values instead of a critic's, for games with a solver.
    `arena_envs.solvers.action_values` computes Q from the policies of all seats. In the
    trainer, `critic="exact"` supplies both columns. A reward model (`RewardColumn`) may supply its
    scores instead, as in AgentPRM (https://arxiv.org/abs/2502.10325). Their gradient
    is that of the mean score at the prompts that play reaches, with the distribution of prompts
    held fixed. The rewards of the batch are not read.

    Reduces to: `archer` with `action_value="column"`; with the return-to-go for Q, `gae`
    with γ = λ = 1 where nothing was cut.

    Bias:

    - *Unbiased when*: the values are those of the policies that played, in batches of any
      size. Nothing that follows the turn adds variance.
    - *Biased by*: values of other policies. With the values of optimal play, a best action has
      advantage 0 and every other action the negative of its regret. Such advantages do not
      give the gradient of the return.
    - *Number*: cosine 1.000, factor 1.000 in `patience`, batches of two, with exact values
      (`arena credit check`).

    See "Counterfactual Multi-Agent Policy Gradients" by Foerster et al.
    (https://arxiv.org/abs/1705.08926).

    Args:
        turns: the turns that count, with `value` (V) and `action_value` (Q).

    Returns:
        float64[N], in the unit of the values; 0 where masked. There are no
        pools of turns to compare, so a single turn is credited like any other.

    Raises:
        ValueError: a column is missing.

    >>> from arena_credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0], seat=[0, 0], episode=[0, 1], turn=[0, 0], group=[0, 0])
    >>> turns = TurnBatch(reward=[9, 0], **one, value=[2, 2], action_value=[3, 1])
    >>> estimate("counterfactual", turns).advantage
    array([ 1., -1.])
    """
    value = turns.column("value")
    return with_value_pools(turns, value, turns.column("action_value") - value)
