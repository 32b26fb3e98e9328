"""Entropies from the log-probabilities of the likeliest tokens, which engines return."""

import math
from collections.abc import Mapping

NUM_TOP = 20  # likeliest tokens that engines are asked for: the most that vLLM gives by default


def entropy_estimate(token: int, logprob: float, top: Mapping[int, float]) -> float:
    """An estimate of the entropy at a token, by the k likeliest tokens and the rest of them.

    With the probabilities p of the k likeliest tokens and the probability q of all others,

        e = Hₖ                            if the token is one of the k
        e = Hₖ + log q - log π(token)     if it is not
        Hₖ = -Σ p log p - q log q

    Its mean is the entropy. log π(token) + e, the surprise, is a function of whether and which of
    the k was drawn. So its mean is 0 for every k, whatever the k probabilities leave out. The
    differences between the other tokens are lost: a larger k explains more of the return.

    Args:
        token: the token that was drawn.
        logprob: its log-probability, in the distribution that it was drawn from.
        top: log-probabilities of the `NUM_TOP` likeliest tokens of that distribution; vLLM adds
            the drawn one, where it is none of them.

    >>> quarter, half = math.log(0.25), math.log(0.5)
    >>> entropy_estimate(0, half, {0: half})  # all others count as one: the entropy is log 2
    0.6931471805599453
    >>> entropy_estimate(1, quarter, {0: half}) == 2 * math.log(2)
    True
    """
    likeliest = dict(top)
    if len(likeliest) > NUM_TOP:
        likeliest.pop(token, None)
    chances = [math.exp(number) for number in likeliest.values()]
    entropy = -sum(p * math.log(p) for p in chances if p > 0)
    others = 1 - sum(chances)
    if token not in likeliest:
        others = max(
            others, math.exp(logprob)
        )  # it is one of them, in spite of rounding
    if others > 0:
        entropy -= others * math.log(others)
    if token not in likeliest:
        entropy += math.log(others) - logprob
    return max(entropy, 0.0)
