"""The metrics file of a run: read, cut at a checkpoint, begun with step 0."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from arena_studio.report.run_files import metric_records
from arena_trainers.runs.results.measure import Measurement
from arena_wrappers.records import whole_file


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """The records of a metrics file, without an incomplete last line of a killed run.

    Raises:
        ValueError: another line is no record; names the line.
    """
    records, bad = metric_records(path)
    num_ends = path.read_bytes().count(b"\n")
    for line in bad:
        if line.line <= num_ends:
            raise ValueError(
                f"{path}, line {line.line}: {line.reason}, got {line.text[:60]!r}; remove "
                "the line"
            )
    return records


def metrics_until(path: Path, last_step: int) -> list[dict[str, Any]]:
    """The metrics up to a step; deletes later ones from the file."""
    if not path.exists():
        return []
    records = [r for r in read_metrics(path) if r["step"] <= last_step]
    with whole_file(path) as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return records


def step_zero(stages: Sequence[tuple[str, Measurement]]) -> dict[str, Any]:
    """The metrics before self-play, as a record of step 0.

    Args:
        stages: name of each game, and its stage before self-play.
    """
    record: dict[str, Any] = {"step": 0}
    if stages[0][1].nash_conv is not None:
        record["arena/nash_conv"] = stages[0][1].nash_conv
    rates = [stage.legal_rate for _, stage in stages if stage.legal_rate is not None]
    if rates:
        record["arena/legal_rate"] = sum(rates) / len(rates)
    for name, stage in stages:
        for seat, interval in enumerate(stage.returns):
            record[f"arena/{name}/player_{seat}/return"] = interval.mean
    return record
