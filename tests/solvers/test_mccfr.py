"""Counterfactual regret minimisation by sampling."""

import pickle

import pytest

import arena_envs
from arena_envs.solvers import MCCFR, complete_table, nash_conv


def test_more_iterations_come_nearer_to_equilibrium():
    game = arena_envs.make_game("kuhn_poker")
    solver, distances = MCCFR(game, seed=1), []
    for num_iterations in (100, 900, 9000):
        solver.run(num_iterations)
        table = complete_table(game, solver.average_policy())
        distances.append(nash_conv(game, table))
    assert distances[0] > 0.1
    assert distances[-1] < 0.03


def test_equal_seeds_give_equal_policies_and_others_do_not():
    game = arena_envs.make_game("kuhn_poker", num_players=3)

    def policy(seed):
        solver = MCCFR(game, seed)
        solver.run(10)
        solver = pickle.loads(pickle.dumps(solver))
        solver.run(10)
        return solver.average_policy()

    assert policy(0) == policy(0) != policy(1)


def test_games_too_large_to_enumerate_can_be_sampled():
    game = arena_envs.make_game("mini_hanabi", hand_size=1, max_life_tokens=1)
    solver = MCCFR(game)
    solver.run(1)
    table = solver.average_policy()
    assert solver.num_iterations == 1
    assert all(sum(row) == pytest.approx(1) for row in table.values())


def test_only_information_states_that_were_met_have_rows():
    game = arena_envs.make_game("kuhn_poker")
    solver = MCCFR(game)
    solver.run(1)
    assert 0 < len(solver.average_policy()) < 12
