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

    V after a trajectory's last turn is 0 if it ended by the rules, and `next_value` if a
    limit cut it. With λ = 1 and `num_turns` n it is the n-step return less the value.

    Reduces to: the return-to-go less the value with λ = 1 (TD(1), Monte Carlo); the
    difference of one step with λ = 0, as with `num_turns=1`; `mars` with γ = λ = 1 and the
    mean of the pool as value.

    Bias: none with γ = λ = 1 where nothing was cut. There the values may be any, as long as
    they do not depend on what the turn decides: on its own episode, say, by fitting it
    first. With λ < 1, few turns, or at a cut, as biased as the values; none if these are
    the true ones. γ < 1 ignores what comes late.

    See "High-Dimensional Continuous Control Using Generalized Advantage Estimation" by
    Schulman et al. (https://arxiv.org/abs/1506.02438).

    Args:
        turns: the turns that count, with `value` and `truncated`, and `next_value` where a
            trajectory was truncated.
        discount: γ, per turn of the same seat.
        lambda_: λ, per turn of the same seat.
        num_turns: how many differences are summed at most, l < n; None for all.

    Returns:
        float64[N], in the reward's unit; 0 where masked. Turns are not compared: a pool of
        one is nothing special.

    Raises:
        ValueError: an option out of range, a missing column, or a value that is not finite.

    >>> from arena_trainers.credit import TurnBatch, estimate
    >>> one = dict(game=[0, 0], seat=[0, 0], group=[0, 0], episode=[0, 0], turn=[0, 1])
    >>> turns = TurnBatch([0, 4], value=[1, 2], truncated=[False, False], **one)
    >>> estimate("gae", turns, lambda_=0.5).advantage  # differences 1 and 2
    array([2., 2.])
    """
    check_range("discount", discount, 0, 1)
    check_range("lambda_", lambda_, 0, 1)
    if num_turns is not None and not (isinstance(num_turns, int) and num_turns > 0):
        raise ValueError(f"want num_turns of at least 1, got {num_turns!r}")
    value = turns.column("value")
    delta = temporal_differences(turns, turns.column("reward"), value, discount)
    advantage = discounted_sums(delta, turns.left, discount * lambda_, num_turns)
    return _with_pools(turns, value, advantage)


@needs("value", "truncated")
def turn_ppo(
    turns: Trajectories, *, discount: float = 0.99, lambda_: float = 0.9
) -> Credit:
    """Credits all tokens of a turn by GAE over turns, with the settings of Turn-PPO.

        Aₖ = Σ_{l ≥ 0} (γλ)^l δₖ₊ₗ,   δₖ = rₖ + γ Vₖ₊₁ - Vₖ

    As `gae`, with the paper's settings: a turn is one action, and V is the critic's at its
    start. One ratio and one clip per turn, the paper's other half, belong to the loss.

    Reduces to: `gae` with the same γ and λ.

    Bias: that of `gae`.

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

    The second level takes Aₖ + vₖₙ for the reward of the reply's end.

    Departs from the released code, which finds the ends of turns by rewards that are not 0,
    so that turns without reward vanish, has 0 for the value after a truncation, and whitens
    over the batch in the end.

    Reduces to: `gae` with the same γ and λ, of one token per turn; the return-to-go less
    the token's value with γ = γ' = λ = 1.

    Bias: none with γ = γ' = λ = 1 where nothing was cut. There the values may be any, as a
    value depends on what was said before its token. Otherwise as biased as the values; the
    last token's value is of a reply that is almost whole, and takes the place of what the
    turn was worth at its start. γ < 1 ignores what comes late, γ' < 1 lets long replies be
    reached by less of it.

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
    check_range("discount", discount, 0, 1)
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
    return _with_pools(turns, value[ends], high)._replace(advantage=low)


def _with_pools(turns: Trajectories, value: Floats, advantage: Floats) -> Credit:
    """The advantages, with the moments of the returns they imply for each game and seat."""
    pools = pools_by(turns, ("game", "seat"))
    stats = moments(value + advantage, pools.of, len(pools.key))
    return with_report(advantage, pools, stats)
