"""Best joint policies of cooperative games."""

import itertools
import random

import pytest

import arena_envs
from arena_envs.solvers import (
    expected_returns,
    iterated_best_response,
    optimal_joint_policy,
    uniform_table,
)


def signalling(toys, num_meanings, num_words):
    """Seat 0 sees what is meant and says a word; seat 1 hears the word and guesses."""

    def after(meaning, word):
        guesses = tuple((1.0, 1.0) if g == meaning else (0.0, 0.0) for g in meanings)
        return toys.Choice(1, ("heard", word), guesses)

    meanings = range(num_meanings)
    branches = tuple(
        toys.Choice(0, meaning, tuple(after(meaning, w) for w in range(num_words)))
        for meaning in meanings
    )
    chances = (1 / num_meanings,) * num_meanings
    return toys.TreeGame(
        toys.Draw(chances, branches), kind="cooperative", zero_sum=False
    )


def test_tiny_hanabi_is_worth_ten(spiel_game):
    game = spiel_game("tiny_hanabi")
    best = optimal_joint_policy(game)
    assert best.value == pytest.approx(10)
    assert expected_returns(game, best.table) == pytest.approx((10, 10))


@pytest.mark.parametrize(("num_words", "value"), [(1, 1 / 3), (2, 2 / 3), (3, 1)])
def test_as_many_meanings_get_through_as_there_are_words(num_words, value, toys):
    game = signalling(toys, 3, num_words)
    best = optimal_joint_policy(game)
    assert best.value == pytest.approx(value)
    assert expected_returns(game, best.table) == pytest.approx((value, value))
    assert set(itertools.chain(*best.table.values())) <= {0.0, 1.0}


def test_random_team_games_have_the_value_of_all_plans(toys):
    rng = random.Random(0)
    for _ in range(20):
        payoffs = [[(v := rng.random(), v) for _ in range(3)] for _ in range(4)]
        game = toys.matrix_game(payoffs, zero_sum=False)
        best = max(v for row in payoffs for v, _ in row)
        assert optimal_joint_policy(game).value == pytest.approx(best)


def test_iteration_ends_where_nobody_gains_alone(toys):
    """Two is better than one, but no seat can leave one alone."""
    game = toys.matrix_game([[(1.0, 1.0), (0.0, 0.0)], [(0.0, 0.0), (2.0, 2.0)]])
    found = {
        iterated_best_response(game, num_starts=1, seed=seed).value for seed in range(9)
    }
    assert found == {1.0, 2.0}
    assert iterated_best_response(game, num_starts=9).value == 2.0


def test_iteration_does_better_than_its_start(toys):
    game = signalling(toys, 4, 4)
    found = iterated_best_response(game, num_starts=30)
    assert found.value == pytest.approx(1)
    assert expected_returns(game, found.table)[0] == pytest.approx(1)
    assert set(found.table) == set(uniform_table(game))


def test_what_cannot_be_done_is_refused(toys):
    game = signalling(toys, 4, 4)
    with pytest.raises(
        ValueError, match=r"256 combinations .* max_plans=255; use iterated"
    ):
        optimal_joint_policy(game, max_plans=255)
    with pytest.raises(
        ValueError, match=r"want a game that pays all seats alike, .*Kuhn"
    ):
        optimal_joint_policy(arena_envs.make_game("kuhn_poker"))
    with pytest.raises(ValueError, match=r"has about 10\^\d+ combinations of plans"):
        optimal_joint_policy(arena_envs.make_game("speaker_listener"))
    with pytest.raises(ValueError, match="want num_starts of 1 or more, got 0"):
        iterated_best_response(game, num_starts=0)
