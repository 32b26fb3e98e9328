"""The spaces of a game, and a fast text space for all characters."""

import string
from typing import Any, Literal

import numpy as np
from gymnasium import spaces
from gymnasium.error import CustomSpaceError
from gymnasium.vector.utils import create_shared_memory

from arena_envs.game import AnyGame

MAX_TEXT = 20_000  # characters of an observation's text or of an utterance

Content = Literal["all", "features", "text"]  # of an observation


class AnyText(spaces.Text):
    """Every `str` of at most `max_length` characters, also the empty string.

    `gymnasium.spaces.Text` compares each character with a set, which takes 43 μs for 500
    characters. Here only the length is limited. `sample` draws printable ASCII.
    """

    def __init__(self, max_length: int) -> None:
        super().__init__(max_length, min_length=0, charset=string.printable)

    def contains(self, x: Any) -> bool:
        return isinstance(x, str) and len(x) <= self.max_length


@create_shared_memory.register(AnyText)
def _refuse_shared_memory(space: AnyText, n: int = 1, ctx: Any = None) -> Any:
    """Refuses: `AsyncVectorEnv` would read the text once, when made, and show it for ever.

    Raises:
        CustomSpaceError: always.
    """
    raise CustomSpaceError(
        "shared memory cannot hold the text of an observation: pass "
        "observation='features', or vector_kwargs={'shared_memory': False} to make_vec"
    )


def make_spaces(
    game: AnyGame, content: Content = "all"
) -> tuple[spaces.Space[Any], spaces.Space[Any]]:
    """The observation space and the action space of every agent of a game.

    Args:
        game: the rules.
        content: what an observation holds; see `GameEnv`.
    """
    num_actions = game.num_actions
    played: spaces.Space[Any] = AnyText(MAX_TEXT)
    if num_actions is not None:
        played = spaces.Discrete(num_actions)
    if content == "text":
        return AnyText(MAX_TEXT), played
    shape = game.features(game.initial_state(), 0).shape
    seen: dict[str, spaces.Space[Any]] = {
        "observation": spaces.Box(-np.inf, np.inf, shape, np.float32)
    }
    if content == "all":
        seen["text"] = AnyText(MAX_TEXT)
    if num_actions is not None:
        seen["action_mask"] = spaces.Box(0, 1, (num_actions,), np.int8)
    return spaces.Dict(seen), played
