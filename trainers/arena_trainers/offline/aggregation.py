"""Rows of earlier rounds and of this one in one file, equal ones merged."""

from collections.abc import Sequence
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
)

from arena_envs.extras import import_extra
from arena_trainers.data import Origin, read_origin
from arena_trainers.data.columns import FACTS
from arena_trainers.data.origin import union, with_origin
from arena_trainers.offline.conversations import BATCH

if TYPE_CHECKING:
    import pyarrow
    from datasets import Dataset

_START = tuple(name for name in FACTS if name not in ("sample", "reason"))

_SET_APART = (*FACTS, "weight", "margin")  # columns that may differ in equal rows


def newest_of_kind(files: Sequence[Path], columns: Sequence[str]) -> Path | None:
    """The last file whose rows have these columns; None if there is none."""
    parquet = import_extra("pyarrow.parquet", "train")
    same = [path for path in files if parquet.read_schema(path).names == list(columns)]
    return same[-1] if same else None


def write_aggregated(
    dataset: "Dataset", origin: Origin, earlier: Path, path: Path
) -> int:
    """Writes the rows of an earlier file, then new ones; earlier rows are read batch by batch.

    A new row that equals an earlier one (start, seat, turn, policy, texts and label) is merged
    into it: weights add up, and a pair gets the mean of both margins.

    Returns:
        How many rows the file has.
    """
    parquet = import_extra("pyarrow.parquet", "train")
    before = read_origin(earlier)
    table = dataset.with_format("arrow")[:]
    table = with_origin(table, origin if before is None else union([before, origin]))
    places: dict[tuple[Any, ...], list[int]] = {}
    for place, row in enumerate(table.select(_START).to_pylist()):
        places.setdefault(_start(row), []).append(place)
    merged: set[int] = set()
    with (
        parquet.ParquetFile(earlier) as file,
        parquet.ParquetWriter(path, table.schema) as writer,
    ):
        for batch in file.iter_batches(BATCH):
            batch = batch.replace_schema_metadata(table.schema.metadata)
            writer.write_batch(_with_equal(batch, table, places, merged))
        left = [place for place in range(len(table)) if place not in merged]
        writer.write_table(table.take(left))
        return int(file.metadata.num_rows) + len(left)


def _start(row: dict[str, Any]) -> tuple[Any, ...]:
    return tuple(row[name] for name in _START)


def _with_equal(
    batch: "pyarrow.RecordBatch",
    table: "pyarrow.Table",
    places: dict[tuple[Any, ...], list[int]],
    merged: set[int],
) -> Any:
    """Earlier rows, into which equal new ones are merged; `merged` gets their places."""
    arrow = import_extra("pyarrow", "train")
    merged_rows: dict[int, dict[str, Any]] = {}
    for number, start in enumerate(batch.select(_START).to_pylist()):
        for place in places.get(_start(start), ()):
            row = merged_rows.get(number) or batch.slice(number, 1).to_pylist()[0]
            new = table.slice(place, 1).to_pylist()[0]
            if place not in merged and _content(row) == _content(new):
                name = "margin" if "margin" in row else "weight"
                share = 0.5 if name == "margin" else 1.0
                merged_rows[number] = row | {name: share * (row[name] + new[name])}
                merged.add(place)
    if not merged_rows:
        return batch
    rows = batch.to_pylist()
    for number, row in merged_rows.items():
        rows[number] = row
    return arrow.RecordBatch.from_pylist(rows, schema=batch.schema)


def _content(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if name not in _SET_APART}
