"""What holds for every estimator, plug-ins too, on any batch."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from arena_trainers.credit import (
    estimate,
    estimators,
    returns_to_go,
    trajectories,
)
from arena_trainers.credit.registry import default_options
from arena_trainers.rows import TurnRecord, turn_batch

pytestmark = pytest.mark.filterwarnings("ignore::arena_trainers.credit.FlatPoolWarning")
EVERY = estimators()
few = settings(max_examples=10)  # of each estimator, and there are many
NUMBERS = ("reward", "value", "next_value", "action_value")

rewards = st.lists(st.integers(-8, 8).map(lambda x: x / 4), min_size=1, max_size=4)
episodes = st.tuples(
    st.integers(0, 1), st.dictionaries(st.integers(0, 2), rewards, min_size=1)
)
batches = st.lists(episodes, min_size=1, max_size=6)
for_every = pytest.mark.parametrize("name", EVERY)


def same(got, expected, atol=1e-8):
    np.testing.assert_allclose(got, expected, atol=atol)


@for_every
@few
@given(drawn=batches)
def test_there_is_a_finite_advantage_for_every_turn(full, name, drawn):
    full.advantage(name, full.build(drawn))


@for_every
@few
@given(drawn=batches, data=st.data())
def test_row_order_carries_no_meaning(full, name, drawn, data):
    turns = full.build(drawn)
    order = np.array(data.draw(st.permutations(range(len(turns.reward)))))
    expected = full.advantage(name, turns)[full.tokens_of(turns, order)]
    same(full.advantage(name, full.take(turns, order)), expected, atol=1e-12)


def records(turns):
    """What processes tell each other of the turns, with episodes as this one counts them."""
    columns = (turns.game, turns.group, turns.episode, turns.seat, turns.turn)
    ends = (turns.num_tokens, turns.row_length, turns.terminated, turns.truncated)
    return [
        TurnRecord(
            game=game,
            seed=group,
            episode=episode,
            seat=seat,
            turn=turn,
            rewards={"game": reward},
            num_tokens=num,
            row_length=length,
            terminated=terminated,
            truncated=truncated,
        )
        for game, group, episode, seat, turn, reward, num, length, terminated, truncated in zip(
            *(c.tolist() for c in (*columns, turns.reward, *ends)), strict=True
        )
    ]


@for_every
@few
@given(drawn=batches, cut=st.integers(0, 5))
def test_the_number_of_processes_changes_nothing(full, name, drawn, cut):
    """The gather puts the shares one after another; each process counts from 0."""
    turns = full.build(drawn)
    first = [r for r in records(turns) if r.episode < cut]
    second = [
        r._replace(episode=r.episode - cut) for r in records(turns) if r.episode >= cut
    ]
    found = []
    for shares in ([records(turns)], [first, second]):
        gathered = turn_batch(shares, {}, ("a", "b"))
        more = {
            name: getattr(turns, name)
            for name, column in vars(gathered).items()
            if column is None and name != "game_names"
        }
        found.append(
            full.advantage(name, replace(gathered, rewards=turns.rewards, **more))
        )
    assert found[0].tolist() == found[1].tolist()


@for_every
@few
@given(drawn=batches, data=st.data())
def test_masked_turns_are_never_read(full, name, drawn, data):
    turns = full.build(drawn)
    size = len(turns.reward)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    live = np.repeat(mask, turns.num_tokens)
    first = replace(turns, mask=mask)
    hidden = replace(
        first,
        rewards={k: np.where(mask, v, np.nan) for k, v in turns.rewards.items()},
        tokens={k: np.where(live, v, np.nan) for k, v in turns.tokens.items()},
        **{k: np.where(mask, getattr(turns, k), np.nan) for k in NUMBERS},
    )
    got = full.advantage(name, hidden)
    assert got.tolist() == full.advantage(name, first).tolist()
    assert not got[~live].any()


@for_every
@few
@given(drawn=batches, data=st.data())
def test_masked_trajectories_are_as_if_they_were_not_there(full, name, drawn, data):
    turns = full.build(drawn)
    whose = 3 * turns.episode + turns.seat
    kept = np.isin(whose, list(data.draw(st.sets(st.sampled_from(whose.tolist())))))
    got = full.advantage(name, replace(turns, mask=kept))
    same(
        full.part(turns, got, kept),
        full.advantage(name, full.take(turns, np.flatnonzero(kept))),
    )


decimals = st.sampled_from([0.05, 0.1, 0.2, 1.05, -0.95, 100.1, -99.9])
in_decimals = st.lists(
    st.tuples(
        st.integers(0, 1),
        st.dictionaries(
            st.integers(0, 2), st.lists(decimals, min_size=1, max_size=2), min_size=1
        ),
    ),
    min_size=1,
    max_size=6,
)  # returns differ by 1/20 or not at all, with a discount of .95 by 1/400

FLAT = [(0, {0: paid}) for paid in ([100.1, -99.9], [0.2], [0.2], [0.1, 0.1])]
PLAIN = [
    (0, {0: [0.05, 0.05, 1.05], 1: [0.05, -0.95]}),
    (0, {0: [0.05, 0.05, -0.95], 1: [0.05, 0.05, 1.05]}),
]


def numbers_as(turns, convert):
    """The batch with all its floats converted."""
    return replace(
        turns,
        rewards={k: convert(v) for k, v in turns.rewards.items()},
        tokens={k: convert(v) for k, v in turns.tokens.items()},
        **{k: convert(getattr(turns, k)) for k in NUMBERS},
    )


def least_difference(turns):
    """By which rewards and returns-to-go differ if they do; infinite if none do."""
    live = trajectories(turns)
    reward = live.column("reward")
    apart = [reward, *(returns_to_go(live, reward, d) for d in (1.0, 0.95))]
    steps = np.concatenate([np.diff(np.sort(values)) for values in apart])
    return steps.min(initial=np.inf, where=steps > 1e-9)


@for_every
@few
@example(drawn=FLAT)
@example(drawn=PLAIN)
@given(drawn=in_decimals)
def test_float32_gives_the_same(full, name, drawn):
    """Up to 1e-6 of the largest number, in units of the least difference, which a score
    may be divided by. What is equal stays equal."""
    turns = full.build(drawn)
    turns = replace(numbers_as(turns, lambda x: 0.7 * x), reward=turns.reward)
    turns = full.paid(turns, turns.reward)
    got = full.advantage(name, numbers_as(turns, np.float32))
    largest = max(1.0, np.abs(turns.reward).max())
    within = 1e-6 * largest * (1 + 1 / least_difference(turns))
    same(got, full.advantage(name, turns), atol=within)


@for_every
@few
@given(drawn=batches, cut=st.integers(1, 3))
def test_a_trajectory_cut_into_segments_counts_once(full, name, drawn, cut):
    """Turns from `cut` on are an episode of their own, of the same rollout."""
    turns = full.build(drawn)
    tail = turns.turn >= cut
    segments = replace(
        turns,
        rollout=turns.episode,
        episode=turns.episode + 100 * tail,
        turn=turns.turn - cut * tail,
    )
    same(full.advantage(name, segments), full.advantage(name, turns))


@for_every
def test_a_batch_may_be_empty_or_masked(full, name):
    turns = full.build([(0, {0: [1.0, 2.0], 1: [3.0]})])
    result = estimate(name, replace(turns, mask=[False] * 3))
    assert not result.advantage.any()
    assert len(result.report) == 0
    nothing = estimate(name, full.take(turns, np.zeros(0, int)))
    assert nothing.advantage.shape == (0,)


@for_every
def test_nothing_is_written_into_the_batch(full, name):
    turns = full.build([(0, {0: [1.0, 2.0], 1: [3.0]}), (0, {0: [0.0], 1: [1.0]})])
    before = full.take(turns, np.arange(5))
    estimate(name, turns)
    for column in (*NUMBERS, "episode", "seat", "turn", "state_key", "truncated"):
        np.testing.assert_array_equal(getattr(turns, column), getattr(before, column))
    for part_of in ("rewards", "tokens"):
        for key, values in getattr(turns, part_of).items():
            np.testing.assert_array_equal(values, getattr(before, part_of)[key])


@pytest.mark.parametrize("discount", [-0.5, 1.5, np.nan])
@pytest.mark.parametrize("name", [n for n in EVERY if "discount" in default_options(n)])
def test_a_discount_out_of_range_is_named(full, name, discount):
    turns = full.build([(0, {0: [1.0, 2.0], 1: [3.0]})])
    message = f"want discount between 0 and 1, got {discount}"
    with pytest.raises(ValueError, match=message):
        estimate(name, turns, discount=discount)


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


@pytest.mark.parametrize("name", EVERY)
def test_options_of_another_type_are_refused_by_name(full, name):
    """Such as the text that YAML makes of 1e-6."""
    turns = full.build([(0, {0: [1.0, 2.0], 1: [3.0]}), (0, {0: [0.0], 1: [1.0]})])
    for option, default in default_options(name).items():
        wrong = [1, "no"] if isinstance(default, bool) else ["1e-6", {}, ("nope",)]
        for value in wrong:
            with pytest.raises(ValueError, match=r"want .*, got"):
                estimate(name, turns, **{option: value})
