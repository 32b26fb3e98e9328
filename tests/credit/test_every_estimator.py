"""What holds for every estimator, plug-ins too, and what its claims say holds for it.

`claims` of an estimator say what is promised; a plug-in without claims has to keep what is
tested for `EVERY`.
"""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from arena_trainers.credit import FlatPoolWarning, TurnBatch, estimate, estimators
from arena_trainers.credit.claims import claims
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


def who_claim(what):
    """The estimators that make a claim."""
    names = [name for name in EVERY if getattr(claims(name), what)]
    return pytest.mark.parametrize("name", names)


def build(batch, drawn):
    """A batch with all columns; tokens, states and values differ from turn to turn.

    Drawn are (game, rewards of each seat). Each game has two groups.
    """
    rows = [
        (episode, game, seat, paid)
        for episode, (game, seats) in enumerate(drawn)
        for seat, paid in seats.items()
    ]
    n = np.arange(sum(len(paid) for *_, paid in rows))
    num_tokens = 1 + n % 3
    t = np.arange(num_tokens.sum())
    turns = batch(*rows, num_tokens=num_tokens)
    last = np.append(turns.turn[1:] == 0, True)
    cut = last & (n % 2 == 0)
    return replace(
        turns,
        group=2 * turns.game + turns.episode % 2,
        rewards={"game": turns.reward, "judge": n % 2 - 0.5},
        team=turns.seat % 2,
        stratum=turns.episode % 2,
        state_key=n % 2,
        action=n % 3 // 2,
        parent=np.full(len(n), -1),
        branch=np.zeros(len(n), int),
        terminated=last & ~cut,
        truncated=cut,
        value=n * 0.25 % 2,
        next_value=n * 0.125,
        action_value=n * 0.5 % 2,
        row_length=num_tokens + 4,
        tokens={"entropy": t * 0.375 % 2, "value": t * 0.25 % 3, "logprob": -(t % 2)},
    )


def tokens_of(turns, rows):
    """Where the tokens of some rows are."""
    ends = np.cumsum(turns.num_tokens)
    parts = [np.arange(ends[r] - turns.num_tokens[r], ends[r]) for r in rows]
    return np.concatenate([np.zeros(0, int), *parts])


def take(turns, rows):
    """The batch of some rows, in their order."""
    columns = {}
    for name, column in vars(turns).items():
        if name == "tokens":
            places = tokens_of(turns, rows)
            columns[name] = {k: v[places] for k, v in column.items()}
        elif name == "rewards":
            columns[name] = {k: v[rows] for k, v in column.items()}
        elif isinstance(column, np.ndarray) and name != "order":
            columns[name] = column[rows]
    return TurnBatch(**columns)


def paid(turns, reward):
    """The batch with other rewards, in their part, too."""
    return replace(turns, reward=reward, rewards={**turns.rewards, "game": reward})


def advantage(name, turns):
    """Advantages per token, whether the estimator gives one per turn or per token."""
    got = estimate(name, turns).advantage
    assert np.isfinite(got).all()
    if got.shape == turns.reward.shape:
        return np.repeat(got, turns.num_tokens)
    assert got.shape == (turns.num_tokens.sum(),)
    return got


def part(turns, advantages, rows):
    return advantages[tokens_of(turns, np.flatnonzero(rows))]


def same(got, expected, atol=1e-8):
    np.testing.assert_allclose(got, expected, atol=atol)


@for_every
@few
@given(drawn=batches)
def test_there_is_a_finite_advantage_for_every_turn(batch, name, drawn):
    advantage(name, build(batch, drawn))


@for_every
@few
@given(drawn=batches, data=st.data())
def test_row_order_carries_no_meaning(batch, name, drawn, data):
    turns = build(batch, drawn)
    order = np.array(data.draw(st.permutations(range(len(turns.reward)))))
    expected = advantage(name, turns)[tokens_of(turns, order)]
    same(advantage(name, take(turns, order)), expected, atol=1e-12)


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
def test_the_number_of_processes_changes_nothing(batch, name, drawn, cut):
    """The gather puts the shares one after another; each process counts from 0."""
    turns = build(batch, drawn)
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
        found.append(advantage(name, replace(gathered, rewards=turns.rewards, **more)))
    assert found[0].tolist() == found[1].tolist()


@for_every
@few
@given(drawn=batches, data=st.data())
def test_masked_turns_are_never_read(batch, name, drawn, data):
    turns = build(batch, drawn)
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
    got = advantage(name, hidden)
    assert got.tolist() == advantage(name, first).tolist()
    assert not got[~live].any()


@for_every
@few
@given(drawn=batches, data=st.data())
def test_masked_trajectories_are_as_if_they_were_not_there(batch, name, drawn, data):
    turns = build(batch, drawn)
    whose = 3 * turns.episode + turns.seat
    kept = np.isin(whose, list(data.draw(st.sets(st.sampled_from(whose.tolist())))))
    got = advantage(name, replace(turns, mask=kept))
    same(part(turns, got, kept), advantage(name, take(turns, np.flatnonzero(kept))))


@for_every
@few
@given(drawn=batches)
def test_float32_gives_the_same(batch, name, drawn):
    turns = build(batch, drawn)
    single = replace(
        turns,
        rewards={k: v.astype(np.float32) for k, v in turns.rewards.items()},
        tokens={k: v.astype(np.float32) for k, v in turns.tokens.items()},
        **{k: getattr(turns, k).astype(np.float32) for k in NUMBERS},
    )
    same(advantage(name, single), advantage(name, turns), atol=1e-6)


@who_claim("continuous")
@few
@given(drawn=batches)
def test_the_rounding_of_rewards_changes_little(batch, name, drawn):
    """Off by 4e-9 each; divided by a spread that may be 1e-3."""
    turns = build(batch, drawn)
    noisy = turns.reward + 0.1
    got = advantage(name, paid(turns, noisy.astype(np.float32)))
    same(got, advantage(name, paid(turns, noisy)), atol=1e-3)


@who_claim("labels")
@few
@given(drawn=batches, seats=st.permutations(range(3)))
def test_seats_are_only_labels(batch, name, drawn, seats):
    turns = build(batch, drawn)
    relabelled = replace(turns, seat=np.array(seats)[turns.seat])
    same(advantage(name, relabelled), advantage(name, turns))


def test_the_released_code_knows_two_seats_and_may_swap_these(batch):
    turns = build(batch, [(0, {0: [1, 0], 1: [2]}), (0, {0: [3], 1: [0, 1], 2: [4]})])
    swapped = replace(turns, seat=np.array([1, 0, 2])[turns.seat])
    third = replace(turns, seat=np.array([2, 1, 0])[turns.seat])
    expected = advantage("mars_released", turns)
    same(advantage("mars_released", swapped), expected)
    assert np.abs(advantage("mars_released", third) - expected).max() > 0.1


def held_apart(name, turns, own, factor):
    """Other turns may be paid otherwise, or not be there."""
    assume(own.any())
    expected = part(turns, advantage(name, turns), own)
    other = paid(turns, np.where(own, turns.reward, factor * turns.reward))
    same(part(turns, advantage(name, other), own), expected, atol=1e-12)
    same(advantage(name, take(turns, np.flatnonzero(own))), expected)


@who_claim("games_apart")
@few
@given(drawn=batches, factor=st.integers(-3, 3))
def test_games_do_not_touch_each_other(batch, name, drawn, factor):
    turns = build(batch, drawn)
    held_apart(name, turns, turns.game == 0, factor)


@who_claim("groups_apart")
@few
@given(drawn=batches, factor=st.integers(-3, 3))
def test_groups_do_not_touch_each_other(batch, name, drawn, factor):
    turns = build(batch, drawn)
    held_apart(name, turns, turns.group == 0, factor)


@who_claim("seats_apart")
@few
@given(drawn=batches, factor=st.integers(-3, 3))
def test_seats_do_not_touch_each_other(batch, name, drawn, factor):
    turns = build(batch, drawn)
    held_apart(name, turns, turns.seat == 0, factor)


@who_claim("tokens")
@few
@given(drawn=batches)
def test_token_counts_change_nothing(batch, name, drawn):
    turns = replace(build(batch, drawn), tokens=None)
    more = replace(turns, num_tokens=turns.num_tokens * (1 + turns.turn))
    per_turn = estimate(name, more).advantage
    assert per_turn.tolist() == estimate(name, turns).advantage.tolist()


@who_claim("shift")
@few
@given(drawn=batches, bonus=st.integers(-9, 9))
def test_a_bonus_at_the_end_of_a_seats_games_changes_nothing(batch, name, drawn, bonus):
    """Leave-one-out needs something to compare with: everything is played four times."""
    turns = build(batch, [x for x in drawn for _ in range(4)])
    last = np.append(turns.turn[1:] == 0, True)
    more = paid(turns, turns.reward + bonus * last * (turns.seat == 0))
    same(advantage(name, more), advantage(name, turns))


@who_claim("zero_mean")
@few
@given(drawn=batches)
def test_the_advantages_of_a_pool_sum_to_zero(batch, name, drawn):
    turns = build(batch, drawn)
    got = estimate(name, turns).advantage
    columns = [getattr(turns, column) for column in claims(name).zero_mean]
    _, pool = np.unique(np.stack(columns), axis=1, return_inverse=True)
    total = np.bincount(pool.ravel(), got)
    same(total, np.zeros_like(total))


@pytest.mark.filterwarnings("default::arena_trainers.credit.FlatPoolWarning")
@pytest.mark.parametrize("name", [n for n in EVERY if claims(n).lone == "zero"])
def test_a_pool_of_one_gives_zeros_and_a_warning(batch, name):
    with pytest.warns(
        FlatPoolWarning, match=f"'{name}': all advantages are 0"
    ) as caught:
        got = advantage(name, build(batch, [(0, {0: [3.0]})]))
    same(got, np.zeros_like(got))
    assert len(caught) == 1


@pytest.mark.parametrize("name", [n for n in EVERY if claims(n).lone == "return"])
def test_leaving_one_out_of_one_keeps_the_return_and_does_not_warn(batch, name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        got = estimate(name, build(batch, [(0, {0: [3.0]})])).advantage
    assert got.tolist() == [3.0]


@for_every
def test_a_batch_may_be_empty_or_masked(batch, name):
    turns = build(batch, [(0, {0: [1.0, 2.0], 1: [3.0]})])
    result = estimate(name, replace(turns, mask=[False] * 3))
    assert not result.advantage.any()
    assert len(result.report) == 0
    nothing = estimate(name, take(turns, np.zeros(0, int)))
    assert nothing.advantage.shape == (0,)


@for_every
def test_nothing_is_written_into_the_batch(batch, name):
    turns = build(batch, [(0, {0: [1.0, 2.0], 1: [3.0]}), (0, {0: [0.0], 1: [1.0]})])
    before = take(turns, np.arange(5))
    estimate(name, turns)
    for column in (*NUMBERS, "episode", "seat", "turn", "state_key", "truncated"):
        np.testing.assert_array_equal(getattr(turns, column), getattr(before, column))
    for part_of in ("rewards", "tokens"):
        for key, values in getattr(turns, part_of).items():
            np.testing.assert_array_equal(values, getattr(before, part_of)[key])
