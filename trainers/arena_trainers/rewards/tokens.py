"""The reward by the tokens of a reply: `length`."""

from collections.abc import Sequence

from arena_trainers.rewards.calls import Call


def length(calls: Sequence[Call], *, role: str = "") -> list[float]:
    """The number of tokens of each call.

    Args:
        calls: what is paid.
        role: counts the calls of this role alone, such as `planner`: the cost of a plan.
    """
    return [
        float(len(call.generation.token_ids))
        if role in ("", call.generation.role)
        else 0.0
        for call in calls
    ]
