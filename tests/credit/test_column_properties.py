"""What holds for every built-in estimator that needs further columns."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from arena_trainers.credit import FlatPoolWarning, TurnBatch, estimate, needed_columns
from arena_trainers.credit.registry import _BUILT_IN

NAMES = [name for name in _BUILT_IN if needed_columns(name)]
PER_TOKEN = ("aepo", "bi_level_gae", "hapo", "poad")
NOT_COMPARED = (
    "archer",
    "bi_level_gae",
    "counterfactual",
    "gae",
    "poad",
    "turn_ppo",
)
pytestmark = pytest.mark.filterwarnings("ignore::arena_trainers.credit.FlatPoolWarning")

rewards = st.lists(st.integers(-8, 8).map(lambda x: x / 4), min_size=1, max_size=3)
episodes = st.tuples(
    st.integers(0, 1), st.dictionaries(st.integers(0, 2), rewards, min_size=1)
)
batches = st.lists(episodes, min_size=1, max_size=5)
for_each = pytest.mark.parametrize("name", NAMES)


def build(batch, drawn):
    """A batch with all columns; tokens, states and values differ from turn to turn."""
    rows = [
        (e, game, seat, paid)
        for e, (game, seats) in enumerate(drawn)
        for seat, paid in seats.items()
    ]
    n = np.arange(sum(len(paid) for *_, paid in rows))
    num_tokens = 1 + n % 3
    t = np.arange(num_tokens.sum())
    turns = batch(
        *rows,
        num_tokens=num_tokens,
        tokens={"entropy": t * 0.37 % 2, "value": t * 0.61 % 3, "logprob": -(t % 2)},
        state_key=n % 2,
        action=n % 3 // 2,
        value=n * 0.29 % 2,
        action_value=n * 0.53 % 2,
        rewards={"judge": n % 2 - 0.5, "game": n * 0 + 1.0},
        row_length=num_tokens + 4,
    )
    last = np.append(turns.turn[1:] == 0, True)
    cut = last & (n % 2 == 0)
    turns = replace(turns, team=turns.seat % 2, parent=n * 0 - 1)
    return replace(turns, truncated=cut, terminated=last & ~cut, next_value=n * 0.1)


def tokens_of(turns, rows):
    starts = np.cumsum(turns.num_tokens) - turns.num_tokens
    parts = [np.arange(starts[r], starts[r] + turns.num_tokens[r]) for r in rows]
    return np.concatenate([np.zeros(0, int), *parts])


def take(turns, rows):
    """The batch of these rows, in this order."""
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


def credit(name, turns):
    """Advantages per token; where each turn that counts is one token, they come per turn."""
    got = estimate(name, turns).advantage
    assert np.isfinite(got).all()
    live = turns.num_tokens if turns.mask is None else turns.num_tokens[turns.mask]
    if name in PER_TOKEN and (live > 1).any():
        assert got.shape == (turns.num_tokens.sum(),)
        return got
    assert got.shape == turns.reward.shape
    return np.repeat(got, turns.num_tokens)


def part(turns, advantage, rows):
    return advantage[tokens_of(turns, rows)]


@for_each
@given(drawn=batches, data=st.data())
def test_row_order_carries_no_meaning(batch, name, drawn, data):
    turns = build(batch, drawn)
    order = np.array(data.draw(st.permutations(range(len(turns.reward)))))
    expected = part(turns, credit(name, turns), order)
    got = credit(name, take(turns, order))
    np.testing.assert_allclose(got, expected, atol=1e-12)


@for_each
@given(drawn=batches, data=st.data())
def test_masked_turns_are_never_read(batch, name, drawn, data):
    turns = build(batch, drawn)
    size = len(turns.reward)
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=size, max_size=size)))
    live = np.repeat(mask, turns.num_tokens)

    def hidden(column):
        return np.where(mask if len(column) == size else live, column, np.nan)

    first = replace(turns, mask=mask)
    second = replace(
        first,
        tokens={k: np.where(live, v, np.nan) for k, v in turns.tokens.items()},
        rewards={k: hidden(v) for k, v in turns.rewards.items()},
        **{k: hidden(getattr(turns, k)) for k in ("reward", "value", "action_value")},
        next_value=hidden(turns.next_value),
    )
    got = credit(name, second)
    assert got.tolist() == credit(name, first).tolist()
    assert not part(turns, got, np.flatnonzero(~mask)).any()


@for_each
@given(drawn=batches)
def test_masked_trajectories_and_other_games_are_as_if_not_there(batch, name, drawn):
    turns = build(batch, drawn)
    rows = np.flatnonzero(turns.game == 0)
    alone = credit(name, take(turns, rows)) if len(rows) else np.zeros(0)
    beside = part(turns, credit(name, turns), rows)
    np.testing.assert_allclose(beside, alone, atol=1e-12)
    masked = credit(name, replace(turns, mask=turns.game == 0))
    np.testing.assert_allclose(part(turns, masked, rows), alone, atol=1e-12)


@for_each
@given(drawn=batches, seats=st.permutations(range(3)))
def test_seats_are_only_labels(batch, name, drawn, seats):
    turns = build(batch, drawn)
    relabelled = replace(turns, seat=np.array(seats)[turns.seat])
    got = credit(name, relabelled)
    np.testing.assert_allclose(got, credit(name, turns), atol=1e-9)


@pytest.mark.filterwarnings("default::arena_trainers.credit.FlatPoolWarning")
@pytest.mark.parametrize("name", [n for n in NAMES if n not in NOT_COMPARED])
def test_a_pool_of_one_gives_zeros_and_a_warning(batch, name):
    with pytest.warns(FlatPoolWarning, match=f"'{name}': all advantages are 0"):
        got = credit(name, build(batch, [(0, {0: [3.0]})]))
    np.testing.assert_allclose(got, 0, atol=1e-9)


@for_each
def test_a_batch_may_be_empty(batch, name):
    turns = build(batch, [(0, {0: [1.0, 2.0], 1: [3.0]})])
    result = estimate(name, replace(turns, mask=[False] * 3))
    assert not result.advantage.any()
    assert len(result.report) == 0
