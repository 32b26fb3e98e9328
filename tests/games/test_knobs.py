"""Knobs: random play succeeds less from one value to the next."""

import itertools
import random

import pytest

from arena_envs import game_infos, make_game
from arena_envs.testing import random_episode

FAST = ("guess_number-v1", "wordle-v1")
GAMES = {info.id: make_game(info.id) for info in game_infos() if info.extra is None}
WITH_KNOBS = [id for id, game in GAMES.items() if game.knobs]
RANDOM_LAKES = {"layout": "random"}
NOTHING = 0.001  # below it, a success is not measured


def success(id, params, num_episodes):
    """Mean return of uniform random play, as a share of the range of returns."""
    game, rng, total = make_game(id, **params), random.Random(0), 0.0
    for _ in range(num_episodes):
        returns = game.returns(random_episode(game, game.initial_state(), rng)[-1][0])
        total += sum(returns) / len(returns)
    mean = total / num_episodes
    return (mean - game.min_return) / (game.max_return - game.min_return)


def check_falls(id, params, num_episodes):
    for name, values in make_game(id, **params).knobs.items():
        found = [success(id, {**params, name: v}, num_episodes) for v in values]
        for easy, hard in itertools.pairwise(found):
            assert hard < easy or easy < NOTHING, (id, name, found)


@pytest.mark.parametrize("id", FAST)
def test_random_play_succeeds_less_with_every_value(id):
    check_falls(id, {}, 400)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("id", "params"),
    [(id, {}) for id in WITH_KNOBS if id not in FAST]
    + [("frozen_lake-v1", RANDOM_LAKES)],
)
def test_random_play_succeeds_less_in_all_games(id, params):
    check_falls(id, params, 6000)


def test_at_least_six_games_declare_knobs():
    assert len({type(GAMES[id]) for id in WITH_KNOBS}) >= 6


def test_values_that_other_parameters_rule_out_are_no_knobs():
    game = make_game("guess_number", num_numbers=60, max_guesses=30)
    assert game.knobs == {"num_numbers": (50, 100)}
    most = make_game("guess_number", num_numbers=300, max_guesses=300)
    assert most.knobs == {}
    assert make_game("sokoban", level=("#####", "#@$.#", "#####")).knobs == {}
    assert make_game("frozen_lake", layout=("SG",)).knobs == {}
