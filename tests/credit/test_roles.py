"""Turns of two calls, enumerated: a planner chooses, a worker knows the plan and acts.

The plans pay 1 and 1/2 at once. The worker's actions pay 0 and 1 after plan 0, 0 and 3 after plan 1.
With uniform play the derivatives by the last logits are 1/4 · (1/2 + 3/2 - 1 - 1/2) for the planner, and
1/2 · 1/4 · 1 and 1/2 · 1/4 · 3 for the worker.
"""

from dataclasses import replace

import numpy as np
import pytest

from arena_credit import estimate
from arena_credit.proofs import ExactGame, expected_gradient
from arena_credit.proofs.diagnostics import diagnostic
from arena_credit.proofs.exact import ExactPlay

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
CALLS = diagnostic(
    "two_calls",
    {
        "tests": "roles",
        "about": "A planner and a worker.",
        "tree": [
            0,
            "planner",
            {"pay": 1, "then": [0, ["plan", 0], {}, {"pay": 1}]},
            {"pay": 0.5, "then": [0, ["plan", 1], {}, {"pay": 3}]},
        ],
    },
)
BY_ROLE = {"pool": ("game", "role"), "scale": "none"}


class TwoRoles(ExactPlay):
    """Batches with the role of each call."""

    def batch(self, drawn, groups=None):
        turns = super().batch(drawn, groups)
        return replace(turns, role=turns.turn, parent=None, branch=None)


@pytest.fixture(scope="module")
def play():
    game = ExactGame(CALLS)
    return TwoRoles(game, np.full(6, 0.5))


def test_the_gradient_of_the_game_is_that_by_hand(play):
    assert play.gradient[1] == pytest.approx(0.125)
    assert play.gradient[[3, 5]] == pytest.approx([0.125, 0.375])


@pytest.mark.parametrize("size", [2, 3])
def test_pools_by_role_shrink_the_gradient_of_both_roles_alike(play, size):
    """A pool of n calls of a role shrinks its gradient by 1 - 1/n, and has no other bias."""
    found = expected_gradient("mars", play, size, **BY_ROLE)
    np.testing.assert_allclose(found.mean, (1 - 1 / size) * play.gradient, atol=1e-9)


def test_a_pool_of_both_roles_is_biased(play):
    """Its factors differ: the planner's own baseline holds what its worker was paid."""
    found = expected_gradient("mars", play, 2, pool=("game",), scale="none").mean
    factors = found[[1, 3, 5]] / play.gradient[[1, 3, 5]]
    assert factors[0] != pytest.approx(factors[1], abs=0.01)


def test_at_grpo_by_state_seat_role_and_turn_has_no_bias_in_a_large_batch(play):
    pool = ("group", "seat", "role", "turn", "state_key")
    drawn = play.population(64)
    turns = play.batch(drawn)
    found = estimate("at_grpo", turns, pool=pool, discount=1.0, scale="none")
    gradient = play.summed(drawn, found.advantage) / len(drawn)
    factors = gradient[[1, 3, 5]] / play.gradient[[1, 3, 5]]
    np.testing.assert_allclose(factors, factors[0], rtol=1e-6)


def test_matpo_scales_both_roles_by_one_factor_in_one_large_group(play):
    drawn = play.population(64)
    advantage = estimate("matpo", play.batch(drawn)).advantage
    assert (advantage.reshape(-1, 2)[:, 0] == advantage.reshape(-1, 2)[:, 1]).all()
    found = play.summed(drawn, advantage)[[1, 3, 5]] / play.gradient[[1, 3, 5]]
    np.testing.assert_allclose(found, found[0], rtol=1e-6)
    assert found[0] > 0


def test_matpo_of_two_has_no_factor(play):
    """The worker's gradient is shrunk more than the planner's, as claimed of small pools."""
    found = expected_gradient("matpo", play, 2).mean / np.where(
        play.gradient, play.gradient, 1
    )
    assert found[1] != pytest.approx(found[5], abs=0.01)
