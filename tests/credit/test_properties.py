"""What holds for every estimator on any batch, and for which it does not."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from arena_trainers.credit import (
    FlatPoolWarning,
    TurnBatch,
    estimate,
    estimators,
    needed_columns,
    returns_to_go,
    trajectories,
)

pytestmark = pytest.mark.filterwarnings(
    "ignore::arena_trainers.credit.FlatPoolWarning",
)
# those that need further columns have tests of their own
EVERY = [name for name in estimators() if not needed_columns(name)]
# not the released code, which compares floats, and mixes games and tokens
PAPER_FORMS = [name for name in EVERY if name != "mars_released"]
COLUMNS = ("reward", "game", "episode", "seat", "turn", "group", "num_tokens")

rewards = st.lists(
    st.integers(-8, 8).map(lambda x: x / 4), min_size=1, max_size=4
)  # some are 0
episodes = st.tuples(
    st.integers(0, 1), st.dictionaries(st.integers(0, 2), rewards, min_size=1)
)
batches = st.lists(episodes, min_size=1, max_size=6)
for_every_estimator = pytest.mark.parametrize("name", EVERY)


def build(batch, drawn, **columns):
    """A batch of drawn (game, rewards of each seat); tokens differ from turn to turn."""
    rows = [
        (episode, game, seat, paid)
        for episode, (game, seats) in enumerate(drawn)
        for seat, paid in seats.items()
    ]
    size = sum(len(paid) for *_, paid in rows)
    return batch(*rows, **{"num_tokens": 1 + np.arange(size) % 5, **columns})


def take(turns, rows):
    return TurnBatch(**{name: getattr(turns, name)[rows] for name in COLUMNS})


def advantage(name, turns, **options):
    return estimate(name, turns, **options).advantage


def same(got, expected):
    np.testing.assert_allclose(got, expected, atol=1e-8)


@for_every_estimator
@given(drawn=batches)
def test_there_is_a_finite_advantage_for_every_turn(batch, name, drawn):
    turns = build(batch, drawn)
    got = advantage(name, turns)
    assert got.shape == turns.reward.shape
    assert np.isfinite(got).all()


@for_every_estimator
@given(drawn=batches, data=st.data())
def test_row_order_carries_no_meaning(batch, name, drawn, data):
    turns = build(batch, drawn)
    order = np.array(data.draw(st.permutations(range(len(turns.reward)))))
    got = advantage(name, take(turns, order))
    assert got.tolist() == advantage(name, turns)[order].tolist()


@for_every_estimator
@given(drawn=batches, data=st.data())
def test_masked_trajectories_are_as_if_they_were_not_there(batch, name, drawn, data):
    turns = build(batch, drawn)
    whose = 3 * turns.episode + turns.seat
    kept = np.isin(whose, list(data.draw(st.sets(st.sampled_from(whose.tolist())))))
    reward = np.where(kept, turns.reward, np.nan)
    got = advantage(name, replace(turns, reward=reward, mask=kept))
    assert not got[~kept].any()
    same(got[kept], advantage(name, take(turns, kept)))


@for_every_estimator
@given(drawn=batches, data=st.data())
def test_masked_turns_are_never_read(batch, name, drawn, data):
    turns = build(batch, drawn)
    some = st.lists(
        st.booleans(), min_size=len(turns.reward), max_size=len(turns.reward)
    )
    mask = np.array(data.draw(some))
    first = replace(turns, mask=mask)
    second = replace(first, reward=np.where(mask, turns.reward, np.nan))
    got = advantage(name, second)
    assert not got[~mask].any()
    assert got.tolist() == advantage(name, first).tolist()


@for_every_estimator
@given(drawn=batches, seats=st.permutations(range(3)))
def test_seats_are_only_labels(batch, name, drawn, seats):
    if name == "mars_released":  # knows the seats 0 and 1 only
        seats = [1, 0, 2] if seats[0] else [0, 1, 2]
    turns = build(batch, drawn)
    relabelled = replace(turns, seat=np.array(seats)[turns.seat])
    same(advantage(name, relabelled), advantage(name, turns))


@for_every_estimator
@given(drawn=batches, cut=st.integers(1, 3))
def test_a_trajectory_cut_into_segments_counts_once(batch, name, drawn, cut):
    """Turns from `cut` on are an episode of their own, of the same rollout."""
    turns = build(batch, drawn)
    tail = turns.turn >= cut
    got = advantage(
        name,
        replace(
            turns,
            rollout=turns.episode,
            episode=turns.episode + 100 * tail,
            turn=turns.turn - cut * tail,
        ),
    )
    same(got, advantage(name, turns))


@pytest.mark.parametrize("name", PAPER_FORMS)
@given(drawn=batches)
def test_float32_rewards_give_the_same(batch, name, drawn):
    turns = build(batch, drawn)
    noisy = turns.reward + 0.1
    single = advantage(name, replace(turns, reward=noisy.astype(np.float32)))
    double = advantage(name, replace(turns, reward=noisy))
    np.testing.assert_allclose(single, double, atol=1e-3)


@pytest.mark.parametrize("name", PAPER_FORMS)
@given(drawn=batches, factor=st.integers(-3, 3))
def test_games_do_not_touch_each_other(batch, name, drawn, factor):
    turns = build(batch, drawn)
    own = turns.game == 0
    assume(own.any())
    other = replace(turns, reward=np.where(own, turns.reward, factor * turns.reward))
    assert advantage(name, other)[own].tolist() == advantage(name, turns)[own].tolist()
    same(advantage(name, take(turns, own)), advantage(name, turns)[own])


@pytest.mark.parametrize("name", PAPER_FORMS)
@given(drawn=batches)
def test_token_counts_change_nothing(batch, name, drawn):
    turns = build(batch, drawn)
    more = replace(turns, num_tokens=turns.num_tokens * (1 + turns.turn))
    assert advantage(name, more).tolist() == advantage(name, turns).tolist()


@pytest.mark.parametrize(
    "name", ["dr_grpo", "episode", "flow_grpo", "mars", "mars_loo", "rloo"]
)
@given(drawn=batches, bonus=st.integers(-9, 9))
def test_a_bonus_at_the_end_of_a_seats_games_changes_nothing(batch, name, drawn, bonus):
    """Leave-one-out needs something to compare with: every game is played twice."""
    turns = build(batch, drawn * 2)
    last = np.append(turns.turn[1:] == 0, True)
    more = replace(turns, reward=turns.reward + bonus * last * (turns.seat == 0))
    same(advantage(name, more), advantage(name, turns))


@given(drawn=batches, scale=st.sampled_from(["none", "std"]))
def test_mars_sums_to_zero_over_every_pool(batch, drawn, scale):
    turns = build(batch, drawn)
    pool = 3 * turns.game + turns.seat
    total = np.bincount(pool, advantage("mars", turns, scale=scale))
    same(total, np.zeros_like(total))


COMPARE = [name for name in EVERY if name not in ("mars_loo", "rae", "rloo")]


@pytest.mark.filterwarnings("default::arena_trainers.credit.FlatPoolWarning")
@pytest.mark.parametrize("rewards", [[3.0], [3.0, 3.0, 3.0]])
@pytest.mark.parametrize("name", COMPARE)
def test_a_pool_of_one_or_of_equal_returns_gives_zeros_and_a_warning(
    batch, name, rewards
):
    turns = batch(*[(i, 0, 0, [r]) for i, r in enumerate(rewards)])
    with pytest.warns(
        FlatPoolWarning, match=f"'{name}': all advantages are 0"
    ) as caught:
        got = advantage(name, turns)
    same(got, np.zeros(len(rewards)))
    assert len(caught) == 1


def test_equal_returns_up_to_rounding_have_no_scale(batch):
    """0.1 + 0.2 and 0.3 differ by 6e-17."""
    turns = batch((0, 0, 0, [0.1, 0.2]), (1, 0, 0, [0.3]))
    assert not advantage("episode", turns, eps=0.0).any()


def test_leaving_one_out_of_one_keeps_the_return_and_does_not_warn(batch):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert advantage("mars_loo", batch((0, 0, 0, [1.0, 2.0]))).tolist() == [3, 2]


@given(
    paid=st.lists(
        st.lists(st.floats(-9, 9), min_size=1, max_size=9), min_size=1, max_size=4
    ),
    discount=st.floats(0, 1),
)
def test_returns_to_go_are_the_sums_written_out(batch, paid, discount):
    turns = trajectories(batch(*[(i, 0, 0, rs) for i, rs in enumerate(paid)]))
    expected = [
        sum(discount ** (j - k) * rs[j] for j in range(k, len(rs)))
        for rs in paid
        for k in range(len(rs))
    ]
    got = returns_to_go(turns, turns.column("reward"), discount)
    np.testing.assert_allclose(got, expected, atol=1e-9)
