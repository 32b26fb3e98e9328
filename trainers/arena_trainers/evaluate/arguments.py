"""Arguments of evaluations and tournaments, checked."""

from collections.abc import Sequence
from typing import Any

import arena_envs
from arena_envs.env import GameEnv
from arena_envs.game import AnyGame


def env_of(game: AnyGame | GameEnv | str) -> GameEnv:
    """The environment of a game that is given as an id, as rules or as environment."""
    if isinstance(game, str):
        return arena_envs.make(game)
    return game if isinstance(game, GameEnv) else GameEnv(game)


def seeds_of(seed: Any, num_episodes: Any) -> range:
    """The seeds `seed .. seed + num_episodes - 1`.

    Raises:
        ValueError: want an integer `num_episodes` of at least 1 and `seed` of at least 0.
    """
    if type(num_episodes) is not int or num_episodes < 1:
        raise ValueError(f"want num_episodes of at least 1, got {num_episodes!r}")
    if type(seed) is not int or seed < 0:
        raise ValueError(f"want a seed of at least 0, got {seed!r}")
    return range(seed, seed + num_episodes)


def checked_seats(game: AnyGame, seats: Any) -> Sequence[int]:
    """The seats that are evaluated, in ascending order; "all" means every seat.

    Raises:
        ValueError: the game lacks one of the seats, or `seats` is empty.
    """
    if isinstance(seats, str) and seats == "all":
        return range(game.num_players)
    last = game.num_players - 1
    for seat in seats:
        if type(seat) is not int or seat not in range(game.num_players):
            raise ValueError(f"want seats from 0 to {last}, got {seat!r}")
    if not seats:
        raise ValueError(f"want 'all' or seats from 0 to {last}, got none")
    return sorted(set(seats))
