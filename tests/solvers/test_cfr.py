"""Counterfactual regret minimisation, beside OpenSpiel's."""

import pickle

import pytest

import arena_envs
from arena_envs.solvers import (
    CFR,
    CFRPlus,
    expected_returns,
    exploitability,
    nash_conv,
    uniform_table,
)

GAMES = [
    ("kuhn_poker", {}, 100),
    ("kuhn_poker", {"players": 3}, 20),
    ("leduc_poker", {}, 2),
    ("tiny_hanabi", {}, 20),
]


@pytest.mark.parametrize("solver", [CFR, CFRPlus])
@pytest.mark.parametrize(("name", "params", "num_iterations"), GAMES)
def test_average_policies_are_openspiels(
    solver, name, params, num_iterations, spiel_game
):
    """Row by row, and so in exploitability."""
    from open_spiel.python.algorithms import cfr
    from open_spiel.python.algorithms import exploitability as theirs

    game = spiel_game(name, **params)
    ours = solver(game)
    ours.run(num_iterations)
    other = (cfr.CFRSolver if solver is CFR else cfr.CFRPlusSolver)(game.theirs)
    for _ in range(num_iterations):
        other.evaluate_and_update_policy()
    table, policy = ours.average_policy(), other.average_policy()
    for (_, key), row in table.items():
        index = policy.state_lookup[key]
        legal = policy.legal_actions_mask[index] == 1
        want = policy.action_probability_array[index][legal]
        assert row == pytest.approx(want, abs=1e-6)
    want = theirs.nash_conv(game.theirs, policy) / game.num_players
    assert exploitability(game, table) == pytest.approx(want, abs=1e-6)


def test_our_leduc_poker_goes_the_way_of_openspiels(spiel_game):
    ours, theirs = arena_envs.make_game("leduc_poker"), spiel_game("leduc_poker")
    for solver in (CFR, CFRPlus):
        solvers = solver(ours), solver(theirs)
        for num_iterations in (1, 9, 90):
            for each in solvers:
                each.run(num_iterations)
            first, second = (each.average_policy() for each in solvers)
            assert exploitability(ours, first) == pytest.approx(
                exploitability(theirs, second), abs=1e-6
            )


@pytest.mark.parametrize("solver", [CFR, CFRPlus])
def test_before_the_first_iteration_play_is_uniform(solver):
    game = arena_envs.make_game("kuhn_poker")
    assert solver(game).average_policy() == uniform_table(game)
    assert solver(game).current_policy() == uniform_table(game)


def test_kuhn_poker_is_worth_a_loss_of_an_eighteenth_to_the_first_seat():
    game = arena_envs.make_game("kuhn_poker")
    solver = CFRPlus(game)
    solver.run(2000)
    assert nash_conv(game, solver.average_policy()) < 1e-4
    first, second = expected_returns(game, solver.average_policy())
    assert first == pytest.approx(-1 / 18, abs=1e-4)
    assert first + second == pytest.approx(0)


def test_a_run_may_be_interrupted_and_pickled():
    game = arena_envs.make_game("kuhn_poker", num_players=3)
    whole, parts = CFRPlus(game), CFRPlus(game)
    whole.run(20)
    parts.run(7)
    parts = pickle.loads(pickle.dumps(parts))
    parts.run(13)
    assert parts.num_iterations == 20
    assert parts.average_policy() == whole.average_policy()


def test_a_game_too_large_is_refused():
    with pytest.raises(
        ValueError, match=r"Hanabi.*states, want at most max_states=999"
    ):
        CFR(arena_envs.make_game("mini_hanabi"), max_states=999)
