"""From turns to tokens: the advantage of each token of a reply.

Token columns are ragged: the tokens of a turn follow those of the turn before. A policy
gradient sums advantage times score over the tokens of a turn. These scores add up to
the score of the reply, so equal advantages of all tokens are the advantage of the turn.
"""

import warnings
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
MIN_CHANCE = 1e-9  # of all other tokens; a smaller one is rounding
ROUNDED_LOG = 0.3  # nats; logits of 16 bits are rounded by as much
RARE_LOG = 12.0  # nats, -log of the probability of a token that a batch need not hold
# of `surprise_z`; right columns exceed it in less than one of 100,000 batches
LARGEST_Z = 5.0


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
        ValueError: a span other than 0 and 1, or a log-probability above 0 or an entropy below 0
            by more than rounding of 16 bits.

    >>> from arena_credit import TurnBatch, trajectories
    >>> one = dict(game=[0, 0], seat=[0, 0], turn=[0, 0], group=[0, 0], episode=[0, 1])
    >>> tokens = {"logprob": [-0.5, -1.0, -2.0], "entropy": [1.0, 1.0, 1.0]}
    >>> turns = TurnBatch(reward=[0, 1], num_tokens=[2, 1], tokens=tokens, **one)
    >>> surprises(trajectories(turns))
    array([[ 0.5],
           [-1. ]])
    """
    if not has_surprise(turns):
        return np.zeros((len(turns.row), 0))
    logprob, entropy = _logprobs_and_entropies(turns)
    for odd in np.flatnonzero(logprob > ROUNDED_LOG)[:1]:
        raise ValueError(
            f"want log-probabilities of at most 0 in tokens['logprob'], got {logprob[odd]:g}; "
            "pass logarithms of probabilities"
        )
    for odd in np.flatnonzero(entropy < -ROUNDED_LOG)[:1]:
        raise ValueError(
            f"want entropies of at least 0 in tokens['entropy'], got {entropy[odd]:g}; "
            "pass -Σ p log p of the distribution that sampled"
        )
    return _sums_by_span(turns, logprob + entropy)


def expected_squares(turns: Trajectories) -> Floats:
    """The mean squares of `surprises`, as far as a token's log-probability and entropy tell.

        E m² ≥ p (log p + H)² + (1 - p) (H - h)²,   h = (H + p log p) / (1 - p)

    of a token with the probability p: h is the mean of -log π over the other tokens. With two
    tokens this is exact. So a token of probability 0.99 tells how large the surprise of the
    other one is, which the batch need not hold. Squares of tokens add up over a turn, as each
    has mean 0 given those before it.

    Args:
        turns: the turns that count.

    Returns:
        float64[M, S], columns as those of `surprises`.

    >>> from arena_credit import TurnBatch, trajectories
    >>> one = dict(game=[0], seat=[0], turn=[0], group=[0], episode=[0], reward=[0])
    >>> p, q = 0.75, 0.25
    >>> entropy = -(p * np.log(p) + q * np.log(q))
    >>> tokens = {"logprob": [np.log(p)], "entropy": [entropy]}
    >>> square = expected_squares(trajectories(TurnBatch(num_tokens=[1], tokens=tokens, **one)))
    >>> exact = p * (np.log(p) + entropy) ** 2 + q * (np.log(q) + entropy) ** 2
    >>> bool(np.isclose(square.item(), exact))
    True
    """
    if not has_surprise(turns):
        return np.zeros((len(turns.row), 0))
    return _sums_by_span(turns, _expected_squares(*_logprobs_and_entropies(turns)))


def surprise_z(turns: Trajectories) -> float:
    """The sum of the surprise of all tokens, over its standard error; its mean is 0.

        z = S / √(max(Σ m², Σ e) + L |S| / 2),   S = Σ m

    m = log π + H is the surprise of a token, e a lower bound of its mean square
    (`expected_squares`). Σ e covers the rare alternatives to a likely token, drawn or not.
    L |S| / 2, with L = 12 nats, covers the other rare tokens, of which a batch may hold none: those
    of probability e^-L that would bring S to 0 are all absent with probability
    e^(-S / L) ≤ e^(-z² / 2). So a large z is about as rare as for a normal variable, or rarer, in
    small batches too.

    A large z says that `logprob` or `entropy` is not of the distribution that sampled. With
    log-probabilities after a temperature below 1 and entropies before it, z is above 0.

    Args:
        turns: the turns that count.

    Returns:
        z; 0 without tokens or their columns, or where all surprise is 0.

    >>> from arena_credit import TurnBatch, trajectories
    >>> rows = dict(turn=[0] * 4, episode=range(4), **{k: [0] * 4 for k in ("game", "seat", "group")})
    >>> tokens = {"logprob": np.log([0.5] * 4), "entropy": [np.log(4)] * 4}  # of two, and of four
    >>> turns = TurnBatch(reward=[0] * 4, num_tokens=[1] * 4, tokens=tokens, **rows)
    >>> round(surprise_z(trajectories(turns)), 2)  # 2.77 / √(1.92 + 6 · 2.77)
    0.64
    """
    if not has_surprise(turns):
        return 0.0
    logprob, entropy = _logprobs_and_entropies(turns)
    surprise = logprob + entropy
    total = float(surprise.sum())
    square = max(
        float(surprise @ surprise), float(_expected_squares(logprob, entropy).sum())
    )
    variance = square + RARE_LOG * abs(total) / 2
    return total / variance**0.5 if variance > 0 else 0.0


class SurpriseWarning(UserWarning):
    """The surprise of the batch does not have mean 0, so `control_variates` is biased."""


def warn_of_surprise(z: float) -> None:
    """Warns with `SurpriseWarning` where `surprise_z` is above 5 or below -5.

    The text depends on the sign of z alone, so that Python shows it once for each sign.
    """
    if abs(z) <= LARGEST_Z:
        return
    relation = "likelier" if z > 0 else "less likely"
    warnings.warn(
        f"want a mean of logprob + entropy near 0, got one that is more than {LARGEST_Z:g} standard "
        f"errors away (`report.surprise_z`): sampled tokens are {relation} than their entropies say, which "
        "biases the credit; causes are entropies before and log-probabilities after the "
        "temperature, or episodes dropped by their return; pass both columns after temperature, "
        "top-k, top-p and min-p, or set surprise=False",
        SurpriseWarning,
        stacklevel=3,
    )


def _logprobs_and_entropies(turns: Trajectories) -> tuple[Floats, Floats]:
    """The log-probabilities and entropies of the tokens of all turns that count."""
    tokens, places = turns.batch.tokens or {}, turns.token_row
    return tokens["logprob"][places], tokens["entropy"][places]


def _expected_squares(logprob: Floats, entropy: Floats) -> Floats:
    """`expected_squares` of each token."""
    logprob = np.minimum(logprob, 0.0)
    chance = np.exp(logprob)
    # p = 1 leaves no other token; rounding may leave a little of H, which is no surprise
    others = np.maximum(1 - chance, MIN_CHANCE)
    mean = np.maximum(entropy + chance * logprob, 0.0) / others
    square = chance * (logprob + entropy) ** 2 + others * (entropy - mean) ** 2
    return np.where(others > MIN_CHANCE, square, 0.0)


def has_surprise(turns: Trajectories) -> bool:
    """Whether the batch has the columns that `surprises` reads."""
    names = (turns.batch.tokens or {}).keys()
    return turns.batch.num_tokens is not None and {"logprob", "entropy"} <= names


def _sums_by_span(turns: Trajectories, of_token: Floats) -> Floats:
    """float64[M, S]: sums over the tokens of each turn, of reasoning and answer apart."""
    num, places, tokens = len(turns.row), turns.token_row, turns.batch.tokens or {}
    turn_of = np.repeat(np.arange(num), turns.column("num_tokens"))
    if "span" not in tokens:
        return np.asarray(np.bincount(turn_of, of_token, num)[:, None], np.float64)
    span = tokens["span"][places]
    for odd in np.flatnonzero((span != 0) & (span != 1))[:1]:
        raise ValueError(
            "want tokens['span'] of 0 (reasoning) or 1 (answer), got "
            f"tokens['span'][{places[odd]}] = {span[odd]:g}"
        )
    return np.stack(
        [np.bincount(turn_of, of_token * (span == kind), num) for kind in (0, 1)],
        axis=1,
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
