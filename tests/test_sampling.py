"""Draws of chance outcomes, and random play."""

import random
from types import SimpleNamespace

import arena_envs
from arena_envs import GameEnv
from arena_envs.game import (
    CHANCE,
    draw,
    possible_outcomes,
    random_states,
    sample_chance,
)


def test_rounding_selects_the_last_outcome():
    tenths = [0.1 * i for i in range(1, 10)] + [0.9999999999999999]
    assert draw(tenths, 0.9999999999999999) == 9


def test_an_environment_and_a_search_draw_the_same():
    game = arena_envs.make_game("leduc_poker")
    for seed in range(20):
        env = GameEnv(game)
        env.reset(seed=seed)
        state, rng = game.initial_state(), random.Random(seed)
        while game.current_player(state) == CHANCE:
            state = game.apply(state, sample_chance(game, state, rng))
        assert env.game_state == state


def test_an_outcome_of_probability_0_is_not_possible():
    outcomes = [(1, 0.5), (2, 0.0), (3, 0.5)]
    game = SimpleNamespace(chance_outcomes=lambda state: outcomes)
    assert possible_outcomes(game, None) == [(1, 0.5), (3, 0.5)]


def test_random_states_end_before_the_terminal_state():
    game = arena_envs.make_game("kuhn_poker")
    states = list(random_states(game, random.Random(0)))
    assert [player for _, player in states[:2]] == [CHANCE, CHANCE]
    assert all(game.current_player(state) == player for state, player in states)
    assert {player for _, player in states[2:]} == {0, 1}
