"""Numbers that rounding to float32 holds apart are taken for equal, others are not."""

from dataclasses import replace

import numpy as np
import pytest

from arena_credit import estimate, moments
from arena_credit.estimators.turn_level import centre_distinct
from arena_credit.testing import full_batch

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
ONE = np.zeros(2, int)  # both in one pool
DIVIDE = [  # by a spread of returns
    *("adca", "aepo", "at_grpo", "bnpo", "episode", "flow_grpo", "gigpo", "hapo"),
    *("matpo", "mt_grpo", "reinforce_plus_plus_baseline", "salt", "stratified_grpo"),
]


@pytest.mark.parametrize("size", [1.0, 100.0, 1e6, 1e30])
def test_a_deviation_is_held_against_the_size_of_the_values(size):
    """Values 1 and 1 + d deviate by d / √2."""
    for apart, known in ((1e-6, False), (2e-6, True)):
        std = moments(np.array([size, size * (1 + apart)]), ONE, 1).std[0]
        assert (std > 0) == known


def test_a_deviation_is_held_against_the_sizes_that_are_given():
    values, sizes = np.array([1.0, 1.001]), np.array([1e3, 1e3])
    assert moments(values, ONE, 1).std[0] == pytest.approx(0.001 / 2**0.5)
    assert moments(values, ONE, 1, sizes=sizes).std[0] == 0


def flat(dtype, scale):
    """Eight trajectories that earn .2 each, in several ways, seen once in each state."""
    paid = ([100.1, -99.9], [0.2], [0.1, 0.1], [-99.9, 100.1])
    turns = full_batch([(0, {0: list(x)}) for x in (*paid, *paid)])
    reward = (scale * turns.reward).astype(dtype)
    judge = np.full(len(reward), 0.1, dtype)
    turns = replace(turns, group=turns.game, reward=reward)
    return replace(
        turns,
        rewards={"game": reward, "judge": judge},
        state_key=np.arange(len(reward)),
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("scale", [1.0, 1e4, 1e12])
@pytest.mark.parametrize("name", DIVIDE)
def test_equal_returns_summed_from_large_rewards_have_no_scale(name, dtype, scale):
    assert not estimate(name, flat(dtype, scale)).advantage.any()


def test_small_returns_of_large_rewards_that_do_differ_have_a_scale(batch):
    turns = batch((0, 0, 0, [100.0, -99.0]), (1, 0, 0, [2.0]))
    got = estimate("episode", turns, eps=0.0).advantage
    np.testing.assert_allclose(got, [-(0.5**0.5)] * 2 + [0.5**0.5])


@pytest.mark.parametrize("size", [1e-3, 1.0, 1e5])
def test_distinct_values_are_told_apart_relative_to_their_size(size):
    """Distinct 0 1 2 of sizes, mean 1; the noise of float32 is none."""
    values = size * np.array([1.0, 1 + 1e-7, 2.0, 2 - 1e-7])
    np.testing.assert_allclose(centre_distinct(values), values - size, atol=1e-6 * size)
    apart = size * np.array([1.0, 1.001])
    np.testing.assert_allclose(centre_distinct(apart), apart - apart.sum() / 3)


def test_many_near_neighbours_are_not_one_value():
    """Steps of a fifth of what is told apart, over 2000 times that: mean 1.0005."""
    values = 1.0 + 2e-7 * np.arange(10_001)
    got = values - centre_distinct(values)
    np.testing.assert_allclose(got, 1.001, atol=2e-3)
