"""Ten thousand random games of every game, or fewer long ones: all end, nothing is raised."""

import random

import pytest

import arena_envs
from arena_envs import registration
from arena_envs.testing import random_episode

IDS = [id for id, entry in registration._entries.items() if not entry.plugin]
NUM_GAMES, NUM_STATES = 10_000, 500_000  # whichever is reached first


@pytest.mark.slow
@pytest.mark.parametrize("id", IDS)
def test_random_games_end_within_bounds(id: str) -> None:
    game, rng, num_states = arena_envs.make_game(id), random.Random(0), 0
    for _ in range(NUM_GAMES):
        episode = random_episode(game, game.initial_state(), rng)
        returns = game.returns(episode[-1][0])
        assert game.min_return <= min(returns) <= max(returns) <= game.max_return
        num_states += len(episode)
        if num_states > NUM_STATES:
            break
