"""The spaces of a game, and a text space that is fast and takes any characters."""

import string
from typing import Any

import numpy as np
from gymnasium import spaces

from arena_envs.game import AnyGame


class AnyText(spaces.Text):
    """Every `str` of at most `max_length` characters, the empty one included.

    `gymnasium.spaces.Text` checks each character against a set (43 μs for 500
    characters); a game's text is bounded in length only. `sample` draws printable ASCII.
    """

    def __init__(self, max_length: int) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length


def make_spaces(
    game: AnyGame, max_length: int
) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """What the agents of a game see and what they play.

    Args:
        game: the rules.
        max_length: characters of an observation's text or of an utterance, at most.
    """
    shape = game.features(game.initial_state(), 0).shape
    seen: dict[str, spaces.Space[Any]] = {
        "observation": spaces.Box(-np.inf, np.inf, shape, np.float32),
        "text": AnyText(max_length),
    }
    if game.num_actions is None:
        return spaces.Dict(seen), AnyText(max_length)
    seen["action_mask"] = spaces.Box(0, 1, (game.num_actions,), np.int8)
    return spaces.Dict(seen), spaces.Discrete(game.num_actions)
