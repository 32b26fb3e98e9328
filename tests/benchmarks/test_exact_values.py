"""Exact values and gradients of a table, against those of the solvers and the proofs."""

import numpy as np
import pytest

from arena_credit.proofs import ExactGame
from arena_envs import make_game
from arena_envs.solvers import complete_table, expected_returns, nash_conv
from credit_settings import PaidByRound
from tabular import ExactPolicy, Graph, TabularPolicy, with_exact_values


def random_table(game):
    table = TabularPolicy(Graph(game))
    ExactPolicy(table)  # adds all rows
    table.logits[:] = np.random.default_rng(0).normal(size=table.logits.shape)
    table.remember(np.arange(len(table.graph.rows)))
    return table


@pytest.mark.parametrize("id", ["leduc_poker", "speaker_listener"])
def test_nash_conv_and_returns_are_those_of_the_solvers(id):
    game = make_game(id)
    table = random_table(game)
    whole = complete_table(game, table.table())
    found = ExactPolicy(table)
    assert found.nash_conv() == pytest.approx(nash_conv(game, whole))
    np.testing.assert_allclose(found.returns(), expected_returns(game, whole))


@pytest.mark.parametrize(
    "game",
    [
        make_game("kuhn_poker", num_players=3),
        PaidByRound(num_cards=3, returns_type="point_difference"),
    ],
)
def test_the_gradient_is_that_of_the_lines_of_play(game):
    table = random_table(game)
    exact = ExactGame(game)
    play = exact.at(exact.policy(table.table()))
    found = ExactPolicy(table).action_values()
    for number, key in enumerate(exact.keys):
        row = table.graph.rows[key]
        mine = found.gradient[row][table.graph.legal[row]]
        np.testing.assert_allclose(
            mine, play.gradient[exact.infoset == number], atol=1e-12
        )


def test_exact_values_are_those_of_the_policy_that_played():
    """Kuhn poker at uniform play: a king that is bet into gains 2 by calling, and loses 1."""
    table = TabularPolicy(Graph(make_game("kuhn_poker")))
    played = table.play(20, 4, np.random.default_rng(0))
    turns = with_exact_values(table, played)
    row = table.graph.rows[1, (1, 2, (1,))]
    here = played.row == row
    assert here.any()
    np.testing.assert_allclose(turns.value[here], 0.5)
    expected = np.where(played.action[here] == 1, 2.0, -1.0)
    np.testing.assert_allclose(turns.action_value[here], expected)
    assert turns.rewards["judge"][here].tolist() == np.sign(expected).tolist()


def test_exact_values_count_from_the_turn_on():
    """After a round of goofspiel what was paid is neither value nor action value."""
    game = PaidByRound(num_cards=3, returns_type="point_difference")
    table = random_table(game)
    exact = ExactGame(game)
    play = exact.at(exact.policy(table.table()))
    value = {key: play.value[exact.infoset == i][0] for i, key in enumerate(exact.keys)}
    played = table.play(10, 4, np.random.default_rng(0))
    turns = with_exact_values(table, played)
    keys = list(table.graph.rows)
    np.testing.assert_allclose(turns.value, [value[keys[row]] for row in played.row])
    assert (played.paid != 0).any()
