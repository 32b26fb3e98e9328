"""What the tests of bots share."""

import random
import runpy
from pathlib import Path
from types import SimpleNamespace

import pytest

import arena_envs
from arena_envs import CHANCE, TERMINAL
from arena_envs.game import sample_chance


def play_game(game, bots, seed):
    """The states of a game, from first to last."""
    rng = random.Random(seed)
    state = game.initial_state()
    states = [state]
    while (player := game.current_player(state)) != TERMINAL:
        if player == CHANCE:
            action = sample_chance(game, state, rng)
        else:
            action = bots[player](game, state, random.Random(rng.random()))
            if game.num_actions is None:  # a player may say more than the finite core
                assert game.parse(state, game.action_text(state, action)) == action
            else:
                assert action in game.legal_actions(state)
        state = game.apply(state, action)
        states.append(state)
    return states


@pytest.fixture(scope="session")
def play():
    return play_game


@pytest.fixture(scope="session")
def after():
    """Makes the state of a registered game after these texts."""

    def state_after(id, *texts, **params):
        game = arena_envs.make_game(id, **params)
        state = game.initial_state()
        for text in texts:
            state = game.apply(state, game.parse(state, text))
        return game, state

    return state_after


@pytest.fixture(scope="session")
def toys():
    """The toy games of the tests of solvers."""
    path = Path(__file__).parents[1] / "solvers" / "toys.py"
    return SimpleNamespace(**runpy.run_path(str(path)))
