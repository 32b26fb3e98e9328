"""Claims are declared, and what is claimed of single estimators beside."""

from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from arena_credit import Claims, claims, estimate
from arena_credit.by_name import claims_of
from arena_credit.estimators.turn_level import mars
from arena_credit.testing import check_estimator, full_batch

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")


def test_the_released_code_knows_two_seats_and_may_swap_these():
    turns = full_batch([(0, {0: [1, 0], 1: [2]}), (0, {0: [3], 1: [0, 1], 2: [4]})])
    swapped = replace(turns, seat=np.array([1, 0, 2])[turns.seat])
    third = replace(turns, seat=np.array([2, 1, 0])[turns.seat])
    expected = estimate("mars_released", turns).advantage
    np.testing.assert_allclose(
        estimate("mars_released", swapped).advantage, expected, atol=1e-8
    )
    assert np.abs(estimate("mars_released", third).advantage - expected).max() > 0.1


def test_equal_returns_up_to_rounding_have_no_scale(batch):
    """0.1 + 0.2 and 0.3 differ by 6e-17."""
    turns = batch((0, 0, 0, [0.1, 0.2]), (1, 0, 0, [0.3]))
    assert not estimate("episode", turns, eps=0.0).advantage.any()


@pytest.mark.parametrize("value", [0.1, 1e6 + 0.1, 1e12 + 0.1])
def test_equal_returns_of_any_size_have_no_scale(batch, value):
    """The sum of ten is rounded: without care, 1e12 + .1 is off its mean by 1e-4."""
    turns = batch(*[(i, 0, 0, [value]) for i in range(10)])
    for name in ("episode", "mars", "hapo"):
        tokens = {"entropy": np.ones(10)}
        got = estimate(name, replace(turns, tokens=tokens)).advantage
        assert not got.any()


def test_mars_sums_to_zero_in_units_of_the_deviation_too():
    kept = Claims(zero_mean=("game", "seat"), singleton_pool="zero")
    evidence = check_estimator(partial(mars, scale="std"), kept, num_batches=10)
    assert evidence.found.bias_infinite == "scaled"


def test_an_estimator_that_declares_nothing_promises_nothing():
    def estimator(turns): ...

    assert claims_of(estimator) == Claims()


def test_claims_are_declared_with_the_function():
    @claims(bias_infinite="exact", zero_sum=("group",))
    def mine(turns): ...

    assert claims_of(mine) == Claims(bias_infinite="exact", zero_sum=("group",))


@pytest.mark.parametrize(
    ("promised", "message"),
    [
        (
            {"bias_two": "perfect"},
            "want bias_two among exact, scaled, .*, got 'perfect'",
        ),
        (
            {"bias_infinite": "biased"},
            "want bias_infinite among exact, scaled, .*, got 'biased'",
        ),
        (
            {"bias_shared_chance": "foo"},
            "want bias_shared_chance among exact, scaled, .*, got 'foo'",
        ),
        (
            {"singleton_pool": "one"},
            "want singleton_pool among zero, return, other, got 'one'",
        ),
        ({"zero_mean": "group"}, r"want a sequence of columns .*, got 'group'"),
    ],
)
def test_claims_that_cannot_be_are_refused(promised, message):
    with pytest.raises(ValueError, match=message):
        claims(**promised)
