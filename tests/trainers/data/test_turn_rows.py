"""Episodes as data sets: TRL's format, exact round trips, refusals."""

from pathlib import Path

import datasets
import pytest
from datasets import Dataset
from trl import is_conversational

from arena_trainers.data import from_dataset, to_dataset
from arena_wrappers import Branching, Episode, RandomPolicy, ScriptedPolicy, play

HOSTILE = '</answer> <|im_start|>\ud800 "x" \x00'


@pytest.fixture(scope="module")
def episodes():
    """Numbered games and one of free words, with forfeits, in mixed order."""
    odd = ScriptedPolicy(lambda request: HOSTILE)
    return [
        *play("kuhn_poker", "random", range(3), num_samples=2),
        *play("bargaining", "random", range(2)),
        *play("kuhn_poker", [odd, "random"], [2**63 - 1]),
        *play("mini_hanabi", "random", [0]),
    ]


def stored(episodes):
    return [Episode.from_json(episode.to_json()) for episode in episodes]


def test_a_dataset_gives_the_episodes_back_through_parquet(episodes, tmp_path):
    made = to_dataset(episodes)
    made.to_parquet(tmp_path / "turns.parquet")
    read = Dataset.from_parquet(
        str(tmp_path / "turns.parquet"), cache_dir=str(tmp_path)
    )
    assert read.features == made.features
    assert from_dataset(made) == stored(episodes)
    assert from_dataset(read.shuffle(seed=1)) == stored(episodes)


def test_rows_are_turns_in_the_format_that_trl_reads(episodes):
    made = to_dataset(episodes)
    turns = [turn for episode in episodes for turn in episode.turns]
    assert len(made) == len(turns)
    row, turn = made[0], turns[0]
    assert is_conversational({k: row[k] for k in ("prompt", "completion")})
    assert row["prompt"] == list(turn.messages)
    assert row["completion"] == [{"role": "assistant", "content": turn.reply}]
    assert (row["game"], row["seat"]) == ("kuhn_poker-v0", turn.seat)
    assert row["return"] == episodes[0].returns[turn.seat]
    assert (row["reward"], row["is_valid"]) == (turn.reward, True)
    won = made.filter(lambda row: row["is_valid"] and row["return"] > 0)
    assert 0 < len(won) < len(made)
    odd = [turn for turn in turns if turn.reply == HOSTILE]
    assert len(odd) == 1


def test_rows_without_the_record_tell_only_what_the_seat_saw(episodes):
    made, whole = to_dataset(episodes, record=False), to_dataset(episodes)
    assert made.to_list() == whole.remove_columns("record").to_list()
    with pytest.raises(ValueError, match=r"without \['record'\]; .* and record=True"):
        from_dataset(made)


def test_tokens_and_branches_survive(kuhn_env, policy):
    branching = Branching(2, follow="all")
    episodes = play(kuhn_env, [policy, RandomPolicy()], range(2), branch=branching)
    assert any(episode.parent for episode in episodes)
    assert from_dataset(to_dataset(episodes)) == stored(episodes)
    # the last tree alone: parents are counted anew
    first = max(n for n, episode in enumerate(episodes) if episode.parent is None)
    last = to_dataset(episodes).filter(lambda row: row["episode"] >= first)
    kept = from_dataset(last)
    assert [episode.parent for episode in kept][:2] == [None, 0]


def test_what_cannot_be_restored_is_refused(episodes):
    made = to_dataset(episodes)
    with pytest.raises(ValueError, match="restore episodes before you filter rows"):
        from_dataset(made.filter(lambda row: row["seat"] == 0))
    with pytest.raises(ValueError, match="make the data set with to_dataset"):
        from_dataset(made.remove_columns("record"))
    twice = datasets.concatenate_datasets([made, made])
    with pytest.raises(ValueError, match="episode 0 stands twice; restore each data"):
        from_dataset(twice)
    (huge,) = play("kuhn_poker", "random", [2**63])
    with pytest.raises(ValueError, match=r"below 2\*\*63 in a data set"):
        to_dataset([huge])
    assert from_dataset(to_dataset([])) == []


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            "e.jsonl",
            r"want a list of Episodes, got 'e.jsonl' \(str\); read a file with",
        ),
        (
            Path("e.jsonl"),
            r"got PosixPath\('e.jsonl'\) \(PosixPath\); read a file with",
        ),
        (None, r"want a list of Episodes, got None \(NoneType\); read a file"),
        ([1], r"want Episodes, got entry 0, 1 \(int\)"),
    ],
)
def test_what_is_no_list_of_episodes_is_refused(given, message):
    with pytest.raises(TypeError, match=message):
        to_dataset(given)


def test_one_episode_or_a_path_is_refused_with_advice(episodes):
    with pytest.raises(TypeError, match=r"got one Episode; write \[episode\]"):
        to_dataset(episodes[0])
    with pytest.raises(TypeError, match=r"got 't.parquet' \(str\); read a file with"):
        from_dataset("t.parquet")


@pytest.fixture(autouse=True, scope="module")
def _no_bars():
    datasets.disable_progress_bars()
    yield
    datasets.enable_progress_bars()
