"""The check of a reward."""

import math
from collections.abc import Callable
from typing import Any

from arena_envs import make_game
from arena_envs.registry import broken
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
            first = reward(episode, turn, state, rules, **options)
            second = reward(episode, turn, state, rules, **options)
            for value in (first, second):
                if not isinstance(value, int | float) or not math.isfinite(value):
                    broken("finite", f"got {first!r} for turn {turn.index}")
            if first != second:
                broken("same", f"got {first!r}, then {second!r} for a turn")
