"""Credit by what trajectories share, and by what a judge says: `salt` and `adca`."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena_credit import estimate

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")


def credit(turns, name, **options):
    return estimate(name, turns, **options).advantage


def test_salt_by_hand(batch):
    """Returns 3 0 0, mean 1: 2 -1 -1. The first two do the same in state 1 ((2 - 1)/2),
    and go on differently; the third does something else at once. Game 1 has the same
    states, and returns 5 and 1."""
    turns = batch(
        (0, 0, 0, [0, 3]),
        (1, 0, 0, [0, 0]),
        (2, 0, 0, [0]),
        (3, 1, 0, [5]),
        (4, 1, 0, [1]),
        state_key=[1, 2, 1, 2, 1, 1, 1],
        action=[0, 0, 0, 1, 1, 0, 1],
    )
    got = credit(turns, "salt", scale="none")
    assert got.tolist() == [0.5, 2, 0.5, -1, -1, 2, -2]
    root = 3**0.5  # std of 3 0 0
    got = credit(turns, "salt", eps=0.0)[:5]
    np.testing.assert_allclose(got, np.array([0.5, 2, 0.5, -1, -1]) / root)


trajectories = st.lists(
    st.tuples(
        st.integers(-4, 4),
        st.lists(
            st.tuples(st.integers(0, 2), st.integers(0, 1)), min_size=1, max_size=4
        ),
    ),
    min_size=2,
    max_size=6,
)


def graph(batch, drawn):
    """A batch of drawn (return, steps), each step a state and an action."""
    rows = [
        (i, 0, 0, [0] * (len(steps) - 1) + [paid])
        for i, (paid, steps) in enumerate(drawn)
    ]
    keys, actions = zip(*(step for _, steps in drawn for step in steps), strict=True)
    return batch(*rows, state_key=keys, action=actions)


@given(drawn=trajectories)
def test_salt_gives_a_tabular_policy_the_gradient_of_episode(batch, drawn):
    """Scores of turns with the same state and action are the same, whatever they are."""
    turns = graph(batch, drawn)
    score = np.random.default_rng(0).normal(size=(3, 2))[turns.state_key, turns.action]
    own, plain = credit(turns, "salt"), credit(turns, "episode")
    for state in range(3):
        at = turns.state_key == state
        assert (own * score)[at].sum() == pytest.approx((plain * score)[at].sum())


@given(drawn=trajectories)
def test_salt_is_episode_where_nothing_is_shared_and_0_where_all_is(batch, drawn):
    turns = graph(batch, drawn)
    size = len(turns.reward)
    columns = {"state_key": np.arange(size), "action": np.zeros(size, int)}
    rows = [(i, 0, 0, [0] * (len(s) - 1) + [paid]) for i, (paid, s) in enumerate(drawn)]
    apart = batch(*rows, **columns)
    np.testing.assert_allclose(credit(apart, "salt"), credit(apart, "episode"))
    first = batch(*rows, state_key=turns.turn, action=columns["action"])
    got = credit(first, "salt")[turns.turn == 0]
    np.testing.assert_allclose(got, 0, atol=1e-12)


LABELLED = [(0, 0, 0, [0, 0, 2]), (1, 0, 0, [0]), (2, 1, 0, [4])]
LABELS = {"judge": [1.0, 1.0, -1.0, -1.0, 1.0]}


def test_adca_by_hand(batch):
    """Outcomes 2 and 0: ±1. Labels 1 1 -1 | -1: means 1/3 and -1, their mean -1/3; squares
    from there 4/3 and 4/9 on average, variance 8/9. Less the mean, by √8/3: √2 √2 -1/√2 |
    -1/√2. Halved, the outcome at the end, summed from there. Game 1 is played once."""
    turns = batch(*LABELLED, rewards=LABELS)
    z = 2**0.5 / 4
    expected = [1 + 3 * z, 1 + z, 1 - z, -1 - z, 0]
    got = credit(turns, "adca", judge_weight=0.5, eps=0.0)
    np.testing.assert_allclose(got, expected, atol=1e-12)


def test_adca_of_turns_by_hand(batch):
    """Labels 1 1 -1 -1: mean 0, deviation 1, as they are. With the outcome at every turn:
    1/2 + 1, 1/2 + 1, -1/2 + 1 and -1/2 - 1 before summing."""
    turns = batch(*LABELLED, rewards=LABELS)
    options = {"judge_weight": 0.5, "count": "turns", "eps": 0.0}
    got = credit(turns, "adca", **options)
    np.testing.assert_allclose(got, [1.5, 1, 0.5, -1.5, 0], atol=1e-12)
    got = credit(turns, "adca", outcome="all_turns", **options)
    np.testing.assert_allclose(got, [3.5, 2, 0.5, -1.5, 0], atol=1e-12)


@pytest.mark.parametrize("options", [{"judge_weight": 0.0}, {}])
def test_adca_of_labels_that_do_not_count_is_episode(batch, options):
    """Because they weigh nothing, or because they are all alike."""
    judge = LABELS["judge"] if options else np.ones(5)
    turns = batch(*LABELLED, rewards={"judge": judge})
    expected = credit(turns, "episode", ddof=0, eps=0.0)
    np.testing.assert_allclose(credit(turns, "adca", **options), expected, atol=1e-12)


@given(scale=st.floats(0.01, 100), shift=st.floats(-5, 5))
def test_adca_asks_for_no_scale_of_labels(batch, scale, shift):
    first = batch(*LABELLED, rewards=LABELS)
    other = {"judge": scale * np.array(LABELS["judge"]) + shift}
    second = batch(*LABELLED, rewards=other)
    got = credit(second, "adca", eps=0.0)
    np.testing.assert_allclose(got, credit(first, "adca", eps=0.0), atol=1e-6)


def test_adca_of_equal_labels_adds_nothing_even_without_eps(batch):
    """Three labels of .1 are off their mean by 1e-17; returns 1 2 3 have deviation √(2/3)."""
    turns = batch(*[(i, 0, 0, [paid]) for i, paid in enumerate([1, 2, 3])])
    turns = replace(turns, rewards={"judge": [0.1, 0.1, 0.1]})
    got = credit(turns, "adca", judge_weight=1.0, eps=0.0)
    np.testing.assert_allclose(got, [-(1.5**0.5), 0, 1.5**0.5], atol=1e-12)


@pytest.mark.parametrize("count", ["trajectories", "turns"])
def test_adca_charges_every_further_turn_the_mean_label(batch, count):
    """Going on is labelled 0 and then 1.2, stopping 1, each as likely: by the sum of labels
    going on is better (gradient .05), but by those that are left of the mean it is worse."""
    rows = [(0, 0, 0, [0, 0]), (1, 0, 0, [0])]
    turns = batch(*rows, rewards={"judge": [0.0, 1.2, 1.0]})
    advantage = credit(turns, "adca", count=count)[turns.turn == 0]
    assert np.mean([0.5, -0.5] * advantage) < -0.01


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"judge_weight": -1.0}, "want judge_weight between 0 and inf, got -1.0"),
        ({"outcome": "last"}, "want outcome among last_turn, all_turns, got 'last'"),
        ({"count": "steps"}, "want count among trajectories, turns, got 'steps'"),
        ({"eps": -1.0}, "want eps between 0 and inf, got -1.0"),
    ],
)
def test_options_of_adca_out_of_range_are_named(batch, options, message):
    with pytest.raises(ValueError, match=message):
        credit(batch(*LABELLED, rewards=LABELS), "adca", **options)


@pytest.mark.parametrize(
    ("name", "columns", "missing"),
    [
        ("adca", {}, "rewards.judge"),
        ("salt", {}, "state_key"),
        ("salt", {"state_key": [0] * 5}, "action"),
    ],
)
def test_missing_columns_are_named(batch, name, columns, missing):
    with pytest.raises(ValueError, match=f"want the column '{missing}'"):
        credit(batch(*LABELLED, **columns), name)
