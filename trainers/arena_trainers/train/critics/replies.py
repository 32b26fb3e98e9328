"""Fitted action values: how likely each canonical reply was, and what one is worth above their mean.

A critic may be wrong about an action. The difference from the policy's mean still has mean 0 under the
policy, so credit that subtracts it for other turns stays unbiased:

    d(reply) = Q(s, a) - Σ p(a') Q(s, a') / Σ p(a')   for the canonical reply of a, else 0

p(a) is the probability that the policy samples the canonical reply of a, token by token. The sum is over
legal actions. Other replies count as 0, so the sum of p may be below 1.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import ArrayLike

from arena_trainers.lm.policy import LMPolicy
from arena_trainers.train.records import TurnRecord
from arena_wrappers.prompts import find_reply_format, seat_options
from arena_wrappers.records import Episode


def with_reply_probs(
    records: Sequence[TurnRecord], episodes: Sequence[Episode], policy: LMPolicy
) -> list[TurnRecord]:
    """The records with the probabilities of canonical replies, and which one was sampled.

    Args:
        records: of this process.
        episodes: of this process, to which the records refer.
        policy: which sampled the replies.
    """
    turns = [episodes[r.episode].turns[r.place] for r in records]
    choices = policy.reply_choices(turns, wraps_of(records, episodes))
    return [
        record._replace(reply_probs=choice.probs, reply_index=choice.sampled)
        for record, choice in zip(records, choices, strict=True)
    ]


def wraps_of(
    records: Sequence[TurnRecord], episodes: Sequence[Episode]
) -> list[Callable[[str], str]]:
    """For each record, the function from the text of an action to the reply that names it."""
    options = [seat_options(episodes[r.episode].prompt, r.seat) for r in records]
    return [find_reply_format(o.reply_format).wrap for o in options]


def above_mean(action_values: ArrayLike, record: TurnRecord) -> float:
    """D of the reply that was sampled.

    Args:
        action_values: float[A], Q of each legal action, in the order of `record.legal`.
        record: of the turn.

    >>> record = TurnRecord(*[0] * 6, {}, 1, 1, True, False)
    >>> above_mean([1.0, 5.0], record._replace(reply_probs=[0.6, 0.2], reply_index=1))
    3.0
    >>> above_mean([1.0, 5.0], record._replace(reply_probs=[0.6, 0.2], reply_index=-1))
    0.0
    """
    values, probs = np.asarray(action_values, np.float64), np.array(record.reply_probs)
    if record.reply_index < 0:
        return 0.0
    return float(values[record.reply_index] - probs @ values / probs.sum())
