"""The arrays that solvers sweep over."""

import numpy as np
import pytest

import arena_envs
from arena_envs.games.kuhn_poker import KuhnPoker
from arena_envs.solvers import (
    CFR,
    CFRPlus,
    TooLarge,
    best_response,
    expected_returns,
    nash_conv,
    uniform_table,
)
from arena_envs.solvers.tabular import MAX_TREES, Tree, game_tree


def test_equal_positions_of_tic_tac_toe_are_one_node():
    tree = game_tree(arena_envs.make_game("tic_tac_toe"))
    assert tree.num_nodes == 5478
    assert len(tree.keys) == 4520  # 958 positions are terminal


def test_edges_lead_to_later_layers_and_cover_the_tree():
    tree = game_tree(arena_envs.make_game("kuhn_poker", num_players=3))
    assert np.all(tree.target > tree.source)
    assert sorted({*tree.target.tolist(), 0}) == list(range(tree.num_nodes))
    assert [len(layer.inner) for layer in tree.layers][-1] == 0
    assert np.all(np.diff(tree.source) >= 0)


def test_an_information_state_may_lie_at_different_depths(toys):
    """Chance decides unseen whether it draws again before seat 0 guesses."""
    short = toys.Choice(0, "guess", ((3.0, -3.0), (0.0, 0.0)))
    long = toys.Choice(0, "guess", ((0.0, 0.0), (5.0, -5.0)))
    after = toys.Draw((0.5, 0.5), (long, (1.0, -1.0)))
    game = toys.TreeGame(toys.Draw((0.5, 0.5), (short, after)))
    response = best_response(game, uniform_table(game), 0)
    assert response.table == {(0, "guess"): [1.0, 0.0]}  # 3/2 + 1/4 beats 5/4 + 1/4
    assert response.value == pytest.approx(1.75)
    assert expected_returns(game, uniform_table(game))[0] == pytest.approx(1.625)


def test_information_states_that_come_before_each_other_are_refused(toys):
    end = (0.0, 0.0)
    branches = (
        toys.Choice(0, "a", (toys.Choice(0, "b", (end, end)), end)),
        toys.Choice(0, "b", (toys.Choice(0, "a", (end, end)), end)),
    )
    game = toys.TreeGame(toys.Draw((0.5, 0.5), branches))
    with pytest.raises(ValueError, match="come before each other"):
        uniform_table(game)


def test_information_states_with_different_legal_actions_are_refused(toys):
    end = (0.0, 0.0)
    branches = (toys.Choice(0, "a", (end,)), toys.Choice(0, "a", (end, end)))
    game = toys.TreeGame(toys.Draw((0.5, 0.5), branches))
    with pytest.raises(
        ValueError, match=r"want equal legal actions .*, got \[0\] and \[0, 1\]; let"
    ):
        uniform_table(game)


def test_a_table_becomes_a_vector_and_comes_back():
    tree = game_tree(arena_envs.make_game("kuhn_poker"))
    rng = np.random.default_rng(0)
    table = {key: [p := rng.random(), 1 - p] for key in tree.keys}
    assert tree.table(tree.vector(table)) == table


@pytest.mark.parametrize("row", [[0.5, 0.4], [1.5, -0.5], [float("nan"), 1.0]])
def test_rows_that_are_no_probabilities_are_refused(row):
    game = arena_envs.make_game("kuhn_poker")
    table = uniform_table(game)
    table[1, (1, 0, (0,))] = row
    with pytest.raises(ValueError, match=r"want probabilities .*\(1, 0, \(0,\)\)"):
        nash_conv(game, table)


def test_trees_are_remembered_by_what_a_game_is_and_a_few_at_most():
    game = arena_envs.make_game("tic_tac_toe")
    tree = game_tree(game)
    assert game_tree(arena_envs.make_game("tic_tac_toe")) is tree
    negative = arena_envs.make_game("tic_tac_toe", draw_return=-0.0)
    assert negative == game
    assert game_tree(negative) is not tree
    for value in range(MAX_TREES):
        game_tree(arena_envs.make_game("tic_tac_toe", draw_return=value / 10 + 0.05))
    assert game_tree(game) is not tree


def test_a_refusal_is_remembered():
    """The second time the game is not asked, which would take as long again."""
    num_asked = 0

    class Counting(KuhnPoker):
        def apply(self, state, action):
            nonlocal num_asked
            num_asked += 1
            return super().apply(state, action)

    for limit, asks in ((20, True), (20, False), (10, False), (21, True)):
        num_asked = 0
        with pytest.raises(TooLarge, match=f"more than {limit} states"):
            game_tree(Counting(), limit)
        assert (num_asked > 0) == asks


def test_a_remembered_game_is_refused_by_its_size(toys):
    game = arena_envs.make_game("kuhn_poker")
    assert Tree(game).num_nodes == game_tree(game).num_nodes == 58
    with pytest.raises(ValueError, match="has 58 states, want at most max_states=57"):
        game_tree(game, 57)
    with pytest.raises(
        ValueError, match="more than 57 states, want at most max_states=57"
    ):
        Tree(game, 57)
    assert Tree(game, 58).num_nodes == 58


def test_a_game_may_have_no_decisions_or_none_of_one_seat(toys):
    over = toys.TreeGame((1.0, -1.0))
    assert nash_conv(over, {}) == 0
    assert expected_returns(over, {}) == (1, -1)
    lone = toys.TreeGame(toys.Choice(1, "only", ((1.0, -1.0), (-2.0, 2.0))))
    for solver in (CFR(lone), CFRPlus(lone)):
        solver.run(50)
        assert expected_returns(lone, solver.average_policy())[1] > 1.9
    assert best_response(lone, uniform_table(lone), 0) == (-0.5, {})
    assert nash_conv(lone, uniform_table(lone)) == 1.5


def test_one_player_has_a_best_policy(toys):
    """CFR against nobody finds it, too."""
    branches = tuple(
        toys.Choice(0, card, ((0.0,), (float(card),))) for card in (-2, 1, 3)
    )
    game = toys.TreeGame(toys.Draw((0.5, 0.25, 0.25), branches), num_players=1)
    best = best_response(game, uniform_table(game), 0)
    assert best.value == 1
    assert best.table == {(0, -2): [1, 0], (0, 1): [0, 1], (0, 3): [0, 1]}
    solver = CFRPlus(game)
    solver.run(100)
    assert expected_returns(game, solver.average_policy())[0] > 0.99
