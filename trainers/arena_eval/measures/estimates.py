"""Estimates over episodes with jackknife intervals, of what turns of a seat show."""

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import chain
from statistics import fmean
from typing import Any, TypeVar

from arena_envs.game import (
    AnyGame,
)
from arena_eval.intervals import Estimate, mean_interval
from arena_eval.measures.protocol import Episodes, Estimates
from arena_wrappers import Turn, turn_states

T = TypeVar("T")
BLOCKS = 100  # observations of the jackknife; further episodes share one


def estimated(
    groups: Iterable[Sequence[T]],
    statistic: Callable[[Sequence[T]], float],
    low: float = -math.inf,
    high: float = math.inf,
) -> Estimate | None:
    """A statistic of all observations, with an interval over groups; None without observations.

    Args:
        groups: the observations of each episode, in an order that does not depend on that of
            the episodes; empty ones do not count.
        statistic: of at least one observation.
        low: its least possible value.
        high: its largest possible value.
    """
    full = [group for group in groups if group]
    if not full:
        return None
    num = min(len(full), BLOCKS)
    blocks = [list(chain.from_iterable(full[i::num])) for i in range(num)]
    value = statistic(list(chain.from_iterable(blocks)))
    others = [[*blocks[:i], *blocks[i + 1 :]] for i in range(num if num > 1 else 0)]
    leave_one_out = [
        statistic([*chain.from_iterable(blocks_without)]) for blocks_without in others
    ] or [value]
    middle = fmean(leave_one_out)
    pseudo = [
        round(value + (num - 1) * (middle - statistic_without), 12)
        for statistic_without in leave_one_out
    ]
    ends = mean_interval(pseudo, min(low, *pseudo, value), max(high, *pseudo, value))
    lower, upper = max(low, min(ends[0], value)), min(high, max(ends[1], value))
    return Estimate(
        value,
        lower if math.isfinite(lower) else None,
        upper if math.isfinite(upper) else None,
        len(full),
    )


def named_estimates(**estimates: Estimate | None) -> Estimates:
    """Those that are not None, by name."""
    return {
        name: estimate for name, estimate in estimates.items() if estimate is not None
    }


def turn_observations(
    episodes: Episodes,
    game: AnyGame,
    seat: int,
    observe: Callable[[Turn, Any], T | None],
) -> list[list[T]]:
    """What is told of each turn of the seat and its state, by episode, without None."""
    return [
        [
            observation
            for turn, state in zip(
                episode.turns, turn_states(episode, game), strict=True
            )
            if turn.seat == seat and (observation := observe(turn, state)) is not None
        ]
        for episode in sorted(episodes, key=lambda one: (one.seed, one.sample))
    ]
