"""The released form: its second centring, and what is known to be wrong with it."""

from dataclasses import replace

import numpy as np
import pytest

from arena_credit import FlatPoolWarning, estimate
from arena_credit.estimators.turn_level import centre_distinct

OFF = {"whiten_rewards": False, "whiten_advantages": False}
PER_GAME = {"pool": ("game",), "eps": 1e-6}


def test_distinct_values_of_a_seat_include_its_padding():
    """Rows 3 3 1 and 1 0 0 (two are padding): distinct 0 1 3, mean 4/3."""
    got = centre_distinct(np.array([3.0, 3.0, 1.0, 1.0]))
    np.testing.assert_allclose(got, [5 / 3, 5 / 3, -1 / 3, -1 / 3])


def test_values_are_distinct_beyond_rounding():
    """0.3 and 0.1 + 0.2 are one value: distinct 0 .3, mean .15."""
    got = centre_distinct(np.array([0.3, 0.1 + 0.2]))
    np.testing.assert_allclose(got, [0.15, 0.15])


def test_token_counts_are_required(batch):
    turns = batch((0, 0, 0, [3]), num_tokens=None)
    with pytest.raises(ValueError, match="want the column 'num_tokens'"):
        estimate("mars_released", turns)


def test_the_core_is_centre_then_sum(vector_batches):
    turns = vector_batches["V3"]
    core = {"pool": ("game", "seat"), "scale": "none"}
    released = estimate("mars_released", turns, advantage_norm="none", **OFF)
    expected = estimate("normalise_then_sum", turns, **core)
    np.testing.assert_allclose(released.advantage, expected.advantage, atol=1e-12)


BARE = {**OFF, "advantage_norm": "none"}


def one_turn_each(batch, rewards):
    return batch(*[(i, 0, 0, [reward]) for i, reward in enumerate(rewards)])


@pytest.mark.parametrize(
    ("norm", "best", "worst"),
    [("mean", 11, -11), ("mean_std", 11, -11), ("asym_clip", 3, -1)],
)
def test_rewards_are_normalised_as_asked(batch, norm, best, worst):
    """12 and eleven 0: mean 1, variance (121 + 11) / 11 = 12; z of the best 3.18."""
    unit = 1 if norm == "mean" else 12**0.5 + 1e-6
    for sign, extreme in ((1, best), (-1, worst)):
        turns = one_turn_each(batch, [12 * sign, *[0] * 11])
        got = estimate("mars_released", turns, reward_norm=norm, **BARE).advantage
        alone = extreme if norm == "asym_clip" else extreme / unit
        np.testing.assert_allclose(got, [alone, *[-sign / unit] * 11])


def test_equal_rewards_in_units_of_their_deviation_are_zero(batch):
    turns = one_turn_each(batch, [2, 2])
    with pytest.warns(FlatPoolWarning):
        got = estimate("mars_released", turns, reward_norm="mean_std", **BARE).advantage
    assert not got.any()


def test_rewards_and_advantages_are_clipped(batch):
    """5 5 -7 are held to 2 2 -2, sums 2 0 -2; then to 1.5."""
    turns = batch((0, 0, 0, [5, 5, -7]))
    options = {"reward_norm": "identity", "reward_clip": 2, **BARE}
    got = estimate("mars_released", turns, **options).advantage
    np.testing.assert_allclose(got, [2, 0, -2])
    got = estimate("mars_released", turns, advantage_clip=1.5, **options).advantage
    np.testing.assert_allclose(got, [1.5, 0, -1.5])


# What is known to be wrong, by how much. Each is a property that `mars` has.

SHIFTS = [
    ("episode", PER_GAME, 1.47, 1.56),
    ("mars", {}, 0.0, 0.0),
    ("mars", {"scale": "std"}, 0.0, 0.0),
    ("normalise_then_sum", {}, 3.23, 2.64),
    ("mars_released", {}, 1.92, 2.56),
    ("mars_released", OFF, 2.78, 3.41),
]


def moved(turns, changed, name, options, rows=slice(None)):
    """The largest change of an advantage among some rows."""
    before = estimate(name, turns, **options).advantage
    after = estimate(name, changed, **options).advantage
    return np.abs(after - before)[rows].max()


@pytest.mark.parametrize(("name", "options", "v1", "v2"), SHIFTS)
def test_a_bonus_at_the_end_of_a_seats_games_should_change_nothing(
    vector_batches, name, options, v1, v2
):
    for vector, size in (("V1", v1), ("V2", v2)):
        turns = vector_batches[vector]
        last = np.append(turns.turn[1:] == 0, True) & (turns.seat == 0)
        changed = replace(turns, reward=turns.reward + 7.3 * last)
        assert moved(turns, changed, name, options) == pytest.approx(size, abs=0.005)


@pytest.mark.parametrize(
    ("name", "options", "v1", "v2"),
    [
        ("episode", PER_GAME, 0.36, 0.42),
        ("mars", {}, 0.0, 0.0),
        ("normalise_then_sum", {}, 0.65, 1.16),
        ("mars_released", {}, 0.37, 0.14),
    ],
)
def test_the_other_seats_rewards_should_change_nothing(
    vector_batches, name, options, v1, v2
):
    for vector, size in (("V1", v1), ("V2", v2)):
        turns = vector_batches[vector]
        changed = replace(turns, reward=turns.reward * (1 + turns.seat))
        own = turns.seat == 0
        got = moved(turns, changed, name, options, own)
        assert got == pytest.approx(size, abs=0.005)


@pytest.mark.parametrize(
    ("name", "options", "v1", "v2"),
    [
        ("mars", {}, 0.0, 0.0),
        ("mars_released", {}, 0.45, 0.54),
        ("mars_released", OFF, 0.0, 0.0),
    ],
)
def test_token_counts_should_change_nothing(vector_batches, name, options, v1, v2):
    for vector, size in (("V1", v1), ("V2", v2)):
        turns = vector_batches[vector]
        own = (turns.episode == turns.episode[0]) & (turns.seat == 0)
        changed = replace(turns, num_tokens=turns.num_tokens * np.where(own, 3, 1))
        got = moved(turns, changed, name, options)
        assert got == pytest.approx(size, abs=0.005)


@pytest.mark.parametrize(
    ("name", "options", "size"),
    [("mars", {}, 0.0), ("mars_released", {}, 0.353), ("mars_released", OFF, 0.0)],
)
def test_another_games_rewards_should_change_nothing(
    vector_batches, name, options, size
):
    turns = vector_batches["V3"]
    changed = replace(turns, reward=turns.reward * (1 + turns.game))
    own = turns.game == 0
    got = moved(turns, changed, name, options, own)
    assert got == pytest.approx(size, abs=0.0005)


def test_nine_wins_and_a_loss_should_be_centred(batch):
    """The first centring gives .2 and -1.8; distinct -1.8 0 .2, mean -8/15, undo most of
    it. Alone, the second centring leaves 1 and -1 as they are."""
    np.testing.assert_allclose(centre_distinct(np.array([1.0] * 9 + [-1.0])).sum(), 8)
    wins = [(i, 0, 0, [1.0 if i < 9 else -1.0]) for i in range(10)]
    released = estimate("mars_released", batch(*wins), **OFF).advantage
    np.testing.assert_allclose(released, [0.2 + 8 / 15] * 9 + [-1.8 + 8 / 15])
    paper = estimate("mars", batch(*wins)).advantage
    np.testing.assert_allclose(paper, [0.2] * 9 + [-1.8])


def test_a_third_seat_should_be_centred(batch):
    rewards = {0: (1, 3), 1: (1, 3), 2: (10, 30)}
    rows = [(e, 0, seat, [rewards[seat][e]]) for e in (0, 1) for seat in rewards]
    released = estimate("mars_released", batch(*rows), **OFF).advantage
    np.testing.assert_allclose(released, [-1, -1, 10, 1, 1, 30])
    paper = estimate("mars", batch(*rows)).advantage
    np.testing.assert_allclose(paper, [-1, -1, -10, 1, 1, 10])
