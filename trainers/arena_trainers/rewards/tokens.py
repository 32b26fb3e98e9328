"""The reward by the tokens of a reply: `length`."""

from arena_envs.game import (
    AnyGame,
    AnyState,
)
from arena_wrappers import Episode, Turn


def length(episode: Episode, turn: Turn, state: AnyState, game: AnyGame) -> float:
    """The number of tokens of the reply; of an agent's turn, those of all its calls."""
    if turn.generations:
        return float(sum(len(call.token_ids) for call in turn.generations))
    return float(len(turn.token_ids or ()))
