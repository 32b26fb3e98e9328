"""Equilibria by linear programming."""

import random
import sys

import numpy as np
import pytest

import arena_envs
from arena_envs.solvers import (
    CFRPlus,
    expected_returns,
    nash_conv,
    solve_matrix,
    solve_zero_sum,
)

pytest.importorskip("scipy")


def test_kuhn_poker_costs_the_first_seat_an_eighteenth():
    game = arena_envs.make_game("kuhn_poker")
    solution = solve_zero_sum(game)
    assert solution.value == pytest.approx(-1 / 18)
    assert nash_conv(game, solution.table) == pytest.approx(0, abs=1e-9)
    assert expected_returns(game, solution.table)[0] == pytest.approx(-1 / 18)


def test_leduc_poker_has_the_value_that_cfr_approaches(spiel_game):
    game = spiel_game("leduc_poker")
    solution = solve_zero_sum(game)
    assert solution.value == pytest.approx(-0.085606, abs=1e-6)
    assert nash_conv(game, solution.table) == pytest.approx(0, abs=1e-7)
    solver = CFRPlus(game)
    solver.run(1000)
    assert expected_returns(game, solver.average_policy())[0] == pytest.approx(
        solution.value, abs=1e-3
    )


def test_random_trees_are_solved(toys):
    """Two rounds of choices made without seeing each other; some leaves are chance."""
    rng = random.Random(0)

    def leaf():
        value = float(rng.randrange(-5, 6))
        return (value, -value)

    def subtree(key):
        columns = (
            toys.Draw((0.25, 0.75), (leaf(), leaf())),
            toys.Choice(0, key, (leaf(), leaf(), leaf())),
            leaf(),
        )
        return toys.Choice(1, "column", columns)

    for _ in range(20):
        game = toys.TreeGame(toys.Choice(0, "row", (subtree("a"), subtree("b"))))
        solution = solve_zero_sum(game)
        assert nash_conv(game, solution.table) == pytest.approx(0, abs=1e-8)
        returns = expected_returns(game, solution.table)
        assert returns == pytest.approx((solution.value, -solution.value))


def test_a_matrix_is_solved():
    """Hand-checked: (p, 1 - p) against both columns gives 3p - 1 = 2 - 4p."""
    solution = solve_matrix([[2, -2], [-1, 2]])
    assert solution.row == pytest.approx([3 / 7, 4 / 7])
    assert solution.column == pytest.approx([4 / 7, 3 / 7])
    assert solution.value == pytest.approx(2 / 7)


def test_random_matrices_leave_nothing_to_gain():
    rng = np.random.default_rng(0)
    for _ in range(20):
        matrix = rng.normal(size=rng.integers(1, 6, 2))
        value, row, column = solve_matrix(matrix)
        assert row.sum() == pytest.approx(1)
        assert column.sum() == pytest.approx(1)
        assert (row @ matrix).min() == pytest.approx(value)
        assert (matrix @ column).max() == pytest.approx(value)


@pytest.mark.parametrize("payoffs", [[], [1.0, 2.0], [[1.0, float("nan")]]])
def test_what_is_no_matrix_is_refused(payoffs):
    with pytest.raises(ValueError, match="want a finite matrix"):
        solve_matrix(payoffs)


@pytest.mark.parametrize("params", [{"num_players": 3}, {}])
def test_other_games_than_two_player_zero_sum_are_refused(params, toys):
    game = (
        arena_envs.make_game("kuhn_poker", **params)
        if params
        else toys.matrix_game([[(1.0, 1.0)]], zero_sum=False)
    )
    with pytest.raises(ValueError, match="want a two-player zero-sum game"):
        solve_zero_sum(game)


def test_positions_that_forget_how_they_were_reached_are_refused():
    with pytest.raises(
        ValueError, match="use minimax if the game has perfect information"
    ):
        solve_zero_sum(arena_envs.make_game("tic_tac_toe"))


def test_without_scipy_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "scipy.optimize", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[solve\]'"):
        solve_matrix([[1.0]])
