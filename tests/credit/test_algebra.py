"""The parts that estimators are made of: sums, temporal differences, baselines, columns."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena_credit import (
    best_of_others,
    clip_values,
    discounted_sums,
    mean_of_others,
    pools_by,
    require,
    rescaled,
    returns_to_go,
    temporal_differences,
    trajectories,
)

runs = st.lists(
    st.lists(st.floats(-9, 9), min_size=1, max_size=9), min_size=1, max_size=4
)


def left_in(drawn):
    return np.concatenate([np.arange(len(run))[::-1] for run in drawn])


@given(drawn=runs, discount=st.floats(0, 1), num_terms=st.integers(1, 12))
def test_sums_over_so_many_terms_are_those_written_out(drawn, discount, num_terms):
    expected = [
        sum(discount**j * x for j, x in enumerate(run[k : k + num_terms]))
        for run in drawn
        for k in range(len(run))
    ]
    got = discounted_sums(np.concatenate(drawn), left_in(drawn), discount, num_terms)
    np.testing.assert_allclose(got, expected, atol=1e-9)


@given(drawn=runs, num_terms=st.none() | st.integers(1, 12))
def test_sums_of_one_run_do_not_depend_on_another(drawn, num_terms):
    huge = [run if i else [1e300] * len(run) for i, run in enumerate(drawn)]
    left, rest = left_in(drawn), slice(len(drawn[0]), None)
    got = discounted_sums(np.concatenate(huge), left, 1.0, num_terms)
    expected = discounted_sums(np.concatenate(drawn), left, 1.0, num_terms)
    assert got[rest].tolist() == expected[rest].tolist()


# Values 5 6 7 of a trajectory that is cut, 8 of one that ends, 9 of one that does neither.
CUT = [(0, 0, 0, [1, 2, 3]), (1, 0, 0, [4]), (2, 0, 0, [5])]
VALUES = {
    "value": [5, 6, 7, 8, 9],
    "next_value": [np.nan, np.nan, 10, np.nan, np.nan],
    "truncated": [False, False, True, False, False],
    "terminated": [False, False, False, True, False],
}


def test_only_what_was_cut_is_worth_something_at_its_end(batch):
    """1 + 6/2 - 5, 2 + 7/2 - 6, 3 + 10/2 - 7 | 4 - 8 | 5 - 9."""
    turns = trajectories(batch(*CUT, **VALUES))
    got = temporal_differences(
        turns, turns.column("reward"), turns.column("value"), 0.5
    )
    np.testing.assert_allclose(got, [-1, -0.5, 1, -4, -4])


@given(drawn=runs, discount=st.floats(0, 1), data=st.data())
def test_summed_differences_are_lambda_and_n_step_returns_less_the_value(
    batch, drawn, discount, data
):
    """By recursion: G(λ)ₖ = rₖ + γ ((1 - λ) Vₖ₊₁ + λ G(λ)ₖ₊₁), and the n-step return."""
    size = sum(map(len, drawn))
    value = data.draw(st.lists(st.floats(-9, 9), min_size=size, max_size=size))
    lambda_, steps = data.draw(st.floats(0, 1)), data.draw(st.integers(1, 5))
    rows = [(i, 0, 0, run) for i, run in enumerate(drawn)]
    ends = np.cumsum([len(run) for run in drawn]) - 1
    cut = np.isin(np.arange(size), ends[::2])
    beyond = np.where(cut, 3.0, np.nan)
    turns = trajectories(batch(*rows, value=value, truncated=cut, next_value=beyond))
    delta = temporal_differences(
        turns, turns.column("reward"), turns.column("value"), discount
    )

    start, by_recursion, by_steps = 0, [], []
    for i, run in enumerate(drawn):
        v = [*value[start : start + len(run)], 0.0 if i % 2 else 3.0]
        g, returns = v[-1], []
        for k in reversed(range(len(run))):
            g = run[k] + discount * ((1 - lambda_) * v[k + 1] + lambda_ * g)
            returns.insert(0, g - v[k])
        by_recursion += returns
        for k in range(len(run)):
            n = min(steps, len(run) - k)
            paid = sum(discount**j * run[k + j] for j in range(n))
            by_steps.append(paid + discount**n * v[k + n] - v[k])
        start += len(run)

    got = returns_to_go(turns, delta, discount * lambda_)
    np.testing.assert_allclose(got, by_recursion, atol=1e-8)
    got = discounted_sums(delta, turns.left, discount, steps)
    np.testing.assert_allclose(got, by_steps, atol=1e-8)


def test_others_are_all_but_the_own_episode(batch):
    """Pool by game: episode 0 has 1 2 | 3, episode 1 has 4, game 1 has 9 alone."""
    turns = trajectories(
        batch((0, 0, 0, [1, 2]), (0, 0, 1, [3]), (1, 0, 0, [4]), (2, 1, 0, [9]))
    )
    pools = pools_by(turns, ("game",))
    whose, values = turns.column("episode"), turns.column("reward")
    got = mean_of_others(pools, whose, values)
    np.testing.assert_allclose(got, [4, 4, 4, 2, 0])
    got = mean_of_others(pools, whose, values, turns.first)  # the first turns alone
    np.testing.assert_allclose(got, [4, 4, 4, 2, 0])


def test_trees_are_joined_by_what_they_branched_from(batch):
    """7 → 3 → 5, 9 → 8 (not in the batch) ← 2, and 4 by itself."""
    parents = {5: -1, 3: 5, 7: 3, 9: 8, 2: 8, 4: -1}
    rows = [(episode, 0, 0, [0]) for episode in parents]
    turns = batch(*rows, parent=list(parents.values()))
    found = dict(zip(parents, turns.tree.tolist(), strict=True))
    assert found == {5: 5, 3: 5, 7: 5, 9: 8, 2: 8, 4: 4}


def test_a_long_branch_is_one_tree(batch):
    rows = [(episode, 0, 0, [0]) for episode in range(50)]
    turns = batch(*rows, parent=list(range(-1, 49)))
    assert set(turns.tree.tolist()) == {0}


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(-3, 3)), max_size=9))
def test_the_best_of_others_is_the_highest_but_one_for_the_highest(drawn):
    pool = np.array([p for p, _ in drawn], int)
    values = np.array([v for _, v in drawn], float)
    others = [
        [v for j, (q, v) in enumerate(drawn) if q == p and j != i]
        for i, (p, _) in enumerate(drawn)
    ]
    expected = [max(values, default=0) for values in others]
    assert best_of_others(values, pool).tolist() == expected


def test_pools_by_the_number_of_turns(batch):
    turns = trajectories(batch((0, 0, 0, [1, 2]), (1, 0, 0, [3]), (2, 0, 0, [4, 5])))
    pools = pools_by(turns, ("num_turns",), whole=True)
    assert pools.key.tolist() == [[1], [2]]
    assert pools.of.tolist() == [1, 1, 0, 1, 1]


def test_columns_by_the_names_that_needs_uses(batch):
    """Rows in another order than trajectories; the tokens follow the turns."""
    turns = trajectories(
        batch(
            (1, 0, 0, [4]),
            (0, 0, 0, [1, 2]),
            num_tokens=[2, 1, 3],
            mask=[True, True, False],
            tokens={"entropy": [1, 2, 3, np.nan, np.nan, np.nan]},
            rewards={"judge": [7, 8, 9]},
            stratum=[5, 6, 6],
        )
    )
    assert turns.column("stratum").tolist() == [6, 5]
    assert turns.column("rewards.judge").tolist() == [8, 7]
    assert turns.column("tokens.entropy").tolist() == [3, 1, 2]
    require(turns, "stratum", "rewards.judge", "tokens.entropy")


@pytest.mark.parametrize("name", ["value", "tokens.entropy", "rewards.judge"])
def test_a_missing_column_is_named(batch, name):
    turns = trajectories(
        batch((0, 0, 0, [1.0]), rewards={"game": [1]}, tokens={"logprob": [0]})
    )
    with pytest.raises(ValueError, match=f"want the column '{name}' in the turn batch"):
        require(turns, "reward", name)


def test_tokens_that_are_not_finite_are_named(batch):
    with pytest.raises(ValueError, match=r"got tokens\['value'\]\[0\] = inf"):
        batch((0, 0, 0, [1.0]), tokens={"value": [np.inf]})


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"truncated": None}, "want the column 'truncated' in the turn batch"),
        ({"next_value": None}, "want the column 'next_value' in the turn batch"),
        ({"next_value": [0, 0, np.nan, 0, 0]}, r"got next_value\[2\] = nan"),
        ({"next_value": [0, 0, -np.inf, 0, 0]}, r"got next_value\[2\] = -inf"),
    ],
)
def test_a_value_that_is_not_there_is_not_filled_in(batch, changed, message):
    turns = trajectories(batch(*CUT, **VALUES | changed))
    with pytest.raises(ValueError, match=message):
        temporal_differences(turns, turns.column("reward"), turns.column("value"), 0.5)


def test_a_value_after_the_end_is_wanted_only_where_something_was_cut(batch):
    turns = trajectories(batch(*CUT, value=[0] * 5, truncated=[False] * 5))
    got = temporal_differences(turns, turns.column("reward"), turns.column("value"), 1)
    assert got.tolist() == [1, 2, 3, 4, 5]


def test_scales_by_hand():
    """3 5 | 4 | 0 0: rms √17, 4, 0; std √2 (ddof 1), and none of one value or of zeros."""
    values, index = np.array([3.0, 5.0, 4.0, 0.0, 0.0]), np.array([0, 0, 1, 2, 2])
    rms = [3 / 17**0.5, 5 / 17**0.5, 1, 0, 0]
    np.testing.assert_allclose(rescaled(values, index, 3), rms)
    unbiased = rescaled(values, index, 3, ddof=1)
    np.testing.assert_allclose(unbiased[:3], [3 / 34**0.5, 5 / 34**0.5, 1])
    std = [3 / 2**0.5, 5 / 2**0.5, 0, 0, 0]
    np.testing.assert_allclose(rescaled(values, index, 3, "std", ddof=1), std)
    assert rescaled(values, index, 3, "none").tolist() == values.tolist()


def test_one_scale_for_all_is_that_of_the_batch():
    values = np.array([3.0, 5.0, 4.0])
    got = rescaled(values, np.zeros(3, int), 1, eps=1.0)
    np.testing.assert_allclose(got, values / ((50 / 3) ** 0.5 + 1))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"by": "sd"}, "want by among none, std, rms, got 'sd'"),
        ({"ddof": 2}, "want ddof between 0 and 1, got 2"),
        ({"eps": -1.0}, "want eps between 0 and inf, got -1.0"),
    ],
)
def test_a_scale_out_of_range_is_named(options, message):
    with pytest.raises(ValueError, match=message):
        rescaled(np.ones(2), np.zeros(2, int), 1, **options)


def test_bounds_may_differ_but_not_change_a_sign():
    values = np.array([-3.0, -0.5, 0.5, 7.0])
    assert clip_values(values, -1, 3).tolist() == [-1, -0.5, 0.5, 3]
    assert clip_values(values, low=-1).tolist() == [-1, -0.5, 0.5, 7]
    with pytest.raises(ValueError, match="want low between -inf and 0, got 1"):
        clip_values(values, 1, 3)
    with pytest.raises(ValueError, match="want high between 0 and inf, got -1"):
        clip_values(values, -3, -1)
