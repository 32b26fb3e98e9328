"""Every estimator on one batch by hand, what it reduces to, and what it refuses."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena_credit import estimate, estimator_names

OFF = {"whiten_rewards": False, "whiten_advantages": False}
A, B = 1 / (2**0.5 + 1e-4), 0.5 / (0.5**0.5 + 1e-4)

# three seats, trajectories of 1 to 3 turns, turns without reward, a game played once
HAND = [
    (0, 0, 0, [0, 0, 3]),
    (0, 0, 1, [1, 0]),
    (0, 0, 2, [2]),
    (1, 0, 0, [1]),
    (1, 0, 1, [0, 0, 0]),
    (1, 0, 2, [0, 4]),
    (2, 1, 0, [5, 0]),
]


def check(batch, expected, name, **options):
    got = estimate(name, batch(*HAND), **options).advantage
    np.testing.assert_allclose(got, np.concatenate(expected), atol=1e-9)


def test_mars_by_hand(batch):
    """Returns-to-go of seat 0: 3 3 3 and 1, mean 2.5; of seat 1: 1 0 and 0 0 0, mean .2;
    of seat 2: 2 and 4 4, mean 10/3; in game 1: 5 0, mean 2.5."""
    seat2 = [-4 / 3], [2 / 3] * 2
    first = [0.5] * 3, [0.8, -0.2], seat2[0]
    second = [-1.5], [-0.2] * 3, seat2[1]
    check(batch, [*first, *second, [2.5, -2.5]], "mars")


def test_mars_of_episode_returns_by_hand(batch):
    """Episode returns of seat 0: 3, 1, mean 2; seat 1: 1, 0, mean .5; seat 2: 2, 4, mean 3;
    game 1: 5."""
    first = [1] * 3, [0.5, -0.5], [-1]
    second = [-1], [-0.5] * 3, [1, 1]
    check(batch, [*first, *second, [0, -5]], "mars", baseline="episode_returns")


def test_mars_loo_by_hand(batch):
    """Means of the other episode: seat 0: 1 | 3, seat 1: 0 | .5, seat 2: 4 | 2. Game 1 has
    no other episode, and keeps its returns."""
    first = [2] * 3, [1, 0], [-2]
    second = [-2], [-0.5] * 3, [2, 2]
    check(batch, [*first, *second, [5, 0]], "mars_loo")


def test_mars_loo_leaves_out_all_seats_of_the_own_episode(batch):
    """One pool per game: episode 0 has 3 3 3, 1 0, 2, mean 2; episode 1 has 1, 0 0 0, 4 4,
    mean 1.5: each is the other's baseline."""
    first = [1.5] * 3, [-0.5, -1.5], [0.5]
    second = [-1], [-2] * 3, [2, 2]
    check(batch, [*first, *second, [5, 0]], "mars_loo", pool=("game",))


def test_mars_loo_leaves_out_all_seats_of_the_own_rollout(batch):
    """Episodes 0 and 1 are segments of one game: 1 then 2 for seat 0, 10 for seat 1. Its
    returns 3 2 10 have mean 5, and the baseline 100; those of the other have 5."""
    turns = batch((0, 0, 0, [1]), (1, 0, 0, [2]), (1, 0, 1, [10]), (2, 0, 0, [100]))
    turns = replace(turns, rollout=[0, 0, 0, 1])
    got = estimate("mars_loo", turns, pool=("game",)).advantage
    assert got.tolist() == [-97, -98, -90, 95]


def test_mars_loo_of_episode_returns_by_hand(batch):
    """Returns of the other episode: seat 0: 1 | 3, seat 1: 0 | 1, seat 2: 4 | 2."""
    first = [2] * 3, [1, 0], [-2]
    second = [-2], [-1] * 3, [2, 2]
    expected = [*first, *second, [5, 0]]
    check(batch, expected, "mars_loo", baseline="episode_returns")


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_episode_by_hand(batch):
    """Returns 3, 1 (std √2), 1, 0 (std √.5) and 2, 4 (std √2); game 1 is alone."""
    first, second = ([A] * 3, [B] * 2, [-A]), ([-A], [-B] * 3, [A] * 2)
    check(batch, [*first, *second, [0, 0]], "episode")


def test_normalise_then_sum_by_hand(batch):
    """Mean turn rewards: seat 0: 4/4, seat 1: 1/5, seat 2: 6/3, game 1: 5/2. Less these:
    -1 -1 2 | .8 -.2 | 0 and 0 | -.2 -.2 -.2 | -2 2, and 2.5 -2.5; summed from the end."""
    first = [0, 1, 2], [0.6, -0.2], [0]
    second = [0], [-0.6, -0.4, -0.2], [0, 2]
    options = {"pool": ("game", "seat"), "scale": "none"}
    expected = [*first, *second, [0, -2.5]]
    check(batch, expected, "normalise_then_sum", **options)


BY_SEAT = {"pool": ["game", "seat"]}  # state of RAE


def test_rae_by_hand(batch):
    """α = 1/2. Seat 0: 3 - 0, b = 1.5, 1 - 1.5; seat 1: 1 - 0, b = .5, 0 - .5; seat 2:
    2 - 0, b = 1, 4 - 1; game 1: 5 - 0. Literal order: after the update, half of that."""
    first, second = ([3] * 3, [1] * 2, [2]), ([-0.5], [-0.5] * 3, [3] * 2)
    expected = [np.array(x, float) for x in (*first, *second, [5, 5])]
    check(batch, expected, "rae", decay=0.5)
    check(batch, [x / 2 for x in expected], "rae", decay=0.5, order="post")
    state = estimate("rae", batch(*HAND), decay=0.5).state
    assert state == {
        "pool": ["game", "seat"],
        "baselines": [[0, 0, 1.25], [0, 1, 0.25], [0, 2, 2.5], [1, 0, 2.5]],
    }


def test_rae_may_remember_other_pools(batch):
    """α = 1/2, one mean per game, in the order of episodes, then seats: 3, b = 1.5, 1 - 1.5,
    b = 1.25, 2 - 1.25, b = 1.625, 1 - 1.625, b = 1.3125, 0 - 1.3125, b = .65625."""
    got = estimate("rae", batch(*HAND), decay=0.5, pool=("game",))
    first, second = ([3] * 3, [-0.5] * 2, [0.75]), ([-0.625], [-1.3125] * 3)
    expected = np.concatenate([*first, *second, [4 - 0.65625] * 2, [5, 5]])
    np.testing.assert_allclose(got.advantage, expected)
    assert got.state == {"pool": ["game"], "baselines": [[0, 2.328125], [1, 2.5]]}
    message = r"with pools by \('game', 'seat'\), got one by \('game',\)"
    with pytest.raises(ValueError, match=message):
        estimate("rae", batch(*HAND), state=got.state)


def test_rae_does_not_take_seats_for_games(batch):
    """Both have two columns of numbers."""
    state = estimate("rae", batch(*HAND), pool=("seat", "game")).state
    message = r"with pools by \('game', 'seat'\), got one by \('seat', 'game'\)"
    with pytest.raises(ValueError, match=message):
        estimate("rae", batch(*HAND), state=state)


@pytest.mark.parametrize("baseline", [float("nan"), float("inf")])
def test_rae_names_a_baseline_that_is_not_finite(batch, baseline):
    state = {**BY_SEAT, "baselines": [[0, 0, 1.0], [0, 1, baseline]]}
    message = (
        f"want finite baselines in the state of 'rae', got {baseline} of game 0, seat 1"
    )
    with pytest.raises(ValueError, match=message):
        estimate("rae", batch(*HAND), state=state)


@pytest.mark.parametrize(
    "state",
    [
        {"ema": 1},
        {"baselines": [[0, 0, 1.0]]},
        {**BY_SEAT, "baselines": [[0, 1.0]]},
        {**BY_SEAT, "baselines": [[0, 0, "x"]]},
    ],
)
def test_rae_refuses_a_state_of_another_form(batch, state):
    message = r"want the state that 'rae' returned, .*\[\[game, seat, b\], ...\]}; got"
    with pytest.raises(ValueError, match=message):
        estimate("rae", batch(*HAND), state=state)


def test_rae_over_seats_takes_the_lower_seats_return_from_the_higher_ones(batch):
    """α = .75, b = 0 and then a quarter of what seat 0 was paid in the same episode."""
    for paid, baseline in ((0, 0), (4, 1)):
        turns = batch((0, 0, 0, [paid]), (0, 0, 1, [8]))
        got = estimate("rae", turns, pool=("game",), decay=0.75).advantage
        assert got.tolist() == [paid, 8 - baseline]


def test_rae_discounts_by_the_own_turns_left(batch):
    got = estimate("rae", batch((0, 0, 0, [0, 0, 4])), discount=0.5).advantage
    np.testing.assert_allclose(got, [1, 2, 4])


def test_mars_released_by_hand(batch):
    """Sums of centred rewards as in `normalise_then_sum`, but seat 2 is not centred:
    2 and 4 4. Distinct values of seat 0, both games: {-2.5 0 1 2}, mean .125; of seat 1,
    with padding: {-.6 -.4 -.2 0 .6}, mean -.12; seat 2 is left alone again."""
    first = [-0.125, 0.875, 1.875], [0.72, -0.08], [2]
    second = [-0.125], [-0.48, -0.28, -0.08], [4, 4]
    check(batch, [*first, *second, [-0.125, -2.625]], "mars_released", **OFF)


def test_every_estimator_is_worked_by_hand():
    tests = "".join(path.read_text() for path in Path(__file__).parent.glob("test_*"))
    assert all(f"def test_{name}_by_hand" in tests for name in estimator_names())


RETURNS = st.lists(st.integers(-8, 8), min_size=3, max_size=9)


@given(returns=RETURNS)
@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_one_turn_episodes_give_grpo_and_dr_grpo(batch, returns):
    turns = batch(*[(i, 0, 0, [r]) for i, r in enumerate(returns)])
    centred = np.array(returns) - np.mean(returns)
    n, std = len(returns), np.std(returns, ddof=1)

    def same(name, expected, **options):
        got = estimate(name, turns, **options).advantage
        np.testing.assert_allclose(got, expected, atol=1e-9)

    same("episode", centred / (std + 1e-4))
    same("episode", centred, scale="none")
    same("mars", centred)
    same("mars", centred, baseline="episode_returns")
    same("mars", centred / (std + 1e-4), scale="std", eps=1e-4)
    same("mars_loo", centred * n / (n - 1))
    same("normalise_then_sum", centred / (std + 1e-6))


def test_without_discount_of_later_turns_only_the_own_reward_counts(batch):
    """Rewards of seat 0 in game 0: 0 0 3 and 1, mean 1."""
    turns = batch(*HAND)
    got = estimate("mars", turns, discount=0.0).advantage
    own = (turns.game == 0) & (turns.seat == 0)
    np.testing.assert_allclose(got[own], [-1, -1, 2, 0])


def test_rae_without_decay_has_no_baseline(batch):
    got = estimate("rae", batch(*HAND), decay=1.0)
    returns = [sum(rewards) for *_, rewards in HAND for _ in rewards]
    np.testing.assert_allclose(got.advantage, returns)
    assert {b for *_, b in got.state["baselines"]} == {0.0}


@given(returns=RETURNS, baseline=st.integers(-5, 5), decay=st.floats(0, 1))
@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_rae_updated_first_is_decay_times_rae(batch, returns, baseline, decay):
    turns = batch(*[(i, 0, 0, [0, r]) for i, r in enumerate(returns)])
    state = {**BY_SEAT, "baselines": [[0, 0, baseline]]}
    options = {"state": state, "decay": decay}
    pre = estimate("rae", turns, **options)
    post = estimate("rae", turns, order="post", **options)
    np.testing.assert_allclose(post.advantage, decay * pre.advantage, atol=1e-9)
    assert post.state == pre.state


@given(returns=RETURNS, cut=st.integers(1, 2))
@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
def test_rae_goes_on_from_its_state_also_through_json(batch, returns, cut):
    rows = [(i, i % 2, 1, [r]) for i, r in enumerate(returns)]
    whole = estimate("rae", batch(*rows))
    first = estimate("rae", batch(*rows[:cut]))
    state = json.loads(json.dumps(first.state))
    second = estimate("rae", batch(*rows[cut:]), state=state)
    parts = np.concatenate([first.advantage, second.advantage])
    np.testing.assert_allclose(parts, whole.advantage)
    assert second.state == whole.state


def test_rae_keeps_baselines_of_seats_that_did_not_play(batch):
    state = estimate("rae", batch((0, 5, 1, [2])), decay=0.5).state
    after = estimate("rae", batch((0, 0, 0, [4])), decay=0.5, state=state).state
    assert after == {**BY_SEAT, "baselines": [[0, 0, 2.0], [5, 1, 1.0]]}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("mars", {"discount": 1.5}, "want discount between 0 and 1, got 1.5"),
        ("mars", {"scale": "sd"}, "want scale among none, std, got 'sd'"),
        ("mars", {"baseline": "mean"}, "want baseline among turn_returns"),
        ("mars", {"ddof": 2}, "want ddof between 0 and 1, got 2"),
        ("mars", {"eps": -1.0}, "want eps between 0 and inf, got -1.0"),
        (
            "mars",
            {"pool": ("game", "seet")},
            "want pool columns among .* got 'seet'",
        ),
        ("mars", {"pool": "game"}, r"sequence of columns such as \('game',\)"),
        ("mars", {"pool": ("team",)}, "want the column 'team' in the turn batch"),
        ("episode", {"pool": ("turn",)}, "want pool columns among .* got 'turn'"),
        ("mars_loo", {"baseline": "none"}, "want baseline among"),
        ("rae", {"order": "before"}, "want order among pre, post, got 'before'"),
        ("rae", {"decay": 95}, "want decay between 0 and 1, got 95"),
        ("normalise_then_sum", {"discount": -1}, "want discount between"),
        ("mars_released", {"advantage_norm": "std"}, "among mean, none, got 'std'"),
        ("mars_released", {"reward_norm": "running"}, "identity, got 'running'"),
        ("mars_released", {"reward_clip": -1}, "want reward_clip between 0 and inf"),
        ("mars_released", {"advantage_clip": -1}, "want advantage_clip between 0"),
        (
            "reinforce_plus_plus_baseline",
            {"count": "words"},
            "want count among tokens, turns, got 'words'",
        ),
    ],
)
def test_options_out_of_range_are_named(batch, name, options, message):
    with pytest.raises(ValueError, match=message):
        estimate(name, batch(*HAND), **options)
