"""Normal forms and their equilibria."""

import itertools

import numpy as np
import pytest

import arena_envs
from arena_envs.solvers import (
    mixed_equilibria,
    nash_conv,
    normal_form,
    pure_equilibria,
    solve_matrix,
)

PRISONERS = [[[3, 0], [5, 1]], [[3, 5], [0, 1]]]
PENNIES = [[[1, -1], [-1, 1]], [[-1, 1], [1, -1]]]


def rows_of(payoffs):
    """[2, m, n] as rows of pairs."""
    return np.moveaxis(np.array(payoffs, float), 0, -1).tolist()


@pytest.mark.parametrize("payoffs", [PRISONERS, PENNIES])
def test_the_plans_of_one_round_are_the_actions(payoffs, toys):
    game = toys.matrix_game(rows_of(payoffs))
    assert normal_form(game).tolist() == payoffs


def test_the_matrix_of_kuhn_poker_has_its_value():
    matrix = normal_form(arena_envs.make_game("kuhn_poker"))
    assert matrix.shape == (2, 64, 64)
    assert matrix[0] == pytest.approx(-matrix[1])
    pytest.importorskip("scipy")
    assert solve_matrix(matrix[0]).value == pytest.approx(-1 / 18)


def test_too_many_plans_are_refused():
    game = arena_envs.make_game("kuhn_poker", num_players=3)
    with pytest.raises(ValueError, match=f"{2**48} combinations .* max_profiles=10000"):
        normal_form(game)


def test_prisoners_defect_and_pennies_have_no_pure_equilibrium():
    assert pure_equilibria(PRISONERS) == [(1, 1)]
    assert pure_equilibria(PENNIES) == []


def test_pure_equilibria_of_three_players():
    """All are paid 1 if they agree: nobody leaves an agreement; one who differs joins."""
    payoffs = np.zeros((3, 2, 2, 2))
    payoffs[:, 0, 0, 0] = payoffs[:, 1, 1, 1] = 1
    assert pure_equilibria(payoffs) == [(0, 0, 0), (1, 1, 1)]


def test_pennies_are_mixed_evenly():
    ((row, column),) = mixed_equilibria(PENNIES)
    assert row == pytest.approx([0.5, 0.5])
    assert column == pytest.approx([0.5, 0.5])


def test_agreeing_on_one_of_three_has_seven_equilibria():
    """One for each set of options: all of it, with equal probabilities."""
    found = mixed_equilibria(np.array([np.eye(3), np.eye(3)]))
    supports = {tuple(np.flatnonzero(row)) for row, _ in found}
    every = [set(itertools.combinations(range(3), n)) for n in (1, 2, 3)]
    assert supports == set.union(*every)
    assert len(found) == 7


def test_random_games_have_an_odd_number_of_equilibria_and_nobody_gains(toys):
    rng = np.random.default_rng(1)
    for _ in range(30):
        payoffs = rng.normal(size=(2, 3, 4))
        game = toys.matrix_game(rows_of(payoffs), zero_sum=False)
        found = mixed_equilibria(payoffs)
        assert len(found) % 2 == 1
        for row, column in found:
            table = {(0, "row"): row.tolist(), (1, "column"): column.tolist()}
            assert nash_conv(game, table) == pytest.approx(0, abs=1e-9)
        pure = [
            (int(row.argmax()), int(col.argmax()))
            for row, col in found
            if max(row) > 0.999
        ]
        assert sorted(pure) == pure_equilibria(payoffs)


def test_what_is_no_game_of_two_is_refused():
    with pytest.raises(
        ValueError, match=r"float64\[2, m, n\], got shape \(3, 1, 1, 1\)"
    ):
        mixed_equilibria(np.zeros((3, 1, 1, 1)))
    with pytest.raises(ValueError, match=r"got shape \(2, 2\)"):
        pure_equilibria([[1, 2], [3, 4]])
    with pytest.raises(ValueError, match=r"184755 pairs .* max_supports=1000"):
        mixed_equilibria(np.zeros((2, 10, 10)), max_supports=1000)
