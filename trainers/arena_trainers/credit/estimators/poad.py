"""Credit inside and between actions: `poad`."""

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
    """Credits tokens by GAE that discounts between actions only (POAD).

        δₖₜ = vₖₜ₊₁ - vₖₜ              inside a turn: no reward, no discount
        δₖₙ = rₖ + γ vₖ₊₁,₁ - vₖₙ      at its last token
        Aₖₜ = δₖₜ + λ' Aₖₜ₊₁,   and Aₖₙ = δₖₙ + γ λ Aₖ₊₁,₁

    with vₖₜ the value before token t of turn k; after the end it is 0, or `next_value` if
    the trajectory was truncated. This is the Bellman backup with action decomposition
    (BAD): what is optimal does not depend on how many tokens an action has. With λ' = 1,
    splitting an action into more tokens of equal value changes no advantage.

    Reduces to: `gae` with the same γ and λ, of one token per turn; the return-to-go less
    the token's value with γ = λ = λ' = 1.

    Bias: none with γ = λ = λ' = 1 where nothing was cut. There the values may be any, as a
    value depends on what was said before its token. Otherwise none where the values are
    those of the current policy and γ = 1. λ' < 1, as in the released code, lets late
    rewards reach the first token of a long reply less than that of a short one.

    See "Reinforcing Language Agents via Policy Optimization with Action Decomposition" by
    Wen et al. (https://arxiv.org/abs/2405.15821).

    Args:
        turns: the turns that count, with `num_tokens`, `truncated` and the token column
            `value`; with `next_value` where a trajectory was truncated.
        discount: γ, per turn of the same seat.
        lambda_: λ, between turns.
        lambda_tokens: λ', between the tokens of a turn.

    Returns:
        float64[num_tokens.sum()] per token, in the reward's unit; 0 where masked. Turns are
        not compared: a pool of one is nothing special.

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
    check_range("discount", discount, 0, 1)
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
