"""Credit by a critic's values: `gae`, `turn_ppo`, `bi_level_gae`."""

import numpy as np

from arena_trainers.credit.batch import Floats
from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    check_range,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.trajectories import (
    Trajectories,
    discounted_sums,
    temporal_differences,
)


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

    >>> from arena_trainers.credit import TurnBatch, estimate
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

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0], seat=[0, 0], group=[0, 0], episode=[0, 0], turn=[0, 1])
    >>> turns = TurnBatch([0, 4], value=[1, 2], truncated=[False, False], **one)
    >>> estimate("turn_ppo", turns).advantage  # .98 + .891 · 2
    array([2.762, 2.   ])
    """
    return gae(turns, discount=discount, lambda_=lambda_)


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

    >>> from arena_trainers.credit import TurnBatch, estimate
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
