"""Files of rows that a trainer cannot learn from are refused in one sentence."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from datasets import Dataset

from arena_trainers.data import (
    load_chat,
    origin_of,
    read_origin,
    rows_to_dataset,
    select,
    write_rows,
)
from arena_trainers.offline.row_file import check_row_tokens, check_rows, file_facts
from arena_trainers.runs.row_player import without_defaults
from arena_wrappers import PromptOptions, play

ROW = {"prompt_ids": [[5, 6]], "completion_ids": [[7, 2]], "completion_mask": [[0, 1]]}
GOOD = {**ROW, "weight": [1.0]}


def written(tmp_path, columns):
    path = tmp_path / "rows.parquet"
    Dataset.from_dict(columns).to_parquet(str(path))
    return path


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        (
            {"text": ["hi"]},
            "prompt and completion, or messages .lists of messages., got text",
        ),
        ({**GOOD, "label": [True]}, "want completions for this trainer, got labels"),
        ({"prompt_ids": [[5]], "chosen_ids": [[7]]}, "trainer, got pairs in"),
        ({**GOOD, "weights": [1.0]}, "unknown column 'weights'; did you mean 'weight'"),
        (ROW, "want the column 'weight' in"),
        ({name: [] for name in GOOD}, "want at least one row in"),
    ],
)
def test_files_of_other_columns_are_refused(tmp_path, columns, message):
    with pytest.raises(ValueError, match=message):
        check_rows(written(tmp_path, columns), "completions")


def test_files_with_roles_are_read(tmp_path):
    check_rows(
        written(tmp_path, {**GOOD, "role": ["planner"], "parent": [-1]}), "completions"
    )


def test_files_that_are_no_parquet_are_refused(tmp_path):
    (tmp_path / "rows.jsonl").write_text("{}\n")
    (tmp_path / "rows.txt").write_text("{}\n")
    with pytest.raises(ValueError, match="want Parquet in"):
        check_rows(tmp_path / "rows.txt", "completions")
    with pytest.raises(ValueError, match="want completions for this trainer"):
        check_rows(tmp_path / "rows.jsonl", "completions")
    with pytest.raises(ValueError, match=r"found none at 'none\.parquet'"):
        check_rows(Path("none.parquet"), "completions")


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"weight": [-1.0]}, "want finite weights of at least 0"),
        ({"weight": [float("nan")]}, "want finite weights of at least 0"),
        ({"weight": [0.0]}, "want tokens to train"),
        ({"completion_mask": [[0, 0]]}, "want tokens to train"),
    ],
)
def test_rows_that_train_nothing_are_refused(tmp_path, changed, message):
    with pytest.raises(ValueError, match=message):
        file_facts(written(tmp_path, {**GOOD, **changed}), "completions")


def test_facts_are_those_of_all_rows(tmp_path):
    columns = {
        "prompt_ids": [[5, 6], [5]],
        "completion_ids": [[7, 2], [9, 9, 9]],
        "completion_mask": [[0, 1], [1, 1, 1]],
        "weight": [2.0, 1.0],
    }
    facts = file_facts(written(tmp_path, columns), "completions")
    assert facts[:5] == (2, 4, 3, 9, 4)
    assert facts.scale == 4 / 5
    np.testing.assert_array_equal(facts.weights, [2.0, 1.0])


@pytest.mark.parametrize(
    ("masks", "longest"),
    [
        ([[1, 1, 0, 0, 0, 1]], 2),
        ([[1, 0, 0, 1, 1, 1], [1, 1]], 3),
        ([[0, 0, 1, 1], [1]], 4),  # a revision: a mistake that is read, then trained
        ([[1], [], [1, 0, 1, 1]], 2),
    ],
)
def test_a_reply_ends_where_the_seat_reads_on(tmp_path, masks, longest):
    columns = {
        "prompt_ids": [[5]] * len(masks),
        "completion_ids": masks,
        "completion_mask": masks,
        "weight": [1.0] * len(masks),
    }
    assert (
        file_facts(written(tmp_path, columns), "completions").longest_reply == longest
    )


def test_tokens_of_another_tokenizer_are_refused(tmp_path, policy, kuhn_env):
    policy.save_pretrained(tmp_path / "model")
    chat = load_chat(str(tmp_path / "model"))
    rows = select("wins", play(kuhn_env, "random", range(5))).rows
    path = tmp_path / "rows.parquet"
    write_rows(rows_to_dataset(rows, chat), path)
    facts = file_facts(path, "completions")
    check_row_tokens(path, facts, chat)
    with pytest.raises(
        ValueError, match=r"have the token 999.* tokenizer only \d+; give"
    ):
        check_row_tokens(path, facts._replace(largest_id=999), chat)
    others = [replace(row, prompt_ids=[6, 7, 8]) for row in rows]
    write_rows(rows_to_dataset(others, chat), path)
    with pytest.raises(ValueError, match="do not spell its prompt"):
        check_row_tokens(path, facts, chat)


def test_a_file_says_which_games_and_prompts_its_rows_are_of(
    tmp_path, policy, kuhn_env
):
    policy.save_pretrained(tmp_path / "model")
    chat = load_chat(str(tmp_path / "model"))
    episodes = play(kuhn_env, "random", range(5)) + play("kuhn_poker", "random", [9])
    rows = select("wins", episodes[:5]).rows
    path = tmp_path / "rows.parquet"
    write_rows(rows_to_dataset(rows, chat), path, origin_of(rows, episodes))
    found = read_origin(path)
    assert [game["id"] for game in found.games] == ["kuhn_poker-v0"]
    assert found.games[0]["params"] == {"num_players": 2}
    assert without_defaults(found.games[0]) == {"id": "kuhn_poker-v0"}
    three = {"id": "kuhn_poker-v0", "params": {"num_players": 3}, "max_turns": 9}
    assert without_defaults(three) == three
    assert list(found.prompts) == [PromptOptions("bare", rules=False)]
    again = Dataset.from_parquet(str(path), cache_dir=str(tmp_path / "cache"))
    assert again.features == rows_to_dataset(rows, chat).features
    write_rows(rows_to_dataset(rows, chat), path)
    assert read_origin(path) is None
