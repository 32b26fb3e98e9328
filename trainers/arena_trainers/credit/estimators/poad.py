"""GAE over tokens, discounted between turns only: `poad`."""

import numpy as np

from arena_trainers.credit.needs import needs
from arena_trainers.credit.pools import (
    Credit,
    check_range,
    moments,
    pools_by,
    with_report,
)
from arena_trainers.credit.tokens import decayed_sums
from arena_trainers.credit.trajectories import Trajectories, values_after


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

    >>> from arena_trainers.credit import TurnBatch, estimate
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
    own = np.repeat(np.arange(len(first)), num_tokens)
    largest = np.zeros(len(first))
    np.maximum.at(largest, own, np.abs(advantage))
    return with_report(largest, pools, stats)._replace(advantage=advantage)
