"""The spaces of a game, and a fast text space for all characters."""

import string
from typing import Any

import numpy as np
from gymnasium import spaces

from arena_envs.game import AnyGame

MAX_TEXT = 20_000  # characters of an observation's text or of an utterance


class AnyText(spaces.Text):
    """Every `str` of at most `max_length` characters, also the empty string.

    `gymnasium.spaces.Text` compares each character with a set, which takes 43 μs for 500
    characters. Here only the length is limited. `sample` draws printable ASCII.
    """

    def __init__(self, max_length: int) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length


def make_spaces(game: AnyGame) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """The observation space and the action space of every agent of a game."""
    shape = game.features(game.initial_state(), 0).shape
    seen: dict[str, spaces.Space[Any]] = {
        "observation": spaces.Box(-np.inf, np.inf, shape, np.float32),
        "text": AnyText(MAX_TEXT),
    }
    if game.num_actions is None:
        return spaces.Dict(seen), AnyText(MAX_TEXT)
    seen["action_mask"] = spaces.Box(0, 1, (game.num_actions,), np.int8)
    return spaces.Dict(seen), spaces.Discrete(game.num_actions)
