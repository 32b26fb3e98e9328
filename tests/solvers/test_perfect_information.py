"""Minimax, against closed forms and brute force."""

import inspect
import random
import sys

import pytest

import arena_envs
from arena_envs.solvers import minimax


def brute_force(game, state):
    """Returns of all seats, by the definition."""
    player = game.current_player(state)
    if player == arena_envs.TERMINAL:
        return tuple(game.returns(state))
    if player == arena_envs.CHANCE:
        parts = [
            (p, brute_force(game, game.apply(state, a)))
            for a, p in game.chance_outcomes(state)
        ]
        return tuple(
            sum(p * values[seat] for p, values in parts)
            for seat in range(game.num_players)
        )
    children = [
        brute_force(game, game.apply(state, a)) for a in game.legal_actions(state)
    ]
    return max(children, key=lambda values: values[player])


def random_tree(toys, rng, height, num_players):
    if height == 0 or rng.random() < 0.1:
        value = float(rng.randrange(-3, 4))
        if num_players == 2:
            return (value, -value)
        return tuple(float(rng.randrange(100)) for _ in range(num_players))
    children = tuple(
        random_tree(toys, rng, height - 1, num_players)
        for _ in range(rng.randrange(1, 4))
    )
    if rng.random() < 0.2:
        return toys.Draw((1 / len(children),) * len(children), children)
    return toys.Choice(rng.randrange(num_players), rng.random(), children)


@pytest.mark.parametrize("num_players", [2, 3])
def test_random_trees_have_the_value_of_brute_force(num_players, toys):
    rng = random.Random(0)
    for _ in range(300):
        root = random_tree(toys, rng, 5, num_players)
        game = toys.TreeGame(
            root,
            information="perfect",
            num_players=num_players,
            zero_sum=num_players == 2,
        )
        found = minimax(game)
        want = brute_force(game, root)
        assert found.returns == pytest.approx(want)
        if game.current_player(root) >= 0:
            child = game.apply(root, found.action)
            assert brute_force(game, child) == pytest.approx(want)


def test_tic_tac_toe_is_a_draw_and_mistakes_lose():
    game = arena_envs.make_game("tic_tac_toe")
    assert minimax(game).returns == (0.0, 0.0)
    state = game.initial_state()
    for text in ("a1", "b1"):  # an edge beside the corner loses
        state = game.apply(state, game.parse(state, text))
    assert minimax(game, state).returns == (1.0, -1.0)

    state = game.initial_state()
    for text in ("a1", "b2", "a2"):
        state = game.apply(state, game.parse(state, text))
    assert minimax(game, state).returns == (0.0, 0.0)
    assert game.action_text(state, minimax(game, state).action) == "a3"  # forced


def test_small_boards_have_their_known_values():
    game = arena_envs.make_game("connect_four", rows=4, columns=4)
    assert minimax(game).returns == (0.0, 0.0)
    game = arena_envs.make_game("hex", board_size=3)
    state = game.initial_state()
    winning = {
        game.action_text(state, action)
        for action in game.legal_actions(state)
        if minimax(game, game.apply(state, action)).returns == (1.0, -1.0)
    }
    assert winning == {"c1", "a2", "b2", "c2", "a3"}


def test_draws_that_are_paid_are_no_zero_sum():
    game = arena_envs.make_game("tic_tac_toe", draw_return=0.5)
    assert minimax(game).returns == (0.5, 0.5)


def test_a_horizon_sees_wins_within_it_and_no_others():
    game = arena_envs.make_game("tic_tac_toe")
    state = game.initial_state()
    for text in ("a1", "a2", "b1", "b2"):
        state = game.apply(state, game.parse(state, text))
    assert minimax(game, state, depth=1) == ((1.0, -1.0), 2)
    state = game.apply(state, game.parse(state, "c3"))
    assert minimax(game, state, depth=1).returns == (-1.0, 1.0)
    assert minimax(game, depth=4) == ((0.0, 0.0), 0)


def test_the_end_has_its_returns_and_no_action(toys):
    game = toys.TreeGame((2.0, -2.0), information="perfect")
    assert minimax(game) == ((2.0, -2.0), None)


def test_hidden_information_and_large_games_are_refused():
    with pytest.raises(
        ValueError, match=r"perfect information, got KuhnPoker.*; use CFR"
    ):
        minimax(arena_envs.make_game("kuhn_poker"))
    game = arena_envs.make_game("tic_tac_toe")
    with pytest.raises(
        ValueError, match=r'more than 99 states.*max_states=99; .*"mcts"'
    ):
        minimax(game, max_states=99)
    with pytest.raises(ValueError, match="want a depth of 1 or more, got 0"):
        minimax(game, depth=0)


def test_a_game_that_goes_too_deep_is_refused():
    game = arena_envs.make_game("breakthrough")
    depth = len(inspect.stack())
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(depth + 100)
    try:
        with pytest.raises(ValueError, match="177 turns in an episode, want at most"):
            minimax(game)
    finally:
        sys.setrecursionlimit(limit)
