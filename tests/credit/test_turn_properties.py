"""What holds for the estimators that need further columns, on batches drawn at random."""

from dataclasses import replace

import numpy as np
import pytest

from arena_trainers.credit import (
    FlatPoolWarning,
    TurnBatch,
    check_options,
    estimate,
    estimators,
)

pytestmark = pytest.mark.filterwarnings("ignore::arena_trainers.credit.FlatPoolWarning")
NAMES = [
    "advevo_public_baseline",
    "agentprm",
    "at_grpo",
    "bi_level_gae",
    "canon",
    "gae",
    "gigpo",
    "matpo",
    "mt_grpo",
    "turn_ppo",
]
for_every_estimator = pytest.mark.parametrize("name", NAMES)
SEEDS = [0, 1, 2, 3]
for_many_batches = pytest.mark.parametrize("seed", SEEDS)


def draw(seed):
    """Columns of a batch: two games, three seats, one to four turns, all columns there are.

    Episodes of game 0 have one seat; of these, the odd ones work for the one before.
    """
    rng = np.random.default_rng(seed)
    rows = [
        (episode, episode % 2, seat, turn)
        for episode in range(12)
        for seat in range(1 + 2 * (episode % 2))
        for turn in range(rng.integers(1, 5))
    ]
    episode, game, seat, turn = np.array(rows).T
    size = len(rows)
    last = np.append(turn[1:] == 0, True)
    reward = rng.integers(-8, 9, size) / 4
    works = (game == 0) & (episode % 4 == 2)
    return {
        "reward": reward,
        "game": game,
        "episode": episode,
        "seat": seat,
        "turn": turn,
        "group": episode % 4,
        "rewards": {"game": np.where(last, reward, 0.0)},
        "team": seat % 2,
        "state_key": 10 * turn + rng.integers(0, 2, size),
        "action": rng.integers(0, 2, size),
        "parent": np.where(works, episode - 2, -1),
        "value": rng.normal(size=size),
        "truncated": last & (episode % 3 == 0),
        "terminated": last & (episode % 3 != 0),
        "next_value": np.where(last, rng.normal(size=size), np.nan),
        "num_tokens": rng.integers(1, 5, size),
        "tokens": {"value": rng.normal(size=(size, 5))},  # the first ones of each row
    }


def make(columns, rows=slice(None)):
    """A batch of some rows; tokens are what `num_tokens` takes of each."""
    taken = {k: v[rows] for k, v in columns.items() if not isinstance(v, dict)}
    parts = {k: v[rows] for k, v in columns["rewards"].items()}
    mine = np.arange(5) < taken["num_tokens"][:, None]
    tokens = {k: v[rows][mine] for k, v in columns["tokens"].items()}
    return TurnBatch(**taken, rewards=parts, tokens=tokens)


def per_turn(name, turns):
    """float64[N]: the advantage, or that of the turn's first token."""
    got = estimate(name, turns).advantage
    if name != "bi_level_gae":
        return got
    return got[np.cumsum(turns.num_tokens) - turns.num_tokens]


@for_every_estimator
@for_many_batches
def test_row_order_carries_no_meaning(name, seed):
    columns = draw(seed)
    order = np.random.default_rng(seed + 9).permutation(len(columns["turn"]))
    got = per_turn(name, make(columns, order))
    assert got.tolist() == per_turn(name, make(columns))[order].tolist()


@for_every_estimator
@for_many_batches
def test_masked_turns_are_never_read(name, seed):
    columns = draw(seed)
    mask = np.random.default_rng(seed).random(len(columns["turn"])) < 0.7
    columns["mask"] = mask
    before = per_turn(name, make(columns))
    assert not before[~mask].any()
    assert np.isfinite(before).all()
    for column in (columns["reward"], columns["value"], columns["next_value"]):
        column[~mask] = np.nan
    columns["rewards"]["game"][~mask] = np.nan
    columns["tokens"]["value"][~mask] = np.nan
    assert per_turn(name, make(columns)).tolist() == before.tolist()


@for_every_estimator
@for_many_batches
def test_games_do_not_touch_each_other(name, seed):
    columns = draw(seed)
    own = columns["game"] == 1
    expected = per_turn(name, make(columns))[own]
    alone = per_turn(name, make(columns, own))
    np.testing.assert_allclose(alone, expected, atol=1e-9)
    columns["reward"] = np.where(own, columns["reward"], -3 * columns["reward"])
    assert per_turn(name, make(columns))[own].tolist() == expected.tolist()


@for_every_estimator
@for_many_batches
def test_seats_are_only_labels(name, seed):
    columns = draw(seed)
    turns = make(columns)
    relabelled = replace(turns, seat=np.array([2, 0, 1])[turns.seat])
    got, expected = per_turn(name, relabelled), per_turn(name, turns)
    np.testing.assert_allclose(got, expected, atol=1e-9)


@for_every_estimator
def test_nothing_is_written_into_the_batch_and_it_may_be_empty(name):
    columns = draw(0)
    turns = make(columns)
    estimate(name, turns)
    again = make(draw(0))
    for column in ("reward", "value", "next_value", "parent", "truncated"):
        np.testing.assert_array_equal(getattr(turns, column), getattr(again, column))
    columns["mask"] = np.zeros(len(columns["turn"]), bool)
    result = estimate(name, make(columns))
    assert not result.advantage.any()
    assert len(result.report) == 0


@pytest.mark.filterwarnings("default::arena_trainers.credit.FlatPoolWarning")
@pytest.mark.parametrize("rewards", [[3.0], [3.0, 3.0, 3.0]])
@pytest.mark.parametrize(
    "name",
    [name for name in NAMES if name not in ("bi_level_gae", "gae", "turn_ppo")],
)
def test_a_pool_of_one_or_of_equal_returns_gives_zeros_and_a_warning(
    batch, name, rewards
):
    zeros = [0] * len(rewards)
    turns = batch(
        *[(i, 0, 0, [r]) for i, r in enumerate(rewards)],
        team=zeros,
        state_key=zeros,
        action=range(len(rewards)),
        parent=[-1] * len(rewards),
        rewards={"game": zeros},
    )
    with pytest.warns(FlatPoolWarning, match=f"'{name}': all advantages are 0"):
        got = estimate(name, turns).advantage
    assert got.tolist() == zeros


def takes_discount(name):
    try:
        check_options(name, ["discount"])
    except ValueError:
        return False
    return True


@pytest.mark.parametrize("discount", [-0.5, 1.5, np.nan])
@pytest.mark.parametrize("name", [n for n in estimators() if takes_discount(n)])
def test_a_discount_out_of_range_is_named(name, discount):
    turns = make(draw(0))
    columns = {
        "action_value": turns.value,
        "rewards": {**turns.rewards, "judge": turns.reward},
        "tokens": {
            "value": turns.tokens["value"],
            "entropy": np.abs(turns.tokens["value"]),
        },
    }
    message = f"want discount between 0 and 1, got {discount}"
    with pytest.raises(ValueError, match=message):
        estimate(name, replace(turns, **columns), discount=discount)
