"""The check of a reward: of turns, or of calls."""

import math
from collections.abc import Callable
from typing import Any

from arena_envs import make_game
from arena_envs.registry import broken
from arena_trainers.rewards.calls import calls_of, reads_calls
from arena_wrappers import play
from arena_wrappers.play import turn_states


def check_reward(reward: Callable[..., Any], game: str, **options: Any) -> None:
    """Checks a reward in random play: a finite number, and the same for the same turn.

    Raises:
        BrokenPromise: names the first promise that it breaks.
    """
    rules = make_game(game)
    for episode in play(game, "random", range(3)):
        pairs = zip(episode.turns, turn_states(episode, rules), strict=True)
        for turn, state in pairs:
            if reads_calls(reward):
                calls = calls_of(episode, turn, state, rules)
                pays = [reward(calls, **options) for _ in range(2)]
                if [len(values) for values in pays] != [1, 1]:
                    broken("per call", f"want a number for each call, got {pays[0]!r}")
                first, second = (values[0] for values in pays)
            else:
                first, second = (
                    reward(episode, turn, state, rules, **options) for _ in range(2)
                )
            for value in (first, second):
                if not isinstance(value, int | float) or not math.isfinite(value):
                    broken("finite", f"got {first!r} for turn {turn.index}")
            if first != second:
                broken("same", f"got {first!r}, then {second!r} for a turn")
