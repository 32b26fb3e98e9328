"""From episodes to the turn batch and the training rows."""

import numpy as np
import pytest

from arena_credit import estimate
from arena_trainers.train import turn_batch, turn_records
from arena_trainers.train.rows import training_rows, with_placeholder_rows
from arena_trainers.train.turn_batches import rows_of_process
from arena_wrappers import Branching, Episode, Turn


def turn(seat, index, reward, num_tokens=2, penalty=0.0, **values):
    parts = {"game": reward} | ({"format": -penalty} if penalty else {})
    defaults = {
        "policy": "self",
        "messages": [],
        "legal": ["bet"],
        "reply": "bet",
        "action": 1,
        "invalid": None,
        "detail": None,
        "rewards": parts,
        "prompt_ids": [1, 2, 3],
        "token_ids": list(range(num_tokens)),
        "logprobs": [-0.5] * num_tokens,
    }
    return Turn(index=index, seat=seat, **(defaults | values))


def episode(seed, turns, **values):
    defaults = {
        "game": "kuhn_poker-v0",
        "params": {},
        "max_turns": None,
        "prompt": {},
        "seed": seed,
        "sample": 0,
        "actions": [],
        "returns": [0.0, 0.0, 0.0],
        "terminated": True,
        "truncated": False,
    }
    return Episode(turns=turns, **(defaults | values))


EPISODES = [
    episode(7, [turn(0, 0, 1.0), turn(1, 0, -1.0, 3), turn(0, 1, 2.0, 1, penalty=0.5)]),
    episode(7, [turn(0, 0, 4.0), turn(2, 0, 9.0)], terminated=False, truncated=True),
]
SEATS = [("self", "random", "self")] * 2  # of both episodes


def test_columns_of_a_batch_made_by_hand():
    """Seat 1 is frozen and has no row; only a trajectory's last turn is flagged."""
    batch = turn_batch([turn_records(EPISODES, [0, 0], SEATS)], {}, ["kuhn"])
    assert batch.reward.tolist() == [1.0, 1.5, 4.0, 9.0]
    assert batch.episode.tolist() == [0, 0, 1, 1]
    assert batch.seat.tolist() == [0, 0, 0, 2]
    assert batch.turn.tolist() == [0, 1, 0, 0]
    assert batch.group.tolist() == [0, 0, 0, 0]
    assert batch.num_tokens.tolist() == [2, 1, 2, 2]
    assert batch.row_length.tolist() == [5, 4, 5, 5]
    assert batch.terminated.tolist() == [False, True, False, False]
    assert batch.truncated.tolist() == [False, False, True, True]
    assert batch.rewards["format"].tolist() == [0.0, -0.5, 0.0, 0.0]


def test_a_limit_cuts_the_last_turn_of_a_seat_and_no_other():
    turns = [turn(0, 0, 0.0), turn(2, 0, 0.0), turn(0, 1, 0.0)]
    cut = episode(7, turns, terminated=False, truncated=True)
    records = turn_records([cut], [0], SEATS[:1])
    assert [record.truncated for record in records] == [False, True, True]


def test_parts_that_nobody_was_paid_are_zero():
    episodes = [episode(7, [turn(0, 0, 1.0), turn(2, 0, 9.0)])]
    batch = turn_batch([turn_records(episodes, [0], SEATS[:1])], {}, ["kuhn"])
    assert batch.rewards["format"].tolist() == [0.0, 0.0]
    nothing = turn_batch([[]], {}, ["kuhn"])
    assert sorted(nothing.rewards) == ["format", "game"]


def test_weights_scale_the_parts_of_the_reward():
    records = turn_records(EPISODES, [0, 0], SEATS)
    batch = turn_batch([records], {"format": 2.0, "game": 0.5}, ["kuhn"])
    assert batch.reward.tolist() == [0.5, 0.0, 2.0, 4.5]
    assert batch.rewards["game"].tolist() == [0.5, 1.0, 2.0, 4.5]
    assert batch.rewards["format"].tolist() == [0.0, -1.0, 0.0, 0.0]


def test_a_part_of_weight_zero_is_read_as_it_came_and_not_paid():
    records = turn_records(EPISODES, [0, 0], SEATS)
    batch = turn_batch([records], {"game": 0.0}, ["kuhn"])
    assert batch.reward.tolist() == [0.0, -0.5, 0.0, 0.0]
    assert batch.rewards["game"].tolist() == [1.0, 2.0, 4.0, 9.0]


def test_the_outcome_counts_once_whatever_its_weight():
    """Outcomes 1 and 0 of weight 2, paid at the second turn, and nothing else: T = 0, so
    that all turns have the z-score of the outcome, as with weight 1."""
    episodes = [episode(7, [turn(0, 0, 0.0), turn(0, 1, paid)]) for paid in (1.0, 0.0)]
    records = turn_records(episodes, [0, 0], SEATS)
    found = [
        estimate("mt_grpo", turn_batch([records], weights, ["kuhn"]), eps=0.0)
        for weights in ({}, {"game": 2.0}, {"game": 2.0, "format": 3.0})
    ]
    for result in found:
        wanted = [0.5**0.5] * 2 + [-(0.5**0.5)] * 2
        np.testing.assert_allclose(result.advantage, wanted)


def test_episodes_of_different_processes_are_different_episodes():
    shares = [turn_records([e], [0], SEATS[:1]) for e in EPISODES]
    batch = turn_batch(shares, {}, ["kuhn"])
    assert batch.episode.tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("per_token", [False, True])
def test_rows_carry_their_advantages(per_token):
    records = turn_records(EPISODES, [0, 0], SEATS)
    batch = turn_batch([records], {}, ["kuhn"])
    advantage = np.array([10.0, 20.0, 30.0, 40.0])
    if per_token:
        advantage = np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0])
    rows = training_rows(EPISODES, records, batch, advantage, range(4))
    expected = (
        [[1, 2], [3], [4, 5], [6, 7]]
        if per_token
        else [[10, 10], [20], [30, 30], [40, 40]]
    )
    assert [row.advantage.tolist() for row in rows] == expected
    assert [row.episode_return for row in rows] == [2.5, 2.5, 4.0, 9.0]


def test_a_process_takes_back_its_own_rows():
    shares = [turn_records([e], [0], SEATS[:1]) for e in EPISODES]
    batch = turn_batch(shares, {}, ["kuhn"])
    advantage = np.array([10.0, 20.0, 30.0, 40.0])
    in_batch = rows_of_process(shares, 1)
    rows = training_rows(EPISODES[1:], shares[1], batch, advantage, in_batch)
    assert [row.advantage[0] for row in rows] == [30.0, 40.0]


TREE = [
    episode(7, [turn(0, 0, 1.0), turn(2, 0, 9.0), turn(0, 1, 2.0)]),
    episode(7, [turn(0, 0, 1.0), turn(2, 0, 4.0), turn(0, 1, 3.0)], parent=0, branch=1),
]


@pytest.mark.parametrize("follow", ["best", "random", "all", None])
def test_later_turns_of_candidates_are_no_fair_sample_where_the_best_is_followed(
    follow,
):
    branching = None if follow is None else Branching(2, follow=follow)
    records = turn_records(TREE, [0, 0], SEATS, branching=branching)
    batch = turn_batch([records], {}, ["kuhn"], ["parent"])
    assert batch.reward.tolist() == [1.0, 9.0, 2.0, 4.0, 3.0]
    assert batch.unselected.tolist() == [True] * 4 + [follow != "best"]
    rows = training_rows(TREE, records, batch, 10 * batch.reward, range(5))
    want = [10, 90, 20, 40, 30][: int(batch.unselected.sum())]
    assert [row.advantage[0] for row in rows] == want


def test_placeholder_rows_fill_up_and_carry_nothing():
    records = turn_records(EPISODES, [0, 0], SEATS)
    batch = turn_batch([records], {}, ["kuhn"])
    rows = training_rows(EPISODES, records, batch, np.zeros(4), range(4))
    filled = with_placeholder_rows(rows, 6, end_id=2)
    assert [row.advantage is None for row in filled] == [False] * 4 + [True] * 2
    assert filled[-1].episode_return == np.mean([2.5, 2.5, 4.0, 9.0])
    assert [row.completion_ids for row in with_placeholder_rows([], 2, end_id=2)] == [
        [2],
        [2],
    ]


def test_a_learner_without_tokens_is_refused():
    broken = [episode(1, [turn(0, 0, 1.0, token_ids=None)])]
    with pytest.raises(ValueError, match="has no tokens"):
        turn_records(broken, [0], SEATS[:1])
