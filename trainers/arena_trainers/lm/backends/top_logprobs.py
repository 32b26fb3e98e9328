"""Entropies from the log-probabilities of the likeliest tokens, which engines return."""

import math
from collections.abc import Mapping

NUM_TOP = 20  # likeliest tokens that engines are asked for: the most that vLLM gives by default


def entropy_estimate(token: int, logprob: float, top: Mapping[int, float]) -> float:
    """An estimate of the entropy at a token, by the k likeliest tokens and the rest of them.

    With the probabilities p₁ ≥ … ≥ pₖ of the k likeliest tokens, and q of all others together,

        e = h                             if the token is one of the k
        e = h + log pₖ - log π(token)     if it is not
        h = -Σ p log p - q log pₖ

    Its mean is the entropy. log π(token) + e, the surprise, is a function of whether and which of
    the k was drawn: the others count as likely as the last of the k. So its mean is 0 for every
    k. Only the differences between the others are lost.

    Args:
        token: the token that was drawn.
        logprob: its log-probability, in the distribution that it was drawn from.
        top: log-probabilities of the `NUM_TOP` likeliest tokens of that distribution; vLLM adds
            the drawn one, where it is none of them.

    >>> half, quarter = math.log(0.5), math.log(0.25)
    >>> entropy_estimate(0, half, {0: half})  # the others count as likely: log 2
    0.6931471805599453
    >>> entropy_estimate(1, quarter, {0: half}) == 2 * math.log(2)
    True
    """
    likeliest = dict(top)
    if len(likeliest) > NUM_TOP:
        likeliest.pop(token, None)
    pairs = [(math.exp(number), number) for number in likeliest.values()]
    pairs = [pair for pair in pairs if pair[0] > 0]  # a cut leaves fewer
    least = min((number for _, number in pairs), default=logprob)
    others = max(1 - sum(chance for chance, _ in pairs), 0.0)
    entropy = -sum(chance * number for chance, number in pairs) - others * least
    if token not in likeliest:
        entropy += least - logprob
    return max(entropy, 0.0)
