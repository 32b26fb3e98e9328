"""What the seats knew at their turns: keys that compare states, features for a critic."""

from collections.abc import Hashable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_envs.game import AnyGame
from arena_wrappers.episodes import Episode
from arena_wrappers.replay import turn_states


class Position(NamedTuple):
    """What a seat knew at one of its turns.

    state_key: the key of its information state. features: float32[k]. next_features: those
    after a seat's last turn, at the end of an episode that a limit cut; else None.
    """

    state_key: Hashable
    features: NDArray[np.float32]
    next_features: NDArray[np.float32] | None


def positions(episode: Episode, game: AnyGame) -> list[Position]:
    """The position of each turn of an episode, found by playing its actions again."""
    *states, end = turn_states(episode, game)
    last = {turn.seat: number for number, turn in enumerate(episode.turns)}
    return [
        Position(
            game.information_state(state, turn.seat),
            game.features(state, turn.seat),
            game.features(end, turn.seat)
            if episode.truncated and last[turn.seat] == number
            else None,
        )
        for number, (turn, state) in enumerate(zip(episode.turns, states, strict=True))
    ]
