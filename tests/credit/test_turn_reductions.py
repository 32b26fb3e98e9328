"""What estimators on turns reduce to, and what biases them, by exact enumeration.

The toy: a player continues with probability p = sigmoid(θ), or stops. After continuing there
is a second turn, without a choice that matters, which is paid. The true gradient is p(1-p)
times what continuing earns more.
"""

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena_credit import estimate

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
RETURNS = st.lists(st.integers(-8, 8), min_size=3, max_size=9)
TRAJECTORIES = st.lists(
    st.lists(st.integers(-8, 8), min_size=1, max_size=4), min_size=1, max_size=6
)
PROBABILITIES = [0.3, 0.5, 0.8]


def same(batch, first, second):
    """Whether two (name, options) give the same on a batch, also bit by bit if exact."""
    got, expected = (
        estimate(name, batch, **o).advantage for name, o in (first, second)
    )
    np.testing.assert_allclose(got, expected, atol=1e-9)


@given(returns=RETURNS)
def test_one_turn_games_of_one_state_are_grpo(batch, returns):
    zeros = [0] * len(returns)
    turns = batch(
        *[(i, 0, 0, [r]) for i, r in enumerate(returns)],
        state_key=zeros,
        action=range(len(returns)),
        parent=[-1] * len(returns),
        team=zeros,
        rewards={"game": zeros},
    )
    grpo = ("episode", {"eps": 1e-4})
    for name in ("flow_grpo", "matpo", "at_grpo", "mt_grpo", "stratified_grpo"):
        same(turns, (name, {"eps": 1e-4}), grpo)
    same(turns, ("gigpo", {"eps": 1e-4, "omega": 0.0}), grpo)
    dr_grpo = ("episode", {"scale": "none"})
    for name in ("dr_grpo", "advevo_public_baseline", "agentprm", "mars"):
        same(turns, (name, {}), dr_grpo)
    n = len(returns)
    got = estimate("rloo", turns).advantage
    same(turns, ("rloo", {}), ("mars_loo", {}))
    np.testing.assert_allclose(got, n / (n - 1) * estimate("mars", turns).advantage)


@given(drawn=TRAJECTORIES)
def test_gigpo_without_its_second_part_is_episode(batch, drawn):
    rows = [(i, 0, 0, rewards) for i, rewards in enumerate(drawn)]
    size = sum(map(len, drawn))
    turns = batch(*rows, state_key=[0] * size)
    same(turns, ("gigpo", {"omega": 0.0}), ("episode", {"eps": 1e-6}))


@given(drawn=TRAJECTORIES)
def test_gae_with_the_mean_of_the_pool_as_value_is_mars(batch, drawn):
    rows = [(i, 0, i % 2, rewards) for i, rewards in enumerate(drawn)]
    mars = estimate("mars", batch(*rows))
    of = {pool.key["seat"]: pool.mean for pool in mars.report}
    value = [of[seat] for _, _, seat, rewards in rows for _ in rewards]
    turns = batch(*rows, value=value, truncated=[False] * len(value))
    got = estimate("gae", turns, lambda_=1.0).advantage
    np.testing.assert_allclose(got, mars.advantage, atol=1e-9)


@given(drawn=TRAJECTORIES, data=st.data())
def test_gae_is_monte_carlo_with_lambda_1_and_one_step_with_0(batch, drawn, data):
    rows = [(i, 0, 0, rewards) for i, rewards in enumerate(drawn)]
    size = sum(map(len, drawn))
    value = data.draw(st.lists(st.integers(-9, 9), min_size=size, max_size=size))
    columns = {
        "value": value,
        "truncated": [False] * size,
        "num_tokens": [1] * size,
        "tokens": {"value": value},
    }
    turns = batch(*rows, **columns)
    to_go = [sum(rs[k:]) for rs in drawn for k in range(len(rs))]
    got = estimate("gae", turns, lambda_=1.0).advantage
    np.testing.assert_allclose(got, np.subtract(to_go, value), atol=1e-9)
    same(turns, ("gae", {"lambda_": 0.0}), ("gae", {"num_turns": 1}))
    ppo = {"discount": 0.99, "lambda_": 0.9}
    same(turns, ("turn_ppo", {}), ("gae", ppo))
    same(turns, ("bi_level_gae", ppo), ("gae", ppo))  # one token per turn


@given(drawn=TRAJECTORIES, data=st.data())
def test_bi_level_gae_without_discounts_is_the_return_less_the_tokens_value(
    batch, drawn, data
):
    rows = [(i, 0, 0, rewards) for i, rewards in enumerate(drawn)]
    size = sum(map(len, drawn))
    num = data.draw(st.lists(st.integers(1, 3), min_size=size, max_size=size))
    total = sum(num)
    value = data.draw(st.lists(st.integers(-9, 9), min_size=total, max_size=total))
    columns = {"truncated": [False] * size, "num_tokens": num}
    turns = batch(*rows, **columns, tokens={"value": value})
    to_go = [sum(rs[k:]) for rs in drawn for k in range(len(rs))]
    got = estimate("bi_level_gae", turns, discount=1.0).advantage
    expected = np.repeat(to_go, num).astype(float) - value
    np.testing.assert_allclose(got, expected, atol=1e-9)


@given(drawn=TRAJECTORIES, seed=st.integers(0, 99))
def test_canon_of_equal_halves_adds_the_lead_of_the_own_half(batch, drawn, seed):
    rows = [(i, 0, 0, rewards) for i, rewards in enumerate(drawn * 2)]
    size = sum(len(rewards) for *_, rewards in rows)
    num = np.random.default_rng(seed).integers(1, 50, size)
    turns = batch(*rows, num_tokens=num)
    same(turns, ("canon", {"mu": 0.5}), ("dr_grpo", {}))
    owner = turns.episode
    length = np.bincount(owner, num)
    upper = np.zeros(len(rows), bool)
    upper[np.argsort(length, kind="stable")[len(rows) // 2 :]] = True
    returns = np.array([sum(rewards) for *_, rewards in rows])
    mean = np.where(upper, returns[upper].mean(), returns[~upper].mean())
    expected = returns - returns.mean() + (mean - returns.mean())
    got = estimate("canon", turns, mu=1.0).advantage
    np.testing.assert_allclose(got, expected[owner], atol=1e-9)


def test_canon_of_two_is_rloo(batch):
    turns = batch((0, 0, 0, [1, 2]), (1, 0, 0, [7]))
    same(turns, ("canon", {}), ("rloo", {}))


def test_bnpo_of_one_pool_or_of_equal_ones_is_dr_grpo_of_shares(batch):
    """Returns -1 .. 3 are shares 0 .. 1; the second pool has the same mean."""
    rows = [(i, 0, 0, [r]) for i, r in enumerate([-1, 1, 3, 1, 1, 1])]
    for group in ([0] * 6, [0, 0, 0, 1, 1, 1]):
        turns = batch(*rows, group=group)
        expected = estimate("dr_grpo", turns).advantage / 4
        got = estimate("bnpo", turns, min_return=-1, max_return=3).advantage
        np.testing.assert_allclose(got, expected, atol=1e-9)


def test_bnpo_with_a_semicircle_of_means_is_grpo_up_to_a_constant(batch):
    """p = 1/4, 1/2, 3/4 have mean 1/2 and variance 1/16: a = b = 3/2 = α = β, and the
    density is 8/π √(p(1-p)); √(p(1-p)) is the deviation of returns of 0 and 1."""
    won = [[0, 0, 0, 1], [0, 0, 1, 1], [0, 1, 1, 1]]
    rows = [(i, 0, 0, [r]) for i, r in enumerate(np.ravel(won))]
    turns = batch(*rows, group=np.repeat([0, 1, 2], 4))
    grpo = estimate("episode", turns, ddof=0, eps=0.0).advantage
    got = estimate("bnpo", turns).advantage
    np.testing.assert_allclose(got, np.pi / 8 * grpo)


def test_the_outcome_weighs_as_much_as_what_is_small(batch):
    """Turn rewards of 1 and 2 hundredths, outcomes of 0 and 100, in two turns each."""
    rows = [(0, 0, 0, [0.01, 100]), (1, 0, 0, [0.02, 0])]
    turns = batch(*rows, rewards={"game": [0, 100, 0, 0]})
    got = estimate("mt_grpo", turns, ddof=0, eps=0.0).advantage
    np.testing.assert_allclose(got, [0, 1, 0, -1])


# Bias


def gradient(batch, p, continues, name, paid=1.0, stop=0.0, columns=None, **options):
    """Mean of score times advantage of the first turn, over the episodes of a batch."""
    rows = [(i, 0, 0, [0.0, paid] if c else [stop]) for i, c in enumerate(continues)]
    first = np.array([k == 0 for *_, rs in rows for k in range(len(rs))])
    did = np.concatenate([[1, 0] if c else [0] for c in continues])
    known = {
        "state_key": np.where(first, 0, 1),
        "action": did,
        "truncated": np.zeros(len(first), bool),
        **(columns(first) if columns else {}),
    }
    turns = batch(*rows, **known)
    advantage = estimate(name, turns, **options).advantage[turns.turn == 0]
    return np.mean(np.where(continues, 1 - p, -p) * advantage)


def expected(batch, p, size, name, **options):
    """The mean over all batches of `size` episodes, each as often as it is likely."""
    total = 0.0
    for continues in itertools.product([True, False], repeat=size):
        weight = np.prod([p if c else 1 - p for c in continues])
        total += weight * gradient(batch, p, continues, name, **options)
    return total


def values(before, later):
    return lambda first: {"value": np.where(first, before, later)}


@pytest.mark.parametrize("p", PROBABILITIES)
@pytest.mark.parametrize("size", [1, 2, 4])
@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("rloo", {}),
        ("rloo", {"pool": ("game",)}),
        ("gae", {"lambda_": 1.0, "columns": values(0.7, -3.0)}),
        ("gae", {"lambda_": 0.3, "columns": values(0.7, 1.0)}),
    ],
)
def test_small_batches_are_unbiased(batch, p, size, name, options):
    """GAE with any values for λ = 1, and with the true value of the second turn, 1."""
    got = expected(batch, p, size, name, **options)
    np.testing.assert_allclose(got, p * (1 - p))


@pytest.mark.parametrize("p", PROBABILITIES)
def test_gae_of_one_step_is_as_wrong_as_the_value(batch, p):
    got = expected(batch, p, 1, "gae", lambda_=0.0, columns=values(0.7, -3.0))
    np.testing.assert_allclose(got, -3 * p * (1 - p))


@pytest.mark.parametrize("p", PROBABILITIES)
@pytest.mark.parametrize("size", [2, 4])
@pytest.mark.parametrize(
    ("name", "options", "factor"),
    [
        ("dr_grpo", {}, 1.0),
        ("at_grpo", {"discount": 1.0, "scale": "none"}, 1.0),
        ("agentprm", {}, 1.0),
        ("gigpo", {"discount": 1.0, "scale": "none"}, 2.0),
        ("bnpo", {"min_return": 0, "max_return": 1}, 1.0),
    ],
)
def test_a_mean_with_the_own_episode_shrinks_the_gradient(
    batch, p, size, name, options, factor
):
    got = expected(batch, p, size, name, **options)
    np.testing.assert_allclose(got, factor * (1 - 1 / size) * p * (1 - p))


@pytest.mark.parametrize("p", PROBABILITIES)
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_lead_over_the_second_is_the_gradient_of_the_best_of_n(batch, p, size):
    """The best is 1 unless all stop: 1 - (1-p)^n, whose gradient is n (1-p)^(n-1) p(1-p).
    A pool of one has nothing to be ahead of."""
    got = size * expected(batch, p, size, "grpo_passk")
    known = size * (1 - p) ** (size - 1) * p * (1 - p) if size > 1 else 0.0
    np.testing.assert_allclose(got, known)


def test_at_grpo_without_discount_takes_what_is_paid_now(batch):
    """Stopping pays .1 now, continuing 1 later: the true gradient is .9/4."""
    now = expected(batch, 0.5, 4, "at_grpo", stop=0.1, scale="none")
    later = expected(batch, 0.5, 4, "at_grpo", stop=0.1, scale="none", discount=1.0)
    np.testing.assert_allclose(now, -0.1 / 4 * 3 / 4)
    np.testing.assert_allclose(later, 0.9 / 4 * 3 / 4)


def test_strata_by_the_number_of_turns_do_not_teach_how_many_to_play(batch):
    got = expected(batch, 0.5, 4, "stratified_grpo", blend=1.0)
    np.testing.assert_allclose(got, 0.0, atol=1e-12)
    whole = expected(batch, 0.5, 4, "stratified_grpo", blend=0.0)
    half = expected(batch, 0.5, 4, "stratified_grpo", blend=0.5)
    assert half == pytest.approx(whole / 2)
    assert whole > 0.25


@pytest.mark.parametrize(("mu", "factor"), [(1.0, 2.0), (0.5, 1.0), (0.0, 0.0)])
def test_canon_credits_the_metric_up_to_twice(batch, mu, factor):
    """As many long games as short ones, as in a large batch with p = 1/2."""
    got = gradient(batch, 0.5, [True, False] * 4, "canon", metric="num_turns", mu=mu)
    np.testing.assert_allclose(got, factor / 4)


def team_gradient(batch, alike, size):
    """Of seat 0 of a team of two at p = 1/2, where its move alone pays 1: both, or it."""
    total = 0.0
    for moves in itertools.product([0, 1], repeat=size):
        rows = []
        for i, move in enumerate(moves):
            rows += [(i, 0, 0, [move]), (i, 0, 1, [move if alike else 0])]
        turns = batch(*rows, team=[0] * 2 * size)
        got = estimate("advevo_public_baseline", turns).advantage[turns.seat == 0]
        total += np.mean((np.array(moves) - 0.5) * got) / 2**size
    return total


@pytest.mark.parametrize("size", [1, 2, 4])
def test_a_public_baseline_moves_with_the_team(batch, size):
    """The true gradient is 1/4; of the team's mean return it is that, or half of it."""
    both, own = team_gradient(batch, True, size), team_gradient(batch, False, size)
    np.testing.assert_allclose(both, 0.25 * (1 - 1 / size), atol=1e-12)
    np.testing.assert_allclose(own, 0.25 * (1 - 1 / (2 * size)))


@given(data=st.data(), drawn=TRAJECTORIES)
def test_agentprm_has_the_tabular_gradient_of_comparing_states(batch, data, drawn):
    """Summed over the turns of one state and action, as all of them have one score."""
    rows = [(i, 0, 0, rewards) for i, rewards in enumerate(drawn)]
    size = sum(map(len, drawn))
    keys = st.lists(st.integers(0, 2), min_size=size, max_size=size)
    state, action = np.array(data.draw(keys)), np.array(data.draw(keys))
    turns = batch(*rows, state_key=state, action=action)
    plain = {"scale": "none", "discount": 1.0}
    by_state = estimate("at_grpo", turns, **plain).advantage
    got = estimate("agentprm", turns).advantage
    score = 3 * state + action
    summed, known = np.bincount(score, got), np.bincount(score, by_state)
    np.testing.assert_allclose(summed, known, atol=1e-9)


@pytest.mark.parametrize("p", [0.25, 0.5])
def test_a_workers_share_is_its_gradient_over_the_spread(batch, p):
    """Planners decide nothing; each has two workers, and is paid 1 for the first one's
    success and 1 for luck. All that can happen, as often as it is likely: the deviation is
    √(p(1-p) + 1/4), the true gradient p(1-p)."""
    happens = [
        (won, luck)
        for won in [1] * round(4 * p) + [0] * round(4 * (1 - p))
        for luck in (0, 1)
    ]
    rows, parent = [], []
    for i, (won, luck) in enumerate(happens):
        rows += [
            (3 * i, 0, 0, [won + luck]),
            (3 * i + 1, 0, 0, [0]),
            (3 * i + 2, 0, 0, [0]),
        ]
        parent += [-1, 3 * i, 3 * i]
    turns = batch(*rows, parent=parent)
    got = estimate("matpo", turns, ddof=0, eps=0.0).advantage[turns.episode % 3 == 1]
    score = np.array([won - p for won, _ in happens])
    known = p * (1 - p) / np.sqrt(p * (1 - p) + 0.25)
    np.testing.assert_allclose(np.mean(score * got), known)


@pytest.mark.parametrize(
    ("bounds", "known"),
    [({"min_return": 0, "max_return": 10}, -0.25 / 10 / 2), ({}, 0.075)],
)
def test_bnpo_of_small_batches_prefers_what_wins_often_unless_bounds_are_given(
    batch, bounds, known
):
    """A pays 1; B pays 10 with chance 0.2: the true gradient, for A, is (1 - 2)/4. Without
    bounds the higher of A and B gets 1/2 and the lower one -1/2, whatever they are paid:
    1/4 for the better one, 2 (.5 · .4 - .5 · .1) / 4 in all. Two of a kind give 0.
    """
    outcomes = [(0.5, 0.5, 1.0), (-0.5, 0.4, 0.0), (-0.5, 0.1, 10.0)]
    total = 0.0
    for pair in itertools.product(outcomes, repeat=2):
        turns = batch(*[(i, 0, 0, [paid]) for i, (_, _, paid) in enumerate(pair)])
        score = np.array([score for score, _, _ in pair])
        advantage = estimate("bnpo", turns, **bounds).advantage
        total += pair[0][1] * pair[1][1] * float(np.mean(score * advantage))
    np.testing.assert_allclose(total, known)


@given(returns=RETURNS)
def test_reinforce_plus_plus_of_one_pool_and_one_turn_is_grpo(batch, returns):
    turns = batch(*[(i, 0, 0, [r]) for i, r in enumerate(returns)])
    plus = ("reinforce_plus_plus_baseline", {"eps": 1e-4})
    same(turns, plus, ("episode", {"eps": 1e-4}))


@given(drawn=TRAJECTORIES)
def test_reinforce_plus_plus_is_dr_grpo_in_other_units(batch, drawn):
    """Equally many turns: the batch's mean is 0, and there is one scale for both games."""
    rows = [(i, i % 2, 0, [sum(rewards), 0]) for i, rewards in enumerate(drawn)]
    turns = batch(*rows)
    plus = estimate("reinforce_plus_plus_baseline", turns).advantage
    plain = estimate("dr_grpo", turns).advantage
    std = np.std(plain, ddof=1)
    np.testing.assert_allclose(plus * std, plain, atol=1e-6)
