"""`control_variates`: its parts by hand, its exact bias, and what surprise takes away."""

import itertools
import math
from collections import Counter
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from arena_credit import (
    TurnBatch,
    estimate,
    moments,
    pools_by,
    returns_to_go,
    surprises,
    trajectories,
    with_report,
)
from arena_credit.estimators import control_variates as estimator_module
from arena_credit.estimators import levels as level_module
from arena_credit.estimators import slopes as slope_module
from arena_credit.proofs import ExactGame, gradient_estimate, play_of
from arena_credit.proofs.findings import _pairs
from arena_envs import make_game

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
ALWAYS = slope_module.Shrinkage(
    threshold=0.0, rows=0.5, freedom=-9.0
)  # every slope is used in full


def with_slopes(turns, shrinkage=ALWAYS):
    """The estimator with other shrinkage."""
    pools = pools_by(turns, ("game", "seat", "turn"))
    to_go = returns_to_go(turns, turns.column("reward"))
    stats = moments(to_go, pools.of, len(pools.key))
    choices = estimator_module.choices_of(turns)
    advantage = estimator_module.advantages(turns, choices, shrinkage=shrinkage)
    return with_report(advantage, pools, stats)


def one_turn(group, trained=True):
    """The layout of rows of one turn, with one fold; all are in its regression by default."""
    group = np.array(group)
    training = np.broadcast_to(trained, (1, len(group)))
    return slope_module.Layout(
        np.zeros_like(group), group, np.arange(len(group)), training
    )


def regression(surprise, paid, value, shrinkage):
    """One fold, one group; columns surprise and paid."""
    columns = slope_module.Columns(
        values=np.stack([surprise, paid])[None].astype(float),
        num_choices=1,
        num_past=1,
        tolerance=np.full((1, 2), 1e-12),
        slopes_inside=np.zeros((1, 2)),
        least_square=np.zeros((1, 1)),
        squares=np.zeros((1, 2)),
    )
    value = np.array(value, float)[None]
    (block,) = one_turn([0] * len(paid)).blocks
    return slope_module.fit(value, columns, block, shrinkage, np.zeros(1))


def test_a_slope_by_hand():
    """Σ m y = 12 and Σ m² = 4, and the ridge adds two rows of m² = 1: 12 / 6 = 2.

    Residual squares 44 - 12 · 2 = 20, over 4 - 1 - 1 = 2: 10. The variance of the slope is
    10 / 6, and F = 2² / (10 / 6) = 2.4.
    """
    model = regression([1, -1, 1, -1], [0] * 4, [5, -3, 1, -3], ALWAYS)
    slopes = slope_module.slopes_of(model)
    np.testing.assert_allclose(slopes.value, [[2.0]])
    assert not model.usable[0, 1]  # nothing was paid
    some = slope_module.Shrinkage(threshold=1.0, rows=1.0, freedom=1.0)
    model = regression([1, -1, 1, -1], [0] * 4, [5, -3, 1, -3], some)
    small_sample = 2.0  # 2 / max(2 - 2, 1)
    np.testing.assert_allclose(model.threshold_ratio[0, 0], small_sample / 2.4)


def test_a_slope_is_fitted_from_the_least_number_of_rows_on():
    """Of n rows, n - 1 degrees of freedom have to be 3, and more than 2 left over."""
    shrinkage = slope_module.Shrinkage(threshold=0.0, rows=3.0, freedom=2.0)
    for num, is_fitted in ((5, True), (4, False), (2, False)):
        surprise = [(-1.0) ** n for n in range(num)]
        model = regression(surprise, [0] * num, surprise, shrinkage)
        assert slope_module.slopes_of(model).known.tolist() == [[is_fitted]]
        assert model.usable.any() == is_fitted
        np.testing.assert_array_equal(slope_module.predict(model), np.zeros((1, num)))


def test_squares_that_are_expected_and_missing_hold_a_slope_back_by_hand():
    """As above, but the squares are expected to be 10, not 4: 12 / (6 + 6) = 1."""
    values = np.array([[5.0, -3, 1, -3]])
    surprise = np.array([1.0, -1, 1, -1])
    columns = slope_module.Columns(
        values=np.stack([surprise, 0 * surprise])[None],
        num_choices=1,
        num_past=1,
        tolerance=np.full((1, 2), 1e-12),
        slopes_inside=np.zeros((1, 2)),
        least_square=np.zeros((1, 1)),
        squares=np.array([[10.0, 0.0]]),
    )
    (block,) = one_turn([0] * 4).blocks
    model = slope_module.fit(values, columns, block, ALWAYS, np.zeros(1))
    np.testing.assert_allclose(slope_module.slopes_of(model).value, [[1.0]])


def test_a_payment_is_subtracted_as_far_as_f_and_its_leverage_allow():
    """Paid ±1 and later ∓1: Σ p y = -4, Σ p² = 4, the ridge adds 0.1: slope -4 / 4.1.

    Direction p / √4.1, so z = -4 / √4.1. The residual is 4 - 16 / 4.1 = 0.0976, over 2 degrees
    of freedom. The leverage of a row is 1 / 4.1, of a payment of 10 it is 100 / 4.1.
    """
    paid = np.array([1.0, -1, 1, -1])
    f = (16 / 4.1) / ((4 - 16 / 4.1) / 2)
    model = regression([0] * 4, paid, -paid, slope_module.Shrinkage(1.0, 1.0, 1.0))
    small_sample = 2.0  # 2 / max(2 - 2, 1)
    factor = 1 - small_sample * (1 + 1 / 4.1) / f
    np.testing.assert_allclose(slope_module.predict(model)[0], -paid * 4 / 4.1 * factor)
    jackpot = model._replace(
        columns=model.columns._replace(values=np.full((1, 2, 4), 10.0))
    )
    factor = 1 - small_sample * (1 + 100 / 4.1) / f
    np.testing.assert_allclose(
        slope_module.predict(jackpot)[0], -10 * 4 / 4.1 * max(factor, 0)
    )


def test_a_mean_of_slopes_by_hand():
    """Slopes 1 and 5 of variance 2: Q = 8 / 2 = 4, spread (4 - 1) / (1 - 1/2) = 6.

    Their mean 3 has precision 2 / (2 + 6) = 1/4 and F = 9/4, so c = 1 leaves 3 (1 - 4/9). A
    slope keeps 6 / 8 of its difference from the mean.
    """
    slopes = slope_module.Slopes(
        np.array([[[1.0], [5.0]]]), np.full((1, 2, 1), 2.0), np.ones((1, 2, 1), bool)
    )
    mean, precision, spread = slope_module.mean_and_spread(*slopes)
    np.testing.assert_allclose(
        [mean[0, 0], precision[0, 0], spread[0, 0]], [3, 0.25, 6]
    )
    mean, spread = slope_module.common_slope(slopes, 1.0)
    np.testing.assert_allclose(mean, [[3 * (1 - 4 / 9)]])
    slope, share = slope_module.shrunk(
        slopes, np.array([[[3.0]]]), spread[:, None], 100.0
    )
    np.testing.assert_allclose(slope.ravel(), [3 - 2 * 0.75, 3 + 2 * 0.75])
    np.testing.assert_allclose(share.ravel(), [0.75, 0.75])


def test_a_level_by_hand():
    """One turn, groups (0, 2) and (10, 12): σ² = 2, mean squares 2 and 100.

    With the two prior rows of the same mean square, σ² = 2 and τ² raw = (100 - 2) / 2 = 49.
    One degree of freedom between groups keeps 1 / (1 + 3) of 49, times 1 - 30 / 50: 4.9.
    With one turn A is 0: the seat's mean of others, then the one other of the group with the
    weight 4.9 / (4.9 + 2).
    """
    layout = one_turn([0, 0, 1, 1])
    values = np.array([[0.0, 2, 10, 12]])
    tree, fold = np.arange(4), np.zeros(4, int)
    seat = (values.sum() - values[0]) / 3
    other = np.array([2.0, 0, 12, 10])
    want = seat + 4.9 / 6.9 * (other - seat)
    np.testing.assert_allclose(level_module.levels(values, layout, tree, fold), want)


def baseline_of_pairs(other, mean, error):
    """Of a return whose partner returns `other`; `mean` is that of all three others."""
    s = (mean - other) ** 2 * 3 / 2
    between = (s - error) * 3 / 4 / 4 * (1 - 30 * error / s)
    return mean + between / (between + error) * (other - mean)


def advantages_of_pairs(returns):
    """Two groups of two, one turn."""
    zeros = np.zeros(4, int)
    turns = TurnBatch(returns, zeros, range(4), zeros, zeros, group=[0, 0, 1, 1])
    return estimate("control_variates", turns).advantage


def test_control_variates_by_hand():
    """Returns 0 and 1 in group 0, 100 and 101 in group 1, one turn, no surprise.

    Without the first: mean 202 / 3, mean squares 1/2 within and s = (199 / 3)² · 3 / 2 = 6600.2
    between. τ² raw is (s - 1/2) / (4/3), one degree of freedom keeps 1/4, and F = 13,200 of two groups
    keeps 1 - 30 / F: 1234.7. So the 1 has the weight 1234.7 / (1234.7 + 1/2) = 0.9996. Without the second
    likewise with 201 / 3 and s = (67)² · 3 / 2. The others by symmetry.
    """
    np.testing.assert_allclose(baseline_of_pairs(1, 202 / 3, 0.5), 1.0268, atol=1e-4)
    want = [
        0 - baseline_of_pairs(1, 202 / 3, 0.5),
        1 - baseline_of_pairs(0, 201 / 3, 0.5),
    ]
    got = advantages_of_pairs([0, 1, 100, 101])
    np.testing.assert_allclose(got, [*want, -want[1], -want[0]])


def test_a_pair_of_equal_returns_is_little_evidence_of_shared_luck():
    """Without the first, the pair 100, 100 shows no σ²: it counts as 0.02 s, s = (200/3 - 1)² · 3/2."""
    mean = 201 / 3
    error = 0.02 * (mean - 1) ** 2 * 3 / 2
    got = advantages_of_pairs([0, 1, 100, 100])
    np.testing.assert_allclose(got[0], 0 - baseline_of_pairs(1, mean, error))


def expected(estimator, play, batches):
    total = np.zeros(len(play.policy))
    for chance, lines, turns in batches:
        total += chance * gradient_estimate(estimator, play, lines, turns)
    return total


def change_by_surprise(batches):
    """The mean change of an advantage by surprise."""
    return sum(
        chance
        * np.abs(
            estimate(with_slopes, turns).advantage
            - estimate("control_variates", turns, surprise=False).advantage
        ).mean()
        for chance, _, turns in batches
    )


@pytest.mark.parametrize(
    ("game", "estimator"),
    [
        *((game, with_slopes) for game in ("stop_or_go", "hidden_card", "signal")),
        ("signal", "control_variates"),
        pytest.param("call", with_slopes, marks=pytest.mark.slow),
        pytest.param("call", "control_variates", marks=pytest.mark.slow),
    ],
)
def test_pairs_of_pairs_are_unbiased(game, estimator):
    """All batches of two groups of two: play ends episodes, shared chance, two seats, and paid
    on the way; with slopes as they are, and with all slopes used in full."""
    play = play_of(game)
    gradient = expected(estimator, play, _pairs(game))
    np.testing.assert_allclose(gradient, play.gradient, atol=1e-12)


@pytest.mark.slow
def test_with_all_slopes_surprise_changes_the_advantages_of_pairs_of_pairs():
    """Else the proof with all slopes would be empty."""
    assert change_by_surprise(_pairs("signal")) > 0.05


def groups_of(play, size):
    """Every batch of one group, in one order each."""
    for drawn in itertools.combinations_with_replacement(
        range(play.game.num_lines), size
    ):
        orders = math.factorial(size) / math.prod(
            map(math.factorial, Counter(drawn).values())
        )
        lines = np.array(drawn)
        chance = orders * play.probability[lines].prod()
        yield chance, lines, play.batch(lines)


@pytest.mark.parametrize("estimator", ["control_variates", with_slopes])
@pytest.mark.parametrize("game", ["stop_or_go", "bandit"])
def test_a_group_of_six_is_unbiased(game, estimator):
    play = play_of(game)
    gradient = expected(estimator, play, groups_of(play, 6))
    np.testing.assert_allclose(gradient, play.gradient, atol=1e-12)


def pairs_of_triples(play):
    """Every batch of two groups of three that a shared start allows, in one order each."""
    starts, allowed = play.game.starts
    likely = play.probability / play.game.flat.chance
    for first, second in itertools.product(range(len(starts)), repeat=2):
        triples = [
            list(
                itertools.combinations_with_replacement(np.flatnonzero(allowed[one]), 3)
            )
            for one in (first, second)
        ]
        for drawn in itertools.product(*triples):
            orders = math.prod(
                6 // math.prod(map(math.factorial, Counter(one).values()))
                for one in drawn
            )
            lines = np.array([line for one in drawn for line in one])
            chance = starts[first] * starts[second] * orders * likely[lines].prod()
            turns = play.batch(lines)
            groups = np.repeat(
                [0, 1], [len(play.game.flat.rows(np.array(one))) for one in drawn]
            )
            yield chance, lines, replace(turns, group=groups)


@pytest.mark.slow
@pytest.mark.parametrize("game", ["hidden_card", "signal"])
def test_slopes_of_groups_are_unbiased(game, monkeypatch):
    """All batches of two groups of three, with all slopes used in full, those of groups, too."""
    play, sizes = play_of(game), []
    explain = slope_module.GroupSlopes.explain

    def recorded(*args):
        explained = explain(*args)
        sizes.append(np.abs(explained).max())
        return explained

    monkeypatch.setattr(slope_module.GroupSlopes, "explain", recorded)
    gradient = expected(with_slopes, play, pairs_of_triples(play))
    np.testing.assert_allclose(gradient, play.gradient, atol=1e-12)
    assert np.mean(np.array(sizes) > 0.01) > 0.2


def test_slopes_of_groups_by_hand():
    """Two groups of three, surprise 1, -1, 0: values 2 m in the first, -2 m in the second.

    Σ x² = 2, Σ x⁴ = 2, Σ x e = ±4, Σ x² e² = 8. Pairs 16 - 8 = 8 and weights 4 - 2 = 2 of each
    group: τ² = 4, s = 16 / 4 = 4. So the slope is ±4 · 4 / (4 · 2 + 4) = ±4/3.
    """
    surprise = np.array([1.0, -1, 0] * 2)
    values = 2 * np.repeat([1.0, -1], 3) * surprise
    layout, square = one_turn([0, 0, 0, 1, 1, 1]), np.zeros((6, 1))
    slopes = slope_module.GroupSlopes(surprise[:, None], square, layout, ALWAYS)
    got = slopes.explain(values[None], layout.blocks[0])
    np.testing.assert_allclose(got, [4 / 3 * np.repeat([1, -1], 3) * surprise])


def test_slopes_of_groups_do_not_see_whether_the_own_episode_goes_on():
    """A group of six; with and without a seventh row, of the fold that is left out.

    The rows of large values have no surprise, so that the least variance holds.
    """
    surprise = np.array([1.0, -1, 0, 0, 0, 0])
    values, weights = np.array([0.1, -0.1, 5, -5, 5, -5]), []
    for num in (6, 7):
        x, y = (np.resize([*column, 0], num) for column in (surprise, values))
        layout = one_turn([0] * num, np.arange(num) < 6)
        square = np.zeros((num, 1))
        slopes = slope_module.GroupSlopes(x[:, None], square, layout, ALWAYS)
        slopes.explain(y[None], layout.blocks[0])
        (column,) = slopes.columns
        weights.append([column.pairs, column.weight, column.square])
    np.testing.assert_array_equal(*weights)


@pytest.mark.slow
@pytest.mark.parametrize("estimator", ["control_variates", with_slopes])
def test_self_play_of_two_seats_that_move_in_turn_is_unbiased(estimator):
    """Kuhn poker: a group of three of the same deal."""
    game = ExactGame(make_game("kuhn_poker"))
    logits = np.random.default_rng(0).normal(size=len(game.policy()))
    play = game.at(game.softmax(logits))
    starts, allowed = game.starts
    batches = []
    for start, lines in zip(starts, allowed, strict=True):
        likely = play.probability / game.flat.chance
        for drawn in itertools.product(np.flatnonzero(lines), repeat=3):
            lines_of_all = np.array(drawn)
            chance = start * likely[lines_of_all].prod()
            batches.append((chance, lines_of_all, play.batch(lines_of_all)))
    gradient = expected(estimator, play, batches)
    np.testing.assert_allclose(gradient, play.gradient, atol=1e-12)
    assert change_by_surprise(batches) > 0.02


@pytest.mark.slow
@pytest.mark.parametrize("game", ["chain", "call"])
def test_a_group_of_six_with_two_turns_is_unbiased(game):
    play = play_of(game)
    gradient = expected(with_slopes, play, groups_of(play, 6))
    np.testing.assert_allclose(gradient, play.gradient, atol=1e-12)


ENTROPY = 128.0  # of a token of `rounds`; a power of 2, so that surprise is exact


def rounds(seed, num, group=8, groups=16, *, end=True, reasoning=0.0, mask=None):
    """Right or wrong with chance 1/2, surprise ±1; and the exact advantage, ±1/2."""
    rng = np.random.default_rng(seed)
    right = rng.integers(2, size=(groups * group, num)).astype(float)
    reward = right.copy()
    if end:
        reward[:, :-1], reward[:, -1] = 0, right.sum(axis=1)
    episode = np.repeat(np.arange(groups * group), num)
    zeros = np.zeros(len(episode), int)
    surprise = 2 * right.ravel() - 1
    thought = reasoning * rng.normal(size=len(surprise))
    logprob = np.stack([thought, surprise], axis=1).ravel() - ENTROPY
    turns = TurnBatch(
        reward=reward.ravel(),
        game=zeros,
        seat=zeros,
        episode=episode,
        turn=np.tile(np.arange(num), groups * group),
        group=episode // group,
        num_tokens=zeros + 2,
        tokens={"logprob": logprob, "entropy": np.full(len(logprob), ENTROPY)},
        mask=mask,
    )
    return turns, right.ravel() - 0.5


def noise(turns, exact, name="control_variates", **options):
    got = estimate(name, turns, **options).advantage
    return (got @ got) * (exact @ exact) / (got @ exact) ** 2


@pytest.mark.parametrize("end", [True, False])
def test_noise_does_not_grow_with_the_horizon(end):
    turns, exact = rounds(0, 32, end=end)
    assert noise(turns, exact) < 1.1
    assert noise(turns, exact, surprise=False) > 14


def wrong_rounds(seed, share, num=16):
    """Rounds of 16 groups of 8; in a share of them the likelier answer is wrong for a whole group."""
    turns, exact = rounds(seed, num, end=False)
    sign = np.where(np.random.default_rng(seed).random((16, 1, num)) < share, -1.0, 1.0)
    sign = np.broadcast_to(sign, (16, 8, num)).ravel()
    logprob = turns.tokens["logprob"].copy()
    logprob[1::2] = sign * (logprob[1::2] + ENTROPY) - ENTROPY
    return replace(turns, tokens={**turns.tokens, "logprob": logprob}), exact


def test_groups_whose_likelier_answer_is_wrong_have_slopes_of_their_own():
    """With one slope for all groups the noise is above 1 + 0.96 · 15 / 2."""
    turns, exact = wrong_rounds(0, 0.4)
    assert noise(turns, exact) < 5


def lengths_by_play(seed, groups=4, size=4):
    """float[N, 6] of two seats that play a number of turns: reward, episode, seat, turn, group, surprise."""
    rng = np.random.default_rng(seed)
    rows = []
    for episode, seat in itertools.product(range(groups * size), range(2)):
        for turn in range(min(rng.geometric(0.3), 6)):
            surprise = rng.choice([-1.5, 0.5, 1.0])
            reward = 0.8 * surprise + 0.3 * rng.normal()
            rows.append([reward, episode, seat, turn, episode // size, surprise])
    return np.array(rows)


def credit_of_rows(rows, estimator):
    columns = dict(
        zip(("episode", "seat", "turn", "group"), rows.T[1:5].astype(int), strict=True)
    )
    zeros = np.zeros(len(rows), int)
    tokens = {"logprob": rows[:, 5] - ENTROPY, "entropy": np.full(len(rows), ENTROPY)}
    turns = TurnBatch(
        rows[:, 0], game=zeros, num_tokens=zeros + 1, tokens=tokens, **columns
    )
    return estimate(estimator, turns).advantage


@pytest.mark.parametrize("estimator", ["control_variates", with_slopes])
def test_of_its_own_episode_a_turn_sees_only_the_return_and_surprise(estimator):
    """In batches that are too large to be enumerated. What comes later has no effect on a baseline:
    not its rewards, nor how long it goes on; surprise has a linear one, so that its mean is 0."""
    rows = lengths_by_play(0)
    before = credit_of_rows(rows, estimator)
    for episode in (0, 7, 15):
        mine, other = (
            np.flatnonzero((rows[:, 1] == episode) & (rows[:, 2] == seat))
            for seat in (0, 1)
        )
        paid, first, second = rows.copy(), rows.copy(), rows.copy()
        paid[mine[-1], 0] += 10
        first[[mine[-1], other[-1]], 5] += 1
        second[[mine[-1], other[-1]], 5] += 2
        longer = np.insert(
            rows,
            mine[-1] + 1,
            rows[mine[-1]] * [0, 1, 1, 1, 1, 0] + [0, 0, 0, 1, 0, 0],
            axis=0,
        )
        close = partial(np.testing.assert_allclose, rtol=0, atol=1e-10)
        close((credit_of_rows(paid, estimator) - before)[mine], 10)
        close(credit_of_rows(longer, estimator)[mine], before[mine])
        one, two = (
            credit_of_rows(more, estimator) - before for more in (first, second)
        )
        close(two[mine], 2 * one[mine])


def test_a_long_thought_does_not_drown_the_choice():
    turns, exact = rounds(0, 8, reasoning=20.0)
    span = np.tile([0.0, 1.0], len(exact))
    split = replace(turns, tokens={**turns.tokens, "span": span})
    assert noise(split, exact) < 1.3
    assert noise(turns, exact) > 6


def test_the_span_is_reasoning_or_answer():
    turns, _ = rounds(0, 2, 2, 2)
    span = np.tile([0.0, 2.0], len(turns.reward))
    odd = replace(turns, tokens={**turns.tokens, "span": span})
    with pytest.raises(ValueError, match=r"tokens\['span'\]\[1\] = 2"):
        estimate("control_variates", odd)


def test_surprise_is_summed_over_the_tokens_of_turns_that_are_not_masked():
    one = {"game": [0] * 3, "seat": [0] * 3, "group": [0] * 3, "turn": [0, 1, 0]}
    tokens = {"logprob": [-1, -2, np.nan, -3], "entropy": [0.5, 1, 0, 1]}
    turns = TurnBatch(
        [0, 0, 1],
        episode=[0, 0, 1],
        num_tokens=[2, 1, 1],
        mask=[True, False, True],
        tokens=tokens,
        **one,
    )
    np.testing.assert_allclose(surprises(trajectories(turns)), [[-1.5], [-2.0]])


def test_a_turn_that_no_other_reaches_has_the_level_of_its_seat():
    """Every episode returns 10; the longest has turns that no other has."""
    lengths = [1, 2, 3, 9]
    episode = np.repeat(np.arange(4), lengths)
    turn = np.concatenate([np.arange(n) for n in lengths])
    reward = np.where(turn == np.array(lengths)[episode] - 1, 10.0, 0.0)
    zeros = np.zeros(len(turn), int)
    turns = TurnBatch(reward, zeros, episode, zeros, turn, zeros)
    advantage = estimate("control_variates", turns).advantage
    np.testing.assert_allclose(advantage, 0, atol=1e-12)
    assert estimate("random_effects", turns).advantage[-1] == 10


@pytest.mark.parametrize("others", [(2, 1, 1), (6, 6, 8)])
def test_a_turn_that_only_this_episode_reaches_leaves_its_earlier_baselines(others):
    """The baseline of the first turn is the same whatever the episode does afterwards."""
    play = play_of("three_seats")
    baselines = []
    for line in range(play.game.num_lines):
        turns = play.batch(np.array([line, *others]), np.array([0, 0, 1, 1]))
        of_seat = (turns.episode == 0) & (turns.seat == 0)
        advantage = estimate("control_variates", turns).advantage
        first = of_seat & (turns.turn == 0)
        baselines += [*(turns.reward[of_seat].sum() - advantage[first])]
    assert np.ptp(baselines) < 1e-9


def test_a_jackpot_does_not_reach_later_turns():
    turns, _ = rounds(1, 4, 4, 4, end=False)
    reward = turns.reward.copy()
    reward[0] += 100
    lucky = replace(turns, reward=reward)
    later = turns.turn > 0
    plain, got = (
        estimate("control_variates", batch).advantage[later] for batch in (turns, lucky)
    )
    assert np.abs(got - plain).max() < 1


def test_a_discount_weighs_later_surprise_as_later_rewards():
    """Paid each round, so that the advantage of a round stays its own."""
    turns, exact = rounds(0, 8, end=False)
    assert noise(turns, exact, discount=0.5) < 1.05
    assert noise(turns, exact, discount=0.5, surprise=False) > 1.25


def test_the_unit_of_the_reward_does_not_matter():
    """Rewards are divided by a power of two, so that all digits are equal."""
    turns, _ = rounds(0, 4)
    want = estimate("control_variates", turns).advantage
    for unit in (2.0**300, 2.0**-300):
        scaled = replace(turns, reward=turns.reward * unit)
        got = estimate("control_variates", scaled).advantage
        np.testing.assert_array_equal(got, want * unit)


def branched(seed, discount=1.0):
    """Two seats, unequal lengths, masked turns; every third episode branches from the one before."""
    rng = np.random.default_rng(seed)
    columns = [
        (episode, seat, turn)
        for episode in range(24)
        for seat in range(2)
        for turn in range(rng.integers(1, 5))
    ]
    episode, seat, turn = np.array(columns).T
    logprob = np.log(rng.uniform(0.05, 1, len(turn)))
    return TurnBatch(
        reward=rng.normal(size=len(turn)),
        game=0 * turn,
        episode=episode,
        seat=seat,
        turn=turn,
        group=episode // 6,
        parent=np.where(episode % 3 == 2, episode - 1, -1),
        mask=rng.random(len(turn)) > 0.1,
        num_tokens=0 * turn + 1,
        tokens={"logprob": logprob, "entropy": rng.uniform(0, 2, len(turn))},
    )


@pytest.mark.parametrize("discount", [1.0, 0.9])
def test_a_reward_moves_the_advantages_of_its_tree_by_no_more_than_their_returns(
    discount,
):
    """Slopes, levels and variances of a tree's turns are told by other trees alone.

    So a larger last reward of an episode raises its seat's advantages by as much as their
    returns-to-go, and moves no other advantage of the tree: of the other seat, or of a branch.
    """
    turns = branched(3)

    def advantages(batch):
        return (
            estimate(with_slopes, batch).advantage
            if discount == 1
            else estimate("control_variates", batch, discount=discount).advantage
        )

    before, tree = (
        advantages(turns),
        np.where(turns.parent >= 0, turns.parent, turns.episode),
    )
    changes = 0
    for number in range(6, 12):
        rows = np.flatnonzero(
            (turns.episode == number) & (turns.seat == 0) & turns.mask
        )
        if len(rows) == 0:
            continue
        last = rows[np.argmax(turns.turn[rows])]
        reward = turns.reward.copy()
        reward[last] += 5
        moved = advantages(replace(turns, reward=reward)) - before
        to_go = returns_to_go(
            trajectories(replace(turns, reward=reward)),
            trajectories(replace(turns, reward=reward)).column("reward"),
            discount,
        )
        plain = returns_to_go(
            trajectories(turns), trajectories(turns).column("reward"), discount
        )
        want = np.zeros(len(before))
        want[trajectories(turns).row] = to_go - plain
        same = (tree == tree[last]) & turns.mask
        np.testing.assert_allclose(moved[same], want[same], atol=1e-9)
        changes += np.abs(moved[~same]).max() > 1e-6
    assert changes  # others do compare with this tree


def with_wrong_values(play, lines, turns):
    """The batch with action values that have nothing to do with the game, and their means."""
    flat = play.game.flat
    every = flat.rows(np.arange(play.game.num_lines))
    keys = play.batch(range(play.game.num_lines)).state_key
    state_of = dict(zip(flat.column[every], keys, strict=True))
    columns = np.array(sorted(state_of))
    states = np.array([state_of[column] for column in columns])
    wrong = np.sin(5.0 * columns + 1)
    mean = np.bincount(states, play.policy[columns] * wrong)
    column = flat.column[flat.rows(lines)]
    values = np.zeros(len(play.policy))
    values[columns] = wrong
    return replace(
        turns, action_value=values[column], value=mean[[state_of[c] for c in column]]
    )


def with_wrong_slopes(turns):
    """The estimator by wrong action values, with all slopes used in full."""
    pools = pools_by(turns, ("game", "seat", "turn"))
    stats = moments(
        returns_to_go(turns, turns.column("reward")), pools.of, len(pools.key)
    )
    choices = estimator_module.choices_of(turns, action_values=True)
    advantage = estimator_module.advantages(turns, choices, shrinkage=ALWAYS)
    return with_report(advantage, pools, stats)


def test_action_values_add_no_bias_however_wrong_they_are():
    play, change = play_of("stop_or_go"), 0.0
    total = np.zeros(len(play.policy))
    for chance, lines, turns in _pairs("stop_or_go"):
        wrong = with_wrong_values(play, lines, turns)
        total = total + chance * gradient_estimate(
            with_wrong_slopes, play, lines, wrong
        )
        got, plain = (
            estimate(of, wrong).advantage for of in (with_wrong_slopes, with_slopes)
        )
        change += chance * np.abs(got - plain).mean()
    np.testing.assert_allclose(total, play.gradient, atol=1e-12)
    assert change > 0.01


def test_action_values_of_a_batch_without_rewards_leave_no_credit():
    turns, _ = rounds(0, 16)
    values = {"value": np.zeros(len(turns.turn)), "action_value": np.sin(turns.turn)}
    unpaid = replace(turns, reward=0 * turns.reward, **values)
    got = estimate("control_variates", unpaid, action_values=True).advantage
    np.testing.assert_array_equal(got, 0.0)


def test_right_action_values_leave_no_noise_where_surprise_says_nothing():
    turns, exact = rounds(0, 16)
    silent = replace(turns, tokens=None, value=0 * exact, action_value=10 * exact)
    assert noise(silent, exact) > 14
    assert noise(silent, exact, action_values=True) < 1.05


def test_action_values_have_any_unit():
    turns, exact = rounds(0, 4)
    values = replace(turns, value=0 * exact, action_value=exact)
    want = estimate("control_variates", values, action_values=True).advantage
    scaled = replace(
        values, reward=turns.reward * 2.0**200, action_value=exact * 2.0**200
    )
    got = estimate("control_variates", scaled, action_values=True).advantage
    np.testing.assert_array_equal(got, want * 2.0**200)
