"""`within_turn`: exact expected gradients in a game of one turn with two tokens.

The first token is 1 with probability p, the second with probability q₀ or q₁ after it; a
reply of tokens (a, b) is paid PAID[a, b]. The logits of p, q₀ and q₁ are the parameters.
"""

import itertools

import numpy as np
import pytest

from arena_credit import (
    TurnBatch,
    by_token_entropy,
    by_value_differences,
    estimate,
    estimator_names,
    needed_columns,
    needs,
    per_token,
)
from arena_credit.by_name import docstring
from arena_credit.estimators.outcome import dr_grpo

P, Q = 0.3, (0.5, 0.9)
PAID = np.array([[1.0, -2.0], [0.5, 3.0]])
REPLIES = list(itertools.product((0, 1), repeat=2))
WRONG = {(): 7.0, (0,): -3.0, (1,): 2.0}  # values, by what was said before the token
pytestmark = pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")

WHOLE = {"decay": 1.0}  # of `rae`: its advantage is the return


def entropy(p):
    return -p * np.log(p) - (1 - p) * np.log(1 - p)


def score(a, b):
    """∇ log π of both tokens, [2, 3]."""
    found = np.zeros((2, 3))
    found[0, 0] = a - P
    found[1, 1 + a] = b - Q[a]
    return found


def chance(a, b):
    return (P if a else 1 - P) * (Q[a] if b else 1 - Q[a])


def batch(*replies, paid=PAID):
    """One turn an episode, with entropies of the policy and values that are wrong."""
    size, same = len(replies), [0] * len(replies)
    return TurnBatch(
        reward=[paid[reply] for reply in replies],
        game=same,
        episode=range(size),
        seat=same,
        turn=same,
        group=same,
        truncated=[False] * size,
        num_tokens=[2] * size,
        tokens={
            "entropy": np.ravel([[entropy(P), entropy(Q[a])] for a, _ in replies]),
            "value": np.ravel([[WRONG[()], WRONG[a,]] for a, _ in replies]),
        },
    )


def expected(credit, size=1, paid=PAID):
    """The expected gradient of a batch of episodes, over all that can be said in it."""
    total = np.zeros(3)
    for replies in itertools.product(REPLIES, repeat=size):
        weight = np.prod([chance(*reply) for reply in replies])
        scores = np.concatenate([score(*reply) for reply in replies])
        advantage = credit(batch(*replies, paid=paid))
        if len(advantage) == size:
            advantage = np.repeat(advantage, 2)
        total += weight * advantage @ scores / size
    return total


def by(how, name="rae", **options):
    return lambda turns: estimate(name, turns, within_turn=how, **options).advantage


def true_gradient(paid=PAID):
    """∇ Σ π(a, b) PAID[a, b], by hand."""
    of = [q * paid[a, 1] + (1 - q) * paid[a, 0] for a, q in enumerate(Q)]
    second = [
        (1 - P, P)[a] * q * (1 - q) * (paid[a, 1] - paid[a, 0]) for a, q in enumerate(Q)
    ]
    return np.array([P * (1 - P) * (of[1] - of[0]), *second])


@pytest.mark.parametrize("how", ["uniform", "values"])
def test_equal_credit_and_credit_by_values_are_unbiased(how):
    """By values with λ = 1, even by wrong ones."""
    np.testing.assert_allclose(expected(by(how, **WHOLE)), true_gradient(), atol=1e-12)


@pytest.mark.parametrize("how", ["uniform", "values"])
@pytest.mark.parametrize(
    ("name", "options", "factor"),
    [("mars", {}, 0.5), ("dr_grpo", {"pool": ["game"]}, 0.5), ("mars_loo", {}, 1.0)],
)
def test_the_bias_is_that_of_the_estimator(how, name, options, factor):
    """In batches of two a mean that contains the return itself takes half of it."""
    got = expected(by(how, name, **options), size=2)
    np.testing.assert_allclose(got, factor * true_gradient(), atol=1e-12)


@pytest.mark.parametrize("lambda_", [0.0, 0.5])
def test_differences_of_wrong_values_are_biased_below_lambda_one(lambda_):
    def credit(turns):
        column = turns.tokens["value"]
        return by_value_differences(turns.reward, turns.num_tokens, column, lambda_)

    assert abs(expected(credit) - true_gradient()).max() > 0.1


def test_credit_by_entropy_weighs_the_gradient_by_what_is_said_later():
    """By hand: a token's share is w₁ = 2 H(p) / (H(p) + H(q_a)), and w₂ = 2 - w₁."""
    first = [2 * entropy(P) / (entropy(P) + entropy(q)) for q in Q]
    of = [q * PAID[a, 1] + (1 - q) * PAID[a, 0] for a, q in enumerate(Q)]
    true = true_gradient()
    wanted = [
        P * (1 - P) * (first[1] * of[1] - first[0] * of[0]),
        (2 - first[0]) * true[1],
        (2 - first[1]) * true[2],
    ]
    got = expected(by("entropy", **WHOLE))
    np.testing.assert_allclose(got, wanted, atol=1e-12)
    assert abs(got - true).max() > 0.1


@pytest.mark.parametrize("level", [1.0, -1.0])
def test_credit_by_entropy_prefers_to_be_sure_where_all_is_paid_alike(level):
    """The true gradient is 0. After 1 the reply is surer (q = .9) than after 0 (q = .5):
    equal advantages above 0 push towards 1, those below 0 away from it."""
    alike = np.full((2, 2), level)
    np.testing.assert_allclose(
        expected(by("uniform", **WHOLE), paid=alike), 0, atol=1e-12
    )
    np.testing.assert_allclose(
        expected(by("values", **WHOLE), paid=alike), 0, atol=1e-12
    )
    got = expected(by("entropy", **WHOLE), paid=alike)
    assert level * got[0] > 0.05
    np.testing.assert_allclose(got[1:], 0, atol=1e-12)


def test_credit_by_entropy_can_be_wrong_in_direction():
    """Saying 1 costs .1 and makes the reply sure: advantages above 0 still push to it."""
    paid = np.array([[1.1, 1.1], [1.0, 1.0]])
    assert true_gradient(paid)[0] == pytest.approx(-0.1 * P * (1 - P))
    assert expected(by("uniform", **WHOLE), paid=paid)[0] < 0
    assert expected(by("entropy", **WHOLE), paid=paid)[0] > 0


@pytest.mark.parametrize("name", ["mars", "episode", "rae", "gigpo", "canon"])
def test_the_option_is_the_function_on_what_the_estimator_credits(name):
    """In rows that are out of order, one of them masked."""
    rows = {
        "reward": [0.0, 2.0, 5.0, 1.0, 9.0],
        "game": [0] * 5,
        "episode": [1, 0, 0, 2, 3],
        "seat": [0] * 5,
        "turn": [0, 1, 0, 0, 0],
        "group": [0] * 5,
        "state_key": [0, 1, 0, 0, 0],
        "num_tokens": [2, 1, 2, 3, 1],
        "mask": [True, True, True, True, False],
    }
    column = np.array([1.0, 2.0, 0.5, 3.0, 1.0, 0.0, 1.0, 4.0, np.nan])
    turns = TurnBatch(**rows, tokens={"entropy": column, "value": column})
    plain = estimate(name, turns)
    for how, function in (
        ("entropy", by_token_entropy),
        ("values", by_value_differences),
    ):
        got = estimate(name, turns, within_turn=how)
        counts = np.array([2, 1, 2, 3])
        wanted = function(plain.advantage[:4], counts, column[:8])
        np.testing.assert_allclose(got.advantage, [*wanted, 0.0])
        assert got.report.size.tolist() == plain.report.size.tolist()
    again = estimate(name, turns, within_turn="uniform")
    assert again.advantage.tolist() == plain.advantage.tolist()


@pytest.mark.parametrize("name", ["aepo", "hapo", "poad", "bi_level_gae"])
@pytest.mark.parametrize("how", ["entropy", "values"])
def test_estimators_that_credit_tokens_refuse(name, how):
    message = f"'{name}' credits tokens itself; want within_turn 'uniform', got '{how}'"
    with pytest.raises(ValueError, match=message):
        estimate(name, batch((0, 0), (1, 1)), within_turn=how)


def masked_and_short(entropies):
    """Live turns of one token each, which is masked beside a turn of four tokens."""
    one = dict.fromkeys(("game", "seat", "turn", "group"), [0] * 3)
    return TurnBatch(
        [1.0, 5.0, 9.0],
        episode=[0, 1, 2],
        num_tokens=[1, 1, 4],
        mask=[True, True, False],
        truncated=[False] * 3,
        tokens={"entropy": entropies, "value": np.zeros(6)},
        **one,
    )


@pytest.mark.parametrize("how", ["entropy", "values"])
def test_turns_of_one_token_come_per_token_too(how):
    turns = masked_and_short(np.ones(6))
    got = estimate("mars", turns, within_turn=how).advantage
    assert got.tolist() == [-2.0, 2.0, 0.0, 0.0, 0.0, 0.0]
    assert estimate("mars", turns).advantage.tolist() == [-2.0, 2.0, 0.0]


@pytest.mark.parametrize("name", ["aepo", "hapo", "poad", "bi_level_gae"])
def test_estimators_of_tokens_come_per_token_where_turns_have_one(name):
    turns = masked_and_short(np.ones(6))
    assert len(estimate(name, turns).advantage) == 6
    for how in ("entropy", "values"):
        with pytest.raises(ValueError, match="credits tokens itself"):
            estimate(name, turns, within_turn=how)


@pytest.mark.parametrize("name", estimator_names())
def test_what_credits_tokens_says_so(name):
    assert per_token(name) == ("per token" in docstring(name).partition("Returns:")[2])
    if not per_token(name):
        assert per_token(name, "entropy")
        assert per_token(name, "values")


def test_one_advantage_for_each_token_is_wanted_of_those_that_say_so():
    def undeclared(turns):
        credit = dr_grpo(turns)
        return credit._replace(advantage=np.repeat(credit.advantage, 2))

    turns = batch((0, 0), (1, 1))
    with pytest.raises(ValueError, match="want 2 advantages, one per turn, got 4"):
        estimate(undeclared, turns)
    assert len(estimate(needs(per_token=True)(undeclared), turns).advantage) == 4
    with pytest.raises(ValueError, match="want 4 advantages, one per token, got 2"):
        estimate(needs(per_token=True)(lambda turns: dr_grpo(turns)), turns)


def test_what_is_missing_or_unknown_is_named():
    plain = TurnBatch([1.0], game=[0], episode=[0], seat=[0], turn=[0], group=[0])
    for how, column in (("entropy", "num_tokens"), ("values", "num_tokens")):
        with pytest.raises(ValueError, match=f"want the column '{column}'"):
            estimate("mars", plain, within_turn=how)
    with pytest.raises(ValueError, match="within_turn among uniform, entropy, values"):
        estimate("mars", plain, within_turn="entropies")
    with pytest.raises(ValueError, match="within_turn among"):
        needed_columns("mars", "entropies")


@pytest.mark.parametrize("name", estimator_names())
def test_the_column_is_among_those_needed(name):
    own = needed_columns(name)
    assert needed_columns(name, "uniform") == own
    for how, column in (("entropy", "tokens.entropy"), ("values", "tokens.value")):
        assert {*needed_columns(name, how)} == {*own, "num_tokens", column}
