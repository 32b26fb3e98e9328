"""`random_effects`: a vector by hand, its definition in plain loops, and its exact bias."""

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena_credit import estimate
from arena_credit.proofs import gradient_estimate, play_of

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
REWARDS = st.lists(st.integers(-8, 8), min_size=1, max_size=3)
EPISODES = st.lists(st.tuples(REWARDS, st.integers(0, 2)), min_size=1, max_size=7)


def credit(turns, **options):
    return estimate("random_effects", turns, **options).advantage


def batch_in_groups(batch, episodes):
    rows = [(i, 0, 0, rewards) for i, (rewards, _) in enumerate(episodes)]
    group = [group for rewards, group in episodes for _ in rewards]
    return batch(*rows, group=group)


def test_random_effects_by_hand(batch):
    """Returns-to-go of first turns: 0 and 2 in group 0, 4 and 8 in group 1.

    Without the first episode: σ² = 8, means 2 and 6, τ² = 4²/2 - 8 · 3/4 = 2, w = 1/5.
    Without the second: the same with means 0 and 6, τ² = 18 - 6 = 12, w = 12/20.
    Without the third: σ² = 2, means 1 and 8, τ² = 49/2 - 3/2 = 23, w = 23/25.
    Without the fourth: σ² = 2, means 1 and 4, τ² = 9/2 - 3/2 = 3, w = 3/5.
    Second turns: 3 in group 0, 1 and 7 in group 1. The 3 has no other in its group, so w = 0;
    for the others, one value in each group tells no variances apart, so w = 1/2.
    """
    rewards = [([-3, 3], 0), ([2], 0), ([3, 1], 1), ([1, 7], 1)]
    want = [
        *(0 - (0.8 * 6 + 0.2 * 2), 3 - 4),
        2 - (0.4 * 6 + 0.6 * 0),
        *(4 - (0.08 * 1 + 0.92 * 8), 1 - (3 + 7) / 2),
        *(8 - (0.4 * 1 + 0.6 * 4), 7 - (3 + 1) / 2),
    ]
    got = credit(batch_in_groups(batch, rewards))
    np.testing.assert_allclose(got, want, atol=1e-12)


def slope_of(y, x, group):
    """By least squares within groups, times max(0, 1 - 1 / F); y and x of the others."""
    cells = [group == g for g in set(group.tolist())]
    cells = cells if len(y) > len(cells) else [np.ones(len(y), bool)]
    for values in (y := y.copy(), x := x.copy()):
        for cell in cells:
            values[cell] -= values[cell].mean()
    freedom = len(y) - len(cells) - 1
    if freedom < 1 or (x**2).sum() < 1e-9:
        return 0.0
    slope = (x * y).sum() / (x**2).sum()
    explained = slope**2 * (x**2).sum()
    rest = ((y - slope * x) ** 2).sum() / freedom
    return slope * max(0.0, 1 - rest / explained) if explained > 1e-12 else 0.0


def by_definition(to_go, paid, own, group):
    """The advantage of each value of one pool, in loops over the others."""
    found, whole = [], to_go
    for i in range(len(to_go)):
        others = [j for j in range(len(to_go)) if own[j] != own[i]]
        if not others:
            found.append(to_go[i])
            continue
        to_go = whole - slope_of(whole[others], paid[others], group[others]) * paid
        value = to_go[i]
        cells = [
            np.array([to_go[j] for j in others if group[j] == g])
            for g in sorted({group[j] for j in others})
        ]
        mine = np.array([to_go[j] for j in others if group[j] == group[i]])
        rest = np.array([to_go[j] for j in others if group[j] != group[i]])
        if not len(mine) or not len(rest):
            left = mine if len(mine) else rest
            found.append(value - left.mean())
            continue
        size = len(others)
        between = within = 1.0
        if size > len(cells):
            deviation = sum(((cell - cell.mean()) ** 2).sum() for cell in cells)
            within = deviation / (size - len(cells))
            mean = np.mean([to_go[j] for j in others])
            square = sum(len(cell) * (cell.mean() - mean) ** 2 for cell in cells)
            per_group = size - sum(len(cell) ** 2 for cell in cells) / size
            excess = square - (len(cells) - 1) * within
            between = max(excess / per_group, 0.0)
        total = len(mine) * between + within
        w = len(mine) * between / total if total > 1e-12 else 1.0
        found.append(value - (1 - w) * rest.mean() - w * mine.mean())
    return found


@given(episodes=EPISODES)
def test_sums_over_groups_give_the_definition(batch, episodes):
    turns = batch_in_groups(batch, episodes)
    to_go = np.array([sum(r[k:]) for r, _ in episodes for k in range(len(r))], float)
    paid = np.array([sum(r[:k]) for r, _ in episodes for k in range(len(r))], float)
    want = np.zeros((2, len(to_go)))
    for turn in range(3):
        rows = np.flatnonzero(turns.turn == turn)
        for i, before in enumerate((paid, 0 * paid)):
            columns = (to_go, before, turns.episode, turns.group)
            want[i, rows] = by_definition(*(column[rows] for column in columns))
    np.testing.assert_allclose(credit(turns), want[0], atol=1e-7)
    np.testing.assert_allclose(credit(turns, paid=False), want[1], atol=1e-7)


def test_an_advance_that_is_repaid_leaves_the_advantage(batch):
    """Own chance: each episode has its own advance, up to a million."""
    rng = np.random.default_rng(0)
    advance, gain = rng.integers(0, 1_000_000, 40), rng.integers(0, 2, 40)
    rows = [([a, g - a], i) for i, (a, g) in enumerate(zip(advance, gain, strict=True))]
    second = credit(batch_in_groups(batch, rows))[1::2]
    mean = (gain.sum() - gain) / 39  # of the others
    np.testing.assert_allclose(second - (gain - mean), 0, atol=0.2)
    plain = credit(batch_in_groups(batch, rows), paid=False)[1::2]
    assert np.abs(plain).max() > 1e5


def test_luck_that_a_group_shares_leaves_the_advantage(batch):
    """Groups differ by a million, episodes by one."""
    rows = [([1e6 * g + i], g) for g in range(3) for i in range(3)]
    got = credit(batch_in_groups(batch, rows))
    np.testing.assert_allclose(got, [-1.5, 0, 1.5] * 3, atol=1e-4)


def test_std_divides_by_the_deviation_of_the_turn(batch):
    turns = batch_in_groups(batch, [([1, 0], 0), ([3, 5], 0), ([2], 1)])
    first = np.std([1, 8, 2], ddof=1), np.std([0, 5], ddof=1)
    want = credit(turns) / np.array([first[t] for t in turns.turn])
    np.testing.assert_allclose(credit(turns, scale="std", eps=0.0), want)


@pytest.mark.parametrize(
    ("game", "shared"), [("bandit", False), ("toll", False), ("hidden_card", True)]
)
def test_pairs_of_pairs_are_unbiased_though_w_is_estimated(game, shared):
    """All batches of two groups of two, with own or shared draws of chance."""
    play = play_of(game)
    likely = play.probability / play.game.flat.chance
    pairs: list[Any] = []
    for chance, allowed in zip(*play.game.starts, strict=True):
        lines = np.flatnonzero(allowed)
        for pair in itertools.product(lines, repeat=2):
            pairs.append((chance * likely[list(pair)].prod(), pair))
    if not shared:
        pairs = [
            (play.probability[list(pair)].prod(), pair)
            for pair in itertools.product(range(play.game.num_lines), repeat=2)
        ]
    total = np.zeros(len(play.policy))
    for (one, first), (two, second) in itertools.product(pairs, repeat=2):
        drawn, groups = [*first, *second], np.array([0, 0, 1, 1])
        total += one * two * gradient_estimate("random_effects", play, drawn, groups)
    np.testing.assert_allclose(total, play.gradient, atol=1e-12)


def test_batches_of_four_are_unbiased_where_turns_are_paid_before():
    """Every batch of one group of `call`, with its exact probability, in one order.

    The others may all have earned 0.1 before their last turn, and the own episode 0.
    """
    play = play_of("call")
    total = np.zeros(len(play.policy))
    for drawn in itertools.combinations_with_replacement(range(play.game.num_lines), 4):
        orders = 24 / math.prod(map(math.factorial, Counter(drawn).values()))
        chance = orders * play.probability[list(drawn)].prod()
        total += chance * gradient_estimate("random_effects", play, np.array(drawn))
    np.testing.assert_allclose(total, play.gradient, atol=1e-12)


TENTHS = st.integers(-3, 3).map(lambda n: n / 10)
PAID = st.tuples(st.tuples(st.sampled_from([0.1, 0.3]), TENTHS), st.integers(0, 1))


@given(own=st.tuples(TENTHS, TENTHS), others=st.lists(PAID, min_size=3, max_size=5))
def test_the_baseline_is_linear_in_what_the_own_episode_was_paid(batch, own, others):
    """Its slope, constant and w are of the others, who may all have been paid alike."""

    def baseline(before, paid):
        turns = batch_in_groups(batch, [((before, paid), 0), *others])
        return paid - credit(turns)[1]

    one, two, three = (baseline(own[0] + step, own[1]) for step in (0.0, 0.1, 0.2))
    np.testing.assert_allclose(three - two, two - one, atol=1e-9)
    np.testing.assert_allclose(baseline(own[0], own[1] + 0.7), one, atol=1e-9)


def test_a_pool_by_turn_counts_on_over_the_segments_of_a_rollout(batch):
    """The second turn of rollout 0 is the first of episode 2."""
    whole = batch((0, 0, 0, [1, 2]), (1, 0, 0, [4, 9]))
    cut = batch((0, 0, 0, [1]), (2, 0, 0, [2]), (1, 0, 0, [4, 9]), rollout=[0, 0, 1, 1])
    for name in ("mars", "mars_loo", "random_effects"):
        want, got = (
            estimate(name, turns, pool=("game", "seat", "turn")).advantage
            for turns in (whole, cut)
        )
        np.testing.assert_allclose(got, want)
