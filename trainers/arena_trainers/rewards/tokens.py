"""The reward by the tokens of a reply: `length`."""

from typing import Any

from arena_envs.game import AnyGame
from arena_wrappers import Episode, Turn


def length(episode: Episode, turn: Turn, state: Any, game: AnyGame) -> float:
    """The number of tokens of the reply; of an agent's turn, those of all its calls."""
    if turn.generations:
        return float(sum(len(call.token_ids) for call in turn.generations))
    return float(len(turn.token_ids or ()))
