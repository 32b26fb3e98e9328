"""Rows of several rounds in one file."""

from arena_envs.extras import import_extra
from arena_trainers.data import (
    Completion,
    Origin,
    ReplyPart,
    read_origin,
    rows_to_dataset,
    write_rows,
)
from arena_trainers.offline.aggregation import newest_of_kind, write_aggregated
from arena_wrappers import PromptOptions

FACTS = {"game": "general", "seat": 0, "turn": 0, "sample": 0, "policy": "general"}
FACTS |= {"reason": "", "prompt": [{"role": "user", "content": "?"}], "prompt_ids": [0]}


def test_equal_rows_of_two_rounds_are_merged(tmp_path):
    """Only rows that are of no episode can be equal: the seeds of rounds differ."""
    one, two, three = (
        Completion(**FACTS, seed=n, completion=[ReplyPart("a", [n])]) for n in (1, 2, 3)
    )
    first, second = rows_to_dataset([one, two]), rows_to_dataset([two, three])
    origin = [Origin([{"id": name}], [PromptOptions()]) for name in ("b", "a")]
    files = [tmp_path / name for name in ("first", "other")]
    write_rows(first, files[0], origin[0])
    write_rows(first.remove_columns("weight"), files[1])  # of another kind
    before, path = newest_of_kind(files, second.column_names), tmp_path / "both"
    assert before == files[0]
    assert write_aggregated(second, origin[1], before, path) == 3
    parquet = import_extra("pyarrow.parquet", "train")
    found = parquet.read_table(path).to_pylist()
    assert [(row["seed"], row["weight"]) for row in found] == [(1, 1), (2, 2), (3, 1)]
    assert read_origin(path) == Origin([{"id": "a"}, {"id": "b"}], [PromptOptions()])
