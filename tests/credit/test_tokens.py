"""Credit within a turn, and the token columns of a batch."""

import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena_credit import (
    SurpriseWarning,
    TurnBatch,
    by_token_entropy,
    by_value_differences,
    decayed_sums,
    estimate,
    surprise_z,
    surprises,
    trajectories,
    uniform_over_tokens,
)

ADVANTAGE, COUNTS = np.array([6.0, -1.0, 2.0]), np.array([3, 1, 2])

numbers = st.integers(-8, 8).map(lambda x: x / 4)
replies = st.lists(
    st.tuples(numbers, st.lists(numbers, min_size=1, max_size=5)),
    min_size=1,
    max_size=5,
)


def flat(drawn):
    """Advantages, numbers of tokens, and a token column of drawn (advantage, tokens)."""
    advantage = np.array([a for a, _ in drawn])
    counts = np.array([len(tokens) for _, tokens in drawn])
    return advantage, counts, np.concatenate([tokens for _, tokens in drawn])


def sums(column, counts):
    return np.add.reduceat(column, np.cumsum(counts) - counts)


def test_uniform_credit_by_hand():
    got = uniform_over_tokens(ADVANTAGE, COUNTS)
    assert got.tolist() == [6, 6, 6, -1, 2, 2]


def test_credit_by_entropy_by_hand():
    """Means 2, 5 and 0: 6 · (1, 0, 5) / 2, -1 · 5 / 5, and 2 for both without entropy."""
    entropy = np.array([1.0, 0.0, 5.0, 5.0, 0.0, 0.0])
    got = by_token_entropy(ADVANTAGE, COUNTS, entropy)
    assert got.tolist() == [3, 0, 15, -1, 2, 2]


def test_credit_by_value_differences_by_hand():
    """Ends 6 + 1 = 7, -1 + 4 = 3 and 2 + 0 = 2; differences 1 3 2 | -1 | 5 -3."""
    value = np.array([1.0, 2.0, 5.0, 4.0, 0.0, 5.0])
    own = by_value_differences(ADVANTAGE, COUNTS, value, lambda_=0.0)
    assert own.tolist() == [1, 3, 2, -1, 5, -3]
    half = by_value_differences(ADVANTAGE, COUNTS, value, lambda_=0.5)
    assert half.tolist() == [3, 4, 2, -1, 3.5, -3]
    whole = by_value_differences(ADVANTAGE, COUNTS, value)
    assert whole.tolist() == [6, 5, 2, -1, 2, -3]


@given(drawn=replies)
def test_what_redistribution_keeps(drawn):
    """The sum of the differences is the turn's advantage; shares by entropy average it."""
    advantage, counts, value = flat(drawn)
    own = by_value_differences(advantage, counts, value, lambda_=0.0)
    np.testing.assert_allclose(sums(own, counts), advantage, atol=1e-9)
    shares = by_token_entropy(advantage, counts, np.abs(value))
    np.testing.assert_allclose(sums(shares, counts), counts * advantage, atol=1e-9)


@given(drawn=replies, level=st.integers(0, 4))
def test_where_tokens_are_alike_credit_is_uniform(drawn, level):
    advantage, counts, _ = flat(drawn)
    alike = np.full(counts.sum(), float(level))
    uniform = uniform_over_tokens(advantage, counts)
    got = by_token_entropy(advantage, counts, alike)
    np.testing.assert_allclose(got, uniform, atol=1e-9)
    got = by_value_differences(advantage, counts, alike)
    np.testing.assert_allclose(got, uniform, atol=1e-9)


@given(
    values=st.lists(numbers, min_size=1, max_size=20),
    data=st.data(),
)
def test_decayed_sums_are_the_recursion_written_out(values, data):
    size = len(values)
    decay = data.draw(
        st.lists(st.sampled_from([0.0, 0.5, 1.0]), min_size=size, max_size=size)
    )
    expected, after = [], 0.0
    for x, d in zip(reversed(values), reversed(decay), strict=True):
        after = x + (d * after if expected else 0.0)
        expected.append(after)
    got = decayed_sums(np.array(values), np.array(decay))
    np.testing.assert_allclose(got, expected[::-1], atol=1e-9)


def test_entropies_below_zero_and_lambdas_above_one_are_refused():
    with pytest.raises(ValueError, match=r"want entropies of at least 0, got -0\.5"):
        by_token_entropy(ADVANTAGE[:1], COUNTS[1:2], np.array([-0.5]))
    with pytest.raises(ValueError, match="want lambda_ between 0 and 1, got 2"):
        by_value_differences(ADVANTAGE[:1], COUNTS[1:2], np.array([0.0]), lambda_=2)


ROWS = {
    "reward": [0.0, 0.0, 0.0],
    "game": [0, 0, 0],
    "episode": [1, 0, 0],
    "seat": [0, 0, 0],
    "turn": [0, 1, 0],
    "group": [0, 0, 0],
    "num_tokens": [2, 1, 2],
}
ENTROPY = {"entropy": [1.0, 2.0, 3.0, 4.0, 5.0]}


@pytest.mark.parametrize(
    ("odd", "message"),
    [({"logprob": [0.9] * 5}, "0.9"), ({"entropy": [-0.5] * 5}, "-0.5")],
)
def test_surprise_refuses_probabilities_and_entropies_below_zero(odd, message):
    tokens = {"logprob": [-0.1] * 5, **ENTROPY, **odd}
    with pytest.raises(ValueError, match=f"got {message}; pass"):
        surprises(trajectories(TurnBatch(**ROWS, tokens=tokens)))


def test_token_columns_come_in_the_order_of_the_turns():
    """Turn 0 of episode 0 is the last row, then its turn 1, then episode 1."""
    live = trajectories(TurnBatch(**ROWS, tokens=ENTROPY))
    assert live.column("num_tokens").tolist() == [2, 1, 2]
    assert live.column("tokens.entropy").tolist() == [4, 5, 3, 1, 2]
    scattered = live.scatter(live.column("tokens.entropy"), per_token=True)
    assert scattered.tolist() == ENTROPY["entropy"]


def test_tokens_of_masked_turns_are_not_there():
    nan = {"entropy": [1.0, 2.0, np.nan, 4.0, 5.0]}
    live = trajectories(TurnBatch(**ROWS, tokens=nan, mask=[True, False, True]))
    assert live.column("tokens.entropy").tolist() == [4, 5, 1, 2]
    assert live.scatter(np.ones(4), per_token=True).tolist() == [1, 1, 0, 1, 1]


@pytest.mark.parametrize(
    ("columns", "name", "message"),
    [
        ({}, "tokens.entropy", "want the column 'tokens.entropy' in the turn batch"),
        ({"tokens": ENTROPY}, "tokens.value", "want the column 'tokens.value'"),
        ({}, "rewards.judge", "want the column 'rewards.judge'"),
        ({"rewards": {"game": [0, 0, 0]}}, "rewards.judge", "'rewards.judge'"),
        ({}, "action_value", "want the column 'action_value'"),
    ],
)
def test_a_missing_column_is_named(columns, name, message):
    live = trajectories(TurnBatch(**ROWS, **columns))
    with pytest.raises(ValueError, match=message):
        live.column(name)


def test_a_turn_without_tokens_has_no_token_credit():
    columns = ROWS | {"num_tokens": [2, 0, 3]}
    live = trajectories(TurnBatch(**columns, tokens=ENTROPY))
    with pytest.raises(
        ValueError, match=r"want tokens in every turn, got num_tokens\[1\] = 0"
    ):
        live.column("tokens.entropy")


def test_parts_of_the_reward_are_columns():
    live = trajectories(TurnBatch(**ROWS, rewards={"judge": [1.0, 2.0, 3.0]}))
    assert live.column("rewards.judge").tolist() == [3, 2, 1]


def sampled(rng, num_turns, spread, entropy_at=1.0, num_tokens=8):
    """A batch whose tokens come from 64 policies, with entropies at another temperature.

    Seven likely tokens, alike with a spread of 0, and e^12 others that have 2 % together.
    """
    log_count = np.array([0.0] * 7 + [12.0])
    logits = spread * rng.normal(size=(64, 8))
    logits[:, 7] = np.log(0.02 * np.exp(logits[:, :7]).sum(1)) - 12

    def at(temperature):
        """Probabilities of the eight kinds of tokens, and the logarithm of that of one token."""
        weights = np.exp(logits / temperature + log_count)
        chances = weights / weights.sum(1, keepdims=True)
        return chances, np.log(chances) - log_count

    chances, logs = at(1.0)
    total = num_turns * num_tokens
    policy = rng.integers(64, size=total)
    token = (rng.random((total, 1)) > chances.cumsum(1)[policy]).sum(1)
    other_chances, other_logs = at(entropy_at)
    entropy = -(other_chances * other_logs).sum(1)
    zeros = np.zeros(num_turns, int)
    return TurnBatch(
        rng.normal(size=num_turns),
        episode=np.arange(num_turns),
        num_tokens=zeros + num_tokens,
        tokens={"logprob": logs[policy, token], "entropy": entropy[policy]},
        **dict.fromkeys(("game", "seat", "turn", "group"), zeros),
    )


def test_surprise_of_another_temperature_is_warned_of_and_right_surprise_is_not():
    """Probabilities are at temperature 0.7 where entropies are at 1, or the other way round."""
    rng = np.random.default_rng(0)
    for num_turns in (8, 32, 128, 1024):
        for spread in (0.0, 1.0, 3.0, 8.0):
            batches = [sampled(rng, num_turns, spread, num_tokens=1) for _ in range(20)]
            assert max(abs(surprise_z(trajectories(b))) for b in batches) < 4
    for spread in (1.0, 3.0):
        with warnings.catch_warnings():
            warnings.simplefilter("error", SurpriseWarning)
            right = estimate("control_variates", sampled(rng, 1024, spread))
        assert abs(right.report.surprise_z) < 4
        for entropy_at, sign in ((1 / 0.7, 1), (0.7, -1)):
            batch = sampled(rng, 1024, spread, entropy_at)
            with pytest.warns(SurpriseWarning, match="temperature"):
                wrong = estimate("control_variates", batch)
            assert sign * wrong.report.surprise_z > 5
