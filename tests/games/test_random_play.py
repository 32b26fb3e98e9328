"""Ten thousand random games of every game: nothing is raised, and every game ends."""

import random

import pytest

import arena_envs
from arena_envs import registration
from arena_envs.testing import random_episode

IDS = [id for id, entry in registration._entries.items() if not entry.plugin]


@pytest.mark.slow
@pytest.mark.parametrize("id", IDS)
def test_ten_thousand_random_games_end_within_bounds(id: str) -> None:
    game, rng = arena_envs.make_game(id), random.Random(0)
    for _ in range(10_000):
        state, _ = random_episode(game, game.initial_state(), rng)[-1]
        returns = game.returns(state)
        assert game.min_return <= min(returns) <= max(returns) <= game.max_return
