"""What a turn batch accepts, and how it refuses the rest."""

import numpy as np
import pytest

from arena_trainers.credit import TurnBatch, trajectories

GOOD = {
    "reward": [0.0, 1.0, 2.0],
    "game": [0, 0, 0],
    "episode": [4, 4, 4],
    "seat": [0, 0, 1],
    "turn": [0, 1, 0],
    "group": [7, 7, 7],
}


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"seat": [0, 0]}, r"want seat of shape \(3,\), got \(2,\)"),
        ({"seat": None}, r"want seat of shape \(3,\), got \(\)"),
        ({"reward": [[0.0, 1.0, 2.0]]}, r"want reward of shape \(3,\), got \(1, 3\)"),
        (
            {"reward": [0.0, np.nan, 1.0]},
            r"want finite numbers, got reward\[1\] = nan",
        ),
        ({"reward": [0.0, 1.0, np.inf]}, r"got reward\[2\] = inf"),
        ({"reward": ["a", "b", "c"]}, "want numbers in reward"),
        ({"rewards": {"game": [0.0, 1.0]}}, r"want rewards\['game'\] of shape \(3,\)"),
        ({"rewards": {"game": [0, 1, np.nan]}}, r"got rewards\['game'\]\[2\] = nan"),
        ({"value": [0, np.nan, 1]}, r"got value\[1\] = nan"),
        ({"action_value": [0, np.nan, 1]}, r"got action_value\[1\] = nan"),
        (
            {"num_tokens": [1, 1, 1], "tokens": {"value": [0, 1, np.inf]}},
            r"want finite numbers, got tokens\['value'\]\[2\] = inf",
        ),
        ({"action": [0.5, 1, 2]}, "want integers in action, got 0.5"),
        ({"episode": [4, 4, 4.5]}, "want integers in episode, got 4.5"),
        ({"turn": [0.0, 1.0, 0.0]}, "want integers in turn, got 0.0"),
        ({"game": [True, True, True]}, "want integers in game, got True"),
        ({"mask": [1, 1, 2]}, "want true or false in mask, got 2"),
        ({"turn": [1, 2, 0]}, "got turn 1 after nothing"),
        ({"turn": [0, 0, 0]}, "got two of turn 0 of seat 0 in episode 4"),
        ({"turn": [0, 2, 0]}, r"of seat 0 in episode 4, got turn 2 after turn 0"),
        ({"game": [0, 0, 1]}, "want one game in episode 4, got 0 and 1"),
        ({"group": [7, 8, 7]}, "want one group in episode 4, got 7 and 8"),
        ({"team": [0, 1, 0]}, "want one team in episode 4, got 0 and 1"),
        ({"stratum": [0, 1, 0]}, "want one stratum in episode 4, got 0 and 1"),
        ({"rollout": [0, 1, 1]}, "want one rollout in episode 4, got 0 and 1"),
        (
            {
                "episode": [4, 5, 4],
                "game": [0, 1, 0],
                "turn": [0, 0, 0],
                "rollout": [9, 9, 9],
            },
            "want one game in rollout 9, got 0 and 1",
        ),
        ({"num_tokens": [1, -1, 1]}, r"want counts, got num_tokens\[1\] = -1"),
        ({"tokens": {"entropy": [0.0]}}, "want num_tokens beside tokens"),
        (
            {"num_tokens": [1, 2, 1], "tokens": {"entropy": [0.0] * 3}},
            r"want tokens\['entropy'\] of shape \(4,\), got \(3,\)",
        ),
        ({"game_names": ()}, r"want games below 0 \(game_names\), got game\[0\] = 0"),
    ],
)
def test_what_is_wrong_is_named(columns, message):
    with pytest.raises(ValueError, match=message):
        TurnBatch(**GOOD | columns)


def test_columns_become_float64_and_int64_and_are_copies():
    reward = np.array([0, 1, 2], np.float32)
    turns = TurnBatch(
        **GOOD | {"reward": reward, "seat": np.array([0, 0, 1], np.uint8)}
    )
    reward[0] = 9
    assert (turns.reward.dtype, turns.seat.dtype) == (np.float64, np.int64)
    assert turns.reward.tolist() == [0, 1, 2]


def test_masked_rows_may_hold_anything_in_their_floats():
    nan = [0.0, 1.0, np.nan]
    turns = TurnBatch(
        **GOOD | {"reward": nan, "value": nan, "mask": [True, True, False]}
    )
    assert trajectories(turns).row.tolist() == [0, 1]


def test_a_branch_starts_where_it_was_branched():
    turns = TurnBatch(**GOOD | {"turn": [3, 4, 2], "parent": [0, 0, 0]})
    assert trajectories(turns).left.tolist() == [1, 0, 0]


def test_segments_are_joined_in_the_order_of_their_episodes():
    """Rows of rollout 1: episode 6 first, then episode 9 with the turns after."""
    turns = TurnBatch(
        reward=[3.0, 1.0, 2.0, 5.0],
        game=[0] * 4,
        episode=[9, 6, 6, 7],
        seat=[0] * 4,
        turn=[0, 0, 1, 0],
        group=[0] * 4,
        rollout=[1, 1, 1, 0],
    )
    live = trajectories(turns)
    assert live.column("reward").tolist() == [5, 1, 2, 3]
    assert live.index.tolist() == [0, 1, 1, 1]
    assert live.left.tolist() == [0, 2, 1, 0]


def test_a_batch_may_be_empty():
    turns = TurnBatch([], [], [], [], [], [])
    assert trajectories(turns).first.tolist() == []
