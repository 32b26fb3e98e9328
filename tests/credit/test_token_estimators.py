"""Estimators that credit tokens: `aepo`, `hapo` and `poad`."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena_credit import estimate

pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
ROOT = 2**0.5


def credit(turns, name, **options):
    return estimate(name, turns, **options).advantage


def one_turn_each(batch, returns, tokens):
    """Episodes of one turn, of one seat and start; all entropies are alike."""
    rows = [(i, 0, 0, [value]) for i, value in enumerate(returns)]
    alike = {"entropy": np.ones(sum(tokens))}
    return batch(*rows, num_tokens=tokens, tokens=alike)


def test_aepo_by_hand(batch):
    """Returns 3 and 1: z-scores ±1/√2. Entropies 1 3 2 2 2: mean 2, variance 2/4, z-scores
    -√2 √2 0 0 0. Weights 1 + z/2. Game 1 is played once."""
    turns = batch(
        (0, 0, 0, [0, 3]),
        (1, 0, 0, [1]),
        (2, 1, 0, [7]),
        num_tokens=[2, 1, 2, 1],
        tokens={"entropy": [1.0, 3.0, 2.0, 2.0, 2.0, 9.0]},
    )
    z = 1 / ROOT
    expected = [z - 0.5, z + 0.5, z, -z, -z, 0]
    np.testing.assert_allclose(credit(turns, "aepo", strength=0.5, eps=0.0), expected)


def test_hapo_by_hand(batch):
    """Return 3 for three tokens and 1 for one: mean 2.5, variance 3/4, z-scores 1/√3 and
    -√3. Log-entropies 0 4 2 | 3: their median 3 is the nearest of the two; less it -3 1 -1
    | 0, by the range -1 1 -1/3 | 0. Weights 0 1 2/3 | 1. Game 1 is played once."""
    turns = batch(
        (0, 0, 0, [0, 3]),
        (1, 0, 0, [1]),
        (2, 1, 0, [7]),
        num_tokens=[2, 1, 1, 1],
        tokens={"entropy": np.exp([0.0, 4.0, 2.0, 3.0, 1.0])},
    )
    z = 1 / 3**0.5
    got = credit(turns, "hapo", quantile=0.5, eps=0.0)
    np.testing.assert_allclose(got, [0, z, z * 2 / 3, -3 * z, 0], atol=1e-12)
    half = credit(turns, "hapo", quantile=0.5, eps=0.0, strength=0.5)
    np.testing.assert_allclose(half, [z / 2, z, z * 5 / 6, -3 * z, 0], atol=1e-12)


def test_hapo_takes_z_scores_of_trajectories_where_those_of_tokens_are_large(batch):
    """Return 1 for one token and 0 for 99: mean .01, deviation .0995, z-score 9.95."""
    turns = one_turn_each(batch, [1.0, 0.0], [1, 99])
    got = credit(turns, "hapo", eps=0.0)
    np.testing.assert_allclose(got, [1 / ROOT] + [-1 / ROOT] * 99)


def test_poad_without_discount_is_ppos_gae_over_all_tokens_of_a_seat(batch):
    """Two turns of two tokens and of three, written as one sequence of tokens."""
    value, reward = [0.5, -1.0, 2.0, 0.3, 0.7], [0.0, 1.0, 0.0, 0.0, -2.0]
    wanted, after = [0.0] * 6, [*value[1:], 0.0]
    for t in reversed(range(5)):
        delta = reward[t] + after[t] - value[t]
        wanted[t] = delta + 0.9 * wanted[t + 1]
    given = {"num_tokens": [2, 3], "truncated": [False, False]}
    turns = batch((0, 0, 0, [1, -2]), tokens={"value": value}, **given)
    options = {"discount": 1.0, "lambda_": 0.9, "lambda_tokens": 0.9}
    np.testing.assert_allclose(credit(turns, "poad", **options), wanted[:5])


def test_poad_by_hand(batch):
    """γ = λ = λ' = 1/2. Values 1 3 | 4, rewards 2, 6: δ = 3 - 1, 2 + 4/2 - 3 and 6 - 4;
    from the end 2, 1 + 2/4, 2 + 1.5/2. Truncated: 0 + 8/2 - 2."""
    turns = batch(
        (0, 0, 0, [2, 6]),
        (1, 0, 0, [0]),
        num_tokens=[2, 1, 1],
        tokens={"value": [1.0, 3.0, 4.0, 2.0]},
        truncated=[False, False, True],
        next_value=[np.nan, np.nan, 8.0],
    )
    got = credit(turns, "poad", discount=0.5, lambda_=0.5, lambda_tokens=0.5)
    np.testing.assert_allclose(got, [2.75, 1.5, 2, 2])


rewards = st.lists(st.integers(-8, 8), min_size=1, max_size=4)
episodes = st.lists(rewards, min_size=1, max_size=4)


def with_values(batch, drawn, data, most=3):
    """A batch of drawn rewards, each turn with up to `most` tokens with drawn values."""
    rows = [(i, 0, 0, paid) for i, paid in enumerate(drawn)]
    size = sum(map(len, drawn))
    counts = data.draw(st.lists(st.integers(1, most), min_size=size, max_size=size))
    total = sum(counts)
    value = data.draw(st.lists(st.integers(-4, 4), min_size=total, max_size=total))
    return batch(
        *rows,
        num_tokens=counts,
        tokens={"value": np.array(value, float)},
        truncated=[False] * size,
    )


@given(drawn=episodes, data=st.data())
def test_poad_without_discounts_is_the_return_to_go_less_the_value(batch, drawn, data):
    turns = with_values(batch, drawn, data)
    got = credit(turns, "poad", discount=1.0, lambda_=1.0, lambda_tokens=1.0)
    to_go = [sum(paid[k:]) for paid in drawn for k in range(len(paid))]
    expected = np.repeat(to_go, turns.num_tokens) - turns.tokens["value"]
    np.testing.assert_allclose(got, expected, atol=1e-9)


@given(
    drawn=episodes, data=st.data(), discount=st.floats(0, 1), lambda_=st.floats(0, 1)
)
def test_poad_of_one_token_per_turn_is_gae(batch, drawn, data, discount, lambda_):
    turns = with_values(batch, drawn, data, most=1)
    value = iter(turns.tokens["value"].tolist())
    expected = []
    for paid in drawn:
        v = [*itertools.islice(value, len(paid)), 0.0]
        for k in range(len(paid)):
            deltas = [paid[j] + discount * v[j + 1] - v[j] for j in range(len(paid))]
            terms = [
                (discount * lambda_) ** (j - k) * deltas[j] for j in range(k, len(paid))
            ]
            expected.append(sum(terms))
    got = credit(turns, "poad", discount=discount, lambda_=lambda_)
    np.testing.assert_allclose(got, expected, atol=1e-9)


@given(drawn=episodes, data=st.data(), times=st.integers(2, 4))
def test_poad_does_not_depend_on_how_many_tokens_an_action_has(
    batch, drawn, data, times
):
    """Each action of one token becomes one of several, all of the same value."""
    turns = with_values(batch, drawn, data, most=1)
    rows = [(i, 0, 0, paid) for i, paid in enumerate(drawn)]
    split = batch(
        *rows,
        num_tokens=turns.num_tokens * times,
        tokens={"value": np.repeat(turns.tokens["value"], times)},
        truncated=turns.truncated,
    )
    got = credit(split, "poad", lambda_tokens=1.0)
    np.testing.assert_allclose(got, np.repeat(credit(turns, "poad"), times), atol=1e-9)


# A reply of two tokens: x, then y; after it a turn of one token, z. What is paid is arbitrary.

FIRST = {(0, 0): 1.0, (0, 1): -2.0, (1, 0): 0.5, (1, 1): 3.0}  # for x, y
SECOND = {0: 2.0, 1: -1.0}  # for z
THETA = {"x": 0.3, ("y", 0): -0.8, ("y", 1): 0.5, "z": 1.1}
PATHS = list(itertools.product((0, 1), repeat=3))


def chance(choice, action):
    p = 1 / (1 + math.exp(-THETA[choice]))
    return p if action else 1 - p


def likelihood(x, y, z):
    return chance("x", x) * chance(("y", x), y) * chance("z", z)


def value(x=None, y=None, z=None):
    """Expected reward from here on, given what was said; of turn 2 alone, once it begins."""
    known = [(k, v) for k, v in zip(range(3), (x, y, z), strict=True) if v is not None]
    fits = [p for p in PATHS if all(p[k] == v for k, v in known)]
    total = sum(likelihood(*p) for p in fits)
    return sum(likelihood(*p) * (FIRST[p[:2]] + SECOND[p[2]]) for p in fits) / total


def values(x, y, exact):
    """Values before x, y and z."""
    if not exact:
        return [0.7, -1.9, 0.4]  # of nothing in particular
    return [value(), value(x), sum(chance("z", z) * SECOND[z] for z in (0, 1))]


def true_gradient():
    """d E[reward] / dθ = p (1 - p) (value of 1 - value of 0), times the chance to be there."""
    p = {c: chance(c, 1) for c in THETA}
    x = p["x"] * (1 - p["x"]) * (value(1) - value(0))
    y = [
        chance("x", i) * p["y", i] * (1 - p["y", i]) * (FIRST[i, 1] - FIRST[i, 0])
        for i in (0, 1)
    ]
    return np.array([x, *y, p["z"] * (1 - p["z"]) * (SECOND[1] - SECOND[0])])


def expected_gradient(batch, exact, **options):
    gradient = np.zeros(4)
    for x, y, z in PATHS:
        turns = batch(
            (0, 0, 0, [FIRST[x, y], SECOND[z]]),
            num_tokens=[2, 1],
            tokens={"value": values(x, y, exact)},
            truncated=[False, False],
        )
        advantage = credit(turns, "poad", **options)
        choices = [("x", x, 0), (("y", x), y, 1 + x), ("z", z, 3)]
        for (choice, action, place), a in zip(choices, advantage, strict=True):
            score = action - chance(choice, 1)
            gradient[place] += likelihood(x, y, z) * score * a
    return gradient


WHOLE = {"discount": 1.0, "lambda_": 1.0, "lambda_tokens": 1.0}


@pytest.mark.parametrize(
    ("exact", "options"),
    [
        (False, WHOLE),
        (True, WHOLE),
        (True, WHOLE | {"lambda_tokens": 0.3}),
        (True, WHOLE | {"lambda_": 0.0, "lambda_tokens": 0.0}),
    ],
)
def test_poad_is_unbiased_with_whole_returns_or_exact_values(batch, exact, options):
    got = expected_gradient(batch, exact, **options)
    np.testing.assert_allclose(got, true_gradient(), atol=1e-12)


def test_poad_is_as_wrong_as_its_values_where_it_trusts_them(batch):
    """The y tokens are followed by the reward itself; x is judged by what y is worth."""
    got = expected_gradient(batch, False, **WHOLE | {"lambda_tokens": 0.0})
    assert abs(got[0] - true_gradient()[0]) > 0.01
    np.testing.assert_allclose(got[1:], true_gradient()[1:], atol=1e-12)


RETURNS = st.lists(st.integers(-8, 8), min_size=2, max_size=6)


@given(returns=RETURNS, tokens=st.lists(st.integers(1, 4), min_size=6, max_size=6))
def test_without_redistribution_they_are_grpo(batch, returns, tokens):
    """`hapo` if all say as much; else the credit of all tokens sums to 0."""
    turns = one_turn_each(batch, returns, tokens[: len(returns)])
    grpo = credit(turns, "episode", eps=1e-6)
    got = credit(turns, "aepo", strength=0.0)
    np.testing.assert_allclose(got, np.repeat(grpo, turns.num_tokens))
    got = credit(turns, "hapo", strength=0.0)
    assert got.sum() == pytest.approx(0, abs=1e-9)
    equal = one_turn_each(batch, returns, [3] * len(returns))
    plain = credit(equal, "episode", ddof=0, eps=1e-6)
    got = credit(equal, "hapo", strength=0.0)
    np.testing.assert_allclose(got, np.repeat(plain, 3), atol=1e-9)


@given(entropy=st.lists(st.floats(0, 9), min_size=4, max_size=4))
def test_weights_average_one_and_stay_between_zero_and_one(batch, entropy):
    """Advantages are 1 and -1 throughout: weights are what remains of them."""
    turns = batch(
        (0, 0, 0, [1.0]),
        (1, 0, 0, [-1.0]),
        num_tokens=[2, 2],
        tokens={"entropy": entropy},
    )
    sign = np.array([1, 1, -1, -1])
    weight = sign * credit(turns, "aepo", ddof=0, eps=0.0)
    assert weight.mean() == pytest.approx(1)
    weight = sign * credit(turns, "hapo", eps=0.0)
    assert (weight >= -1e-12).all()
    assert (weight <= 1 + 1e-12).all()
    if sorted(entropy)[2] > min(entropy) + 1e-3:  # the quantile is the third of four
        assert weight[np.argmin(entropy)] == pytest.approx(0, abs=1e-9)


def test_aepo_turns_the_gradient_towards_uncertain_states(batch):
    """Two states, as likely, in which the right choice earns as much more: 1. In the first
    both are likely (entropy .69), in the second one is at .9 (entropy .33). The gradient of
    a state is p(1-p): .25 and .09. AEPO's z-scores are ±1, its weights 1 ± a."""
    p = np.repeat([0.5, 0.9], 10)
    right = np.tile(np.arange(10) < 5, 2) & (p == 0.5) | (np.arange(20) % 10 < 9) & (
        p > 0.5
    )
    entropy = -p * np.log(p) - (1 - p) * np.log(1 - p)
    rows = [(i, 0, 0, [float(r)]) for i, r in enumerate(right)]
    turns = batch(*rows, group=(p > 0.5).astype(int), tokens={"entropy": entropy})
    plain = credit(turns, "episode", scale="none")
    score = right - p
    true = np.add.reduceat(score * plain, [0, 10]) / 10
    np.testing.assert_allclose(true, [0.25, 0.09])
    base = np.add.reduceat(score * credit(turns, "aepo", strength=0.0), [0, 10])
    got = np.add.reduceat(score * credit(turns, "aepo", strength=0.5), [0, 10])
    z = 0.5 * (19 / 20) ** 0.5  # of 20 entropies, ddof 1
    np.testing.assert_allclose(got / base, [1 + z, 1 - z])


@pytest.mark.parametrize(("name", "sign"), [("episode", 1), ("hapo", -1)])
def test_hapo_can_be_wrong_in_direction_where_play_decides_how_much_is_said(
    batch, name, sign
):
    """A pays 1 and is said in one token. B pays 4 in one token or -2.4 in five, as likely:
    .8 on average. The true gradient is towards A; groups of 4 expect one towards B."""
    outcomes = [(0.5, 0.5, 1.0, 1), (-0.5, 0.25, 4.0, 1), (-0.5, 0.25, -2.4, 5)]
    total = 0.0
    for drawn in itertools.product(range(3), repeat=4):
        scores, chances, paid, tokens = zip(*(outcomes[d] for d in drawn), strict=True)
        turns = one_turn_each(batch, paid, tokens)
        advantage = credit(turns, name)
        if name == "hapo":
            advantage = advantage[np.cumsum(tokens) - tokens]
        total += math.prod(chances) * np.mean(np.array(scores) * advantage)
    assert np.sign(total) == sign
    assert abs(total) > 0.005


TURNS = {
    "num_tokens": [1],
    "tokens": {"entropy": [1.0], "value": [0.0]},
    "truncated": [False],
}


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("aepo", {"strength": -1.0}, "want strength between 0 and inf, got -1.0"),
        (
            "aepo",
            {"entropy_pool": ("gme",)},
            "want pool columns among .* got 'gme'",
        ),
        ("hapo", {"strength": 2.0}, "want strength between 0 and 1, got 2.0"),
        ("hapo", {"quantile": 80}, "want quantile between 0 and 1, got 80"),
        ("hapo", {"eps": -1.0}, "want eps between 0 and inf"),
        ("poad", {"discount": 1.5}, "want discount between 0 and 1, got 1.5"),
        ("poad", {"lambda_": -0.5}, "want lambda_ between 0 and 1, got -0.5"),
        ("poad", {"lambda_tokens": 2}, "want lambda_tokens between 0 and 1, got 2"),
    ],
)
def test_options_out_of_range_are_named(batch, name, options, message):
    with pytest.raises(ValueError, match=message):
        credit(batch((0, 0, 0, [1.0]), **TURNS), name, **options)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("aepo", "tokens.entropy"),
        ("hapo", "tokens.entropy"),
        ("poad", "tokens.value"),
    ],
)
def test_missing_columns_are_named(batch, name, column):
    with pytest.raises(ValueError, match=f"want the column '{column}'"):
        credit(batch((0, 0, 0, [1.0])), name)


def test_an_entropy_below_zero_is_refused(batch):
    turns = batch((0, 0, 0, [1.0]), tokens={"entropy": [-0.1]})
    with pytest.raises(ValueError, match=r"want entropies of at least 0, got -0\.1"):
        credit(turns, "hapo")
