"""From turns to tokens: the advantage of each token of a reply.

Token columns are ragged: the tokens of a turn follow those of the turn before. A policy
gradient sums advantage times score over the tokens of a turn. These scores add up to
the score of the reply, so equal advantages of all tokens are the advantage of the turn.
"""

from collections.abc import Mapping

import numpy as np

from arena_credit.batch import Floats, Ints
from arena_credit.pools import check_range
from arena_credit.trajectories import Trajectories

NEEDED_WITHIN: Mapping[str, tuple[str, ...]] = {
    "uniform": (),
    "entropy": ("num_tokens", "tokens.entropy"),
    "values": ("num_tokens", "tokens.value"),
}
WITHIN_TURN = tuple(NEEDED_WITHIN)


def credit_within(turns: Trajectories, advantage: Floats, within_turn: str) -> Floats:
    """Advantages of tokens from those of their turns, for `within_turn`.

    Args:
        turns: the turns that count, with the columns of `NEEDED_WITHIN`.
        advantage: float64[M], of these turns.
        within_turn: `"entropy"` is `by_token_entropy`, `"values"` is `by_value_differences` with
            λ = 1.

    Returns:
        float64[num_tokens.sum()]; 0 where `unselected` is false.

    Raises:
        ValueError: an entropy below 0.
    """
    num_tokens = turns.column("num_tokens")
    column = turns.column(
        f"tokens.{'entropy' if within_turn == 'entropy' else 'value'}"
    )
    redistribute = (
        by_token_entropy if within_turn == "entropy" else by_value_differences
    )
    credited = redistribute(advantage, num_tokens, column)
    return np.where(np.repeat(turns.unselected, num_tokens), credited, 0.0)


def surprises(turns: Trajectories) -> Floats:
    """The surprise of each turn: how much likelier its tokens were than the policy's usual.

        mₖ = Σ over the turn's tokens of (log π(token) + H)

    H is the entropy of the distribution that the token was drawn from. So every term has mean
    0 given the tokens before it, and mₖ given the turn's prompt, if `logprob` and `entropy` are
    of the distribution that sampled: after temperature and cuts.

    Args:
        turns: the turns that count.

    Returns:
        float64[M, S]: S is 0 unless the batch has the token columns `logprob` and `entropy`. It
        is 2 with the token column `span`, 0 for reasoning and 1 for the answer, else 1.

    Raises:
        ValueError: a span other than 0 and 1.

    >>> from arena_credit import TurnBatch, trajectories
    >>> one = dict(game=[0, 0], seat=[0, 0], turn=[0, 0], group=[0, 0], episode=[0, 1])
    >>> tokens = {"logprob": [-0.5, -1.0, -2.0], "entropy": [1.0, 1.0, 1.0]}
    >>> turns = TurnBatch(reward=[0, 1], num_tokens=[2, 1], tokens=tokens, **one)
    >>> surprises(trajectories(turns))
    array([[ 0.5],
           [-1. ]])
    """
    tokens, num = turns.batch.tokens or {}, len(turns.row)
    if turns.batch.num_tokens is None or not {"logprob", "entropy"} <= tokens.keys():
        return np.zeros((num, 0))
    places = turns.token_row
    turn_of = np.repeat(np.arange(num), turns.batch.num_tokens[turns.row])
    each = tokens["logprob"][places] + tokens["entropy"][places]
    if "span" not in tokens:
        return np.asarray(np.bincount(turn_of, each, num)[:, None], np.float64)
    span = tokens["span"][places]
    for odd in np.flatnonzero((span != 0) & (span != 1))[:1]:
        raise ValueError(
            "want tokens['span'] of 0 (reasoning) or 1 (answer), got "
            f"tokens['span'][{places[odd]}] = {span[odd]:g}"
        )
    return np.stack(
        [np.bincount(turn_of, each * (span == kind), num) for kind in (0, 1)], axis=1
    )


def uniform_over_tokens(advantage: Floats, num_tokens: Ints) -> Floats:
    """Gives every token of a turn the turn's advantage: Aₖₜ = Aₖ.

    Args:
        advantage: float64[M], of turns.
        num_tokens: int64[M], of each turn.

    Returns:
        float64[num_tokens.sum()].

    >>> uniform_over_tokens(np.array([3.0, -1.0]), np.array([2, 1]))
    array([ 3.,  3., -1.])
    """
    return np.repeat(advantage, num_tokens)


def by_token_entropy(advantage: Floats, num_tokens: Ints, entropy: Floats) -> Floats:
    """Splits the turn's advantage over its tokens in proportion to their entropy.

        Aₖₜ = Aₖ Hₜ / mean H,   the mean over the turn's n tokens

    The sum over the turn is n Aₖ, as with equal advantages. Advantages are equal if all
    entropies of the turn are equal, or all 0.

    Biased by two effects. Tokens of entropy 0 are not trained. And the mean contains the
    entropies of later tokens, so equal advantages of all replies have an expected gradient
    other than 0: advantages above 0 favour tokens with low entropy after them, advantages
    below 0 favour tokens with high entropy after them.

    Args:
        advantage: float64[M], of turns.
        num_tokens: int64[M], of each turn, at least 1.
        entropy: float64[num_tokens.sum()], of the distribution of each token, nats.

    Returns:
        float64[num_tokens.sum()].

    Raises:
        ValueError: an entropy below 0.

    >>> share = by_token_entropy(np.array([3.0]), np.array([2]), np.array([0.5, 1.0]))
    >>> share  # mean .75
    array([2., 4.])
    """
    if (entropy < 0).any():
        raise ValueError(f"want entropies of at least 0, got {entropy.min()}")
    starts = np.cumsum(num_tokens) - num_tokens
    mean = np.add.reduceat(entropy, starts) / num_tokens if len(starts) else entropy
    mean = np.repeat(mean, num_tokens)
    weight = np.divide(entropy, mean, out=np.ones_like(entropy), where=mean > 0)
    return np.repeat(advantage, num_tokens) * weight


def by_value_differences(
    advantage: Floats, num_tokens: Ints, value: Floats, lambda_: float = 1.0
) -> Floats:
    """Credits tokens with the change that they make in the value of the reply so far.

        Aₖₜ = Σ_{j ≥ t} λ^{j - t} δⱼ,   δⱼ = vⱼ₊₁ - vⱼ,   vₙ₊₁ = Aₖ + v₁

    with the values v of the n tokens of the turn. The differences add up to Aₖ. With λ = 0
    a token has its own difference. With λ = 1 it has Aₖ + v₁ - vₜ: v acts as a baseline. That
    adds no bias, since vₜ depends on earlier tokens only. λ < 1 is biased by errors of the
    values. Equal values and λ = 1 give all tokens the turn's advantage.

    Args:
        advantage: float64[M], of turns.
        num_tokens: int64[M], of each turn, at least 1.
        value: float64[num_tokens.sum()], critic's value before each token.
        lambda_: λ, per token.

    Returns:
        float64[num_tokens.sum()].

    Raises:
        ValueError: λ out of range.

    >>> value = np.array([1.0, 3.0])
    >>> by_value_differences(np.array([5.0]), np.array([2]), value)
    array([5., 3.])
    >>> by_value_differences(np.array([5.0]), np.array([2]), value, lambda_=0.0)
    array([2., 3.])
    """
    check_range("lambda_", lambda_, 0, 1)
    ends = np.cumsum(num_tokens) - 1
    after = np.append(value[1:], 0.0)[: len(value)]
    after[ends] = advantage + value[ends + 1 - num_tokens]
    decay = np.full(len(value), lambda_)
    decay[ends] = 0.0
    return decayed_sums(after - value, decay)


def decayed_sums(values: Floats, decay: Floats) -> Floats:
    """Sums with a decay per step: Sₜ = xₜ + dₜ Sₜ₊₁, backwards in time.

    By doubling, as in `discounted_sums`.

    Args:
        values: float64[L], x.
        decay: float64[L], d; the last one is not used.

    >>> decayed_sums(np.array([1.0, 2.0, 4.0]), np.array([0.5, 0.0, 9.0]))
    array([2., 2., 4.])
    """
    total, factor = values.copy(), decay.copy()
    span = 1
    while span < len(total) and factor[:-span].any():
        total[:-span] += factor[:-span] * total[span:]
        factor[:-span] *= factor[span:]
        factor[-span:] = 0.0
        span *= 2
    return total
