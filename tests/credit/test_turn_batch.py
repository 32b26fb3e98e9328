"""What a turn batch accepts, and how it refuses the rest."""

import numpy as np
import pytest

from arena_credit import TurnBatch, estimate, trajectories, values_after
from arena_credit.testing.check import take

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
        (
            {"num_tokens": [1, -1, 1]},
            r"want num_tokens of at least 0, got num_tokens\[1\] = -1",
        ),
        ({"row_length": [1, 1, -7]}, r"at least 0, got row_length\[2\] = -7"),
        (
            {"turn": [-5, -4, 0], "parent": [1, 1, 1]},
            r"want turn of at least 0, got turn\[0\] = -5",
        ),
        ({"reward": [0.0, [1.0], 2.0]}, r"want one number per row in reward, got \[0"),
        ({"value": [0.0, [1.0], 2.0]}, "want one number per row in value, got"),
        ({"rewards": {"game": [0, [1], 2]}}, r"per row in rewards\['game'\], got"),
        (
            {"rewards": [0, 1, 2]},
            r"want a mapping from names to columns in rewards, got \[0, 1, 2\]",
        ),
        (
            {"num_tokens": [1, 1, 1], "tokens": [0, 1, 2]},
            r"want a mapping from names to columns in tokens, got \[0, 1, 2\]",
        ),
        (
            {"reward": [0, 1, -1e160]},
            r"want numbers up to 1e\+100, got reward\[2\] = -1e",
        ),
        ({"value": [0, 1e101, 0]}, r"want numbers up to 1e\+100, got value\[1\] = 1e"),
        (
            {"truncated": [True, False, False]},
            r"want truncated on last turns only, got truncated\[0\] = True on turn 0 of "
            "seat 0 in episode 4, which is not the last",
        ),
        ({"terminated": [True, True, True]}, r"got terminated\[0\] = True on turn 0"),
        (
            {"truncated": [False, True, True], "terminated": [False, False, True]},
            r"not both, got terminated\[2\] = truncated\[2\] = True",
        ),
        ({"parent": [4, 4, 4]}, "want parents .* got a circle from episode 4"),
        ({"parent": [0, 0, 1]}, "want one parent in episode 4, got 0 and 1"),
        ({"tokens": {"entropy": [0.0]}}, "want num_tokens with tokens"),
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


def test_episodes_that_branched_in_a_circle_are_refused():
    """5 from 7 from 6 from 5; episode 4 from 5."""
    zeros = [0] * 4
    with pytest.raises(
        ValueError, match=r"without one, got a circle from episode [567]$"
    ):
        TurnBatch(zeros, zeros, [4, 5, 6, 7], zeros, zeros, zeros, parent=[5, 7, 5, 6])


def test_columns_become_float64_and_int64_and_are_copies():
    reward = np.array([0, 1, 2], np.float32)
    turns = TurnBatch(
        **GOOD | {"reward": reward, "seat": np.array([0, 0, 1], np.uint8)}
    )
    reward[0] = 9
    assert [turns.reward.dtype, turns.seat.dtype] == ["float64", "int64"]
    assert turns.reward.tolist() == [0, 1, 2]


def test_masked_rows_may_hold_anything_in_their_floats():
    nan = [0.0, 1.0, np.nan]
    turns = TurnBatch(
        **GOOD | {"reward": nan, "value": nan, "mask": [True, True, False]}
    )
    assert trajectories(turns).row.tolist() == [0, 1]


def test_flags_and_tokens_of_masked_rows_are_never_read():
    """Row 0 says that seat 0 ends there, row 1 that it ends in two ways; row 2 counts."""
    turns = TurnBatch(
        **GOOD,
        mask=[False, False, True],
        terminated=[True, True, True],
        truncated=[False, True, False],
        num_tokens=[0, 1, 2],
        tokens={"entropy": [np.nan, 1.0, 2.0]},
    )
    live = trajectories(turns)
    assert live.column("truncated").tolist() == [False]
    assert live.column("tokens.entropy").tolist() == [1, 2]


def test_a_trajectory_may_end_before_masked_turns():
    turns = TurnBatch(**GOOD, mask=[True, False, True], truncated=[True, False, False])
    assert trajectories(turns).column("truncated").tolist() == [True, False]


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


def test_segments_of_a_rollout_may_end_in_their_own_ways():
    columns = {**GOOD, "episode": [4, 5, 4], "turn": [0, 0, 0], "rollout": [9, 9, 9]}
    turns = TurnBatch(
        **columns,
        truncated=[True, False, False],
        terminated=[False, True, True],
        value=[1.0, 2.0, 3.0],
    )
    after = values_after(trajectories(turns), turns.value)
    assert after.tolist() == [2, 0, 0]


def test_a_batch_may_be_empty():
    turns = TurnBatch([], [], [], [], [], [])
    assert trajectories(turns).first.tolist() == []


@pytest.mark.filterwarnings("ignore::arena_credit.FlatPoolWarning")
@pytest.mark.parametrize("name", ["aepo", "bi_level_gae", "hapo", "poad"])
def test_only_turns_that_count_must_have_tokens(name):
    columns = {**GOOD, "num_tokens": [2, 0, 1], "truncated": [False] * 3}
    columns["tokens"] = {"entropy": [1.0, 2.0, 4.0], "value": [1.0, 2.0, 3.0]}
    masked = TurnBatch(**columns, mask=[True, False, True])
    alone = take(masked, np.array([0, 2]))
    got = estimate(name, masked).advantage.tolist()
    assert got == estimate(name, alone).advantage.tolist()
    with pytest.raises(
        ValueError, match=r"tokens in every turn, got num_tokens\[1\] = 0"
    ):
        estimate(name, TurnBatch(**columns))
