"""What the claims of an estimator say holds for it."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from arena_trainers.credit import FlatPoolWarning, estimate, estimators
from arena_trainers.credit.claims import Claims, claims

pytestmark = pytest.mark.filterwarnings("ignore::arena_trainers.credit.FlatPoolWarning")
EVERY = estimators()
few = settings(max_examples=10)  # of each estimator, and there are many

rewards = st.lists(st.integers(-8, 8).map(lambda x: x / 4), min_size=1, max_size=4)
episodes = st.tuples(
    st.integers(0, 1), st.dictionaries(st.integers(0, 2), rewards, min_size=1)
)
batches = st.lists(episodes, min_size=1, max_size=6)


def who_claim(what):
    """The estimators that make a claim."""
    names = [name for name in EVERY if getattr(claims(name), what)]
    return pytest.mark.parametrize("name", names)


def same(got, expected, atol=1e-8):
    np.testing.assert_allclose(got, expected, atol=atol)


@who_claim("continuous")
@few
@given(drawn=batches)
def test_the_rounding_of_rewards_changes_little(full, name, drawn):
    """Off by 4e-9 each; divided by a spread that may be 1e-3."""
    turns = full.build(drawn)
    noisy = turns.reward + 0.1
    got = full.advantage(name, full.paid(turns, noisy.astype(np.float32)))
    same(got, full.advantage(name, full.paid(turns, noisy)), atol=1e-3)


@who_claim("labels")
@few
@given(drawn=batches, seats=st.permutations(range(3)))
def test_seats_are_only_labels(full, name, drawn, seats):
    turns = full.build(drawn)
    relabelled = replace(turns, seat=np.array(seats)[turns.seat])
    same(full.advantage(name, relabelled), full.advantage(name, turns))


def test_the_released_code_knows_two_seats_and_may_swap_these(full):
    turns = full.build([(0, {0: [1, 0], 1: [2]}), (0, {0: [3], 1: [0, 1], 2: [4]})])
    swapped = replace(turns, seat=np.array([1, 0, 2])[turns.seat])
    third = replace(turns, seat=np.array([2, 1, 0])[turns.seat])
    expected = full.advantage("mars_released", turns)
    same(full.advantage("mars_released", swapped), expected)
    assert np.abs(full.advantage("mars_released", third) - expected).max() > 0.1


def held_apart(full, name, turns, own, factor):
    """Other turns may be paid otherwise, or not be there."""
    assume(own.any())
    expected = full.part(turns, full.advantage(name, turns), own)
    other = full.paid(turns, np.where(own, turns.reward, factor * turns.reward))
    same(full.part(turns, full.advantage(name, other), own), expected, atol=1e-12)
    same(full.advantage(name, full.take(turns, np.flatnonzero(own))), expected)


@who_claim("games_apart")
@few
@given(drawn=batches, factor=st.integers(-3, 3))
def test_games_do_not_touch_each_other(full, name, drawn, factor):
    turns = full.build(drawn)
    held_apart(full, name, turns, turns.game == 0, factor)


@who_claim("groups_apart")
@few
@given(drawn=batches, factor=st.integers(-3, 3))
def test_groups_do_not_touch_each_other(full, name, drawn, factor):
    turns = full.build(drawn)
    held_apart(full, name, turns, turns.group == 0, factor)


@who_claim("seats_apart")
@few
@given(drawn=batches, factor=st.integers(-3, 3))
def test_seats_do_not_touch_each_other(full, name, drawn, factor):
    turns = full.build(drawn)
    held_apart(full, name, turns, turns.seat == 0, factor)


@who_claim("tokens")
@few
@given(drawn=batches)
def test_token_counts_change_nothing(full, name, drawn):
    turns = replace(full.build(drawn), tokens=None)
    more = replace(turns, num_tokens=turns.num_tokens * (1 + turns.turn))
    per_turn = estimate(name, more).advantage
    assert per_turn.tolist() == estimate(name, turns).advantage.tolist()


@who_claim("shift")
@few
@given(drawn=batches, bonus=st.integers(-9, 9))
def test_a_bonus_at_the_end_of_a_seats_games_changes_nothing(full, name, drawn, bonus):
    """Leave-one-out needs something to compare with: everything is played four times."""
    turns = full.build([x for x in drawn for _ in range(4)])
    last = np.append(turns.turn[1:] == 0, True)
    more = full.paid(turns, turns.reward + bonus * last * (turns.seat == 0))
    same(full.advantage(name, more), full.advantage(name, turns))


@who_claim("zero_sum")
@few
@given(drawn=batches)
def test_the_advantages_of_the_trajectories_of_a_pool_sum_to_zero(full, name, drawn):
    turns = full.build(drawn)
    got = estimate(name, turns).advantage
    first = turns.turn == 0
    columns = [getattr(turns, column)[first] for column in claims(name).zero_sum]
    _, pool = np.unique(np.stack(columns), axis=1, return_inverse=True)
    total = np.bincount(pool.ravel(), got[first])
    same(total, np.zeros_like(total))


@who_claim("zero_mean")
@few
@given(drawn=batches)
def test_the_advantages_of_a_pool_sum_to_zero(full, name, drawn):
    turns = full.build(drawn)
    got = estimate(name, turns).advantage
    columns = [getattr(turns, column) for column in claims(name).zero_mean]
    _, pool = np.unique(np.stack(columns), axis=1, return_inverse=True)
    total = np.bincount(pool.ravel(), got)
    same(total, np.zeros_like(total))


@pytest.mark.filterwarnings("default::arena_trainers.credit.FlatPoolWarning")
@pytest.mark.parametrize("paid_each", [[3.0], [3.0, 3.0, 3.0]])
@pytest.mark.parametrize("name", [n for n in EVERY if claims(n).lone == "zero"])
def test_a_pool_of_one_or_of_equal_returns_gives_zeros_and_a_warning(
    full, name, paid_each
):
    turns = full.build([(0, {0: [paid]}) for paid in paid_each])
    turns = replace(turns, group=turns.game)
    turns = replace(turns, rewards={**turns.rewards, "judge": 0 * turns.reward})
    with pytest.warns(
        FlatPoolWarning, match=f"'{name}': all advantages are 0"
    ) as caught:
        got = full.advantage(name, turns)
    same(got, np.zeros_like(got))
    assert len(caught) == 1


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


@pytest.mark.parametrize("name", [n for n in EVERY if claims(n).lone == "return"])
def test_leaving_one_out_of_one_keeps_the_return_and_does_not_warn(full, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = estimate(name, full.build([(0, {0: [3.0]})])).advantage
    assert got.tolist() == [3.0]


@few
@given(drawn=batches)
def test_mars_sums_to_zero_in_units_of_the_deviation_too(full, drawn):
    turns = full.build(drawn)
    pool = 3 * turns.game + turns.seat
    total = np.bincount(pool, estimate("mars", turns, scale="std").advantage)
    same(total, np.zeros_like(total))


def test_a_plugin_without_claims_promises_nothing():
    assert claims("somebody_elses") == Claims()
