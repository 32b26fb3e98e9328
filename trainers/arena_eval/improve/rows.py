"""The rows of an improvement run, one line of JSON per finished step; a run resumes from them."""

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from arena_envs.checks import is_number
from arena_eval.spending import Spending

ROWS = "texts.jsonl"
TEXT = "text.txt"  # the current text

ImproveStage = Literal["play", "race", "confirmation"]
STAGES: tuple[ImproveStage, ...] = get_args(ImproveStage)

ImproveRow = dict[str, Any]  # what JSON holds

FIGURES = {"difference": float, "low": float, "high": float, "num_seeds": int}
SPENDING = {"calls": float, "prompt_tokens": float, "reply_tokens": float}

FIELDS: Mapping[str, Mapping[str, type]] = {
    "settings": {"settings": dict},
    "unfinished": {},  # the cost of an interrupted step
    "proposals": {"round": int, "mean_return": float, "texts": list},
    "race": {"round": int, "number": int, "text": str, **FIGURES},
    "confirmation": {
        "round": int,
        "number": int,
        "text": str,
        **FIGURES,
        "is_accepted": bool,
    },
}  # fields that the code reads, by kind of row


def read_rows(folder: Path) -> list[ImproveRow]:
    """The rows of a run so far, without an incomplete last line.

    Raises:
        ValueError: a line is not such a row; the message names it.
    """
    path = folder / ROWS
    content = path.read_bytes() if path.is_file() else b""
    lines = content[: content.rfind(b"\n") + 1].splitlines()
    return [_row(path, number, line) for number, line in enumerate(lines, 1)]


def _row(path: Path, number: int, line: bytes) -> ImproveRow:
    try:
        row: ImproveRow = json.loads(line)
        fields = {**FIELDS[row["kind"]], **SPENDING}
        is_row = all(_has_type(row[name], kind) for name, kind in fields.items())
        is_row &= row["cost"] is None or is_number(row["cost"])
        is_row &= all(isinstance(text, str) for text in row.get("texts", ()))
    except (ValueError, KeyError, TypeError, RecursionError):
        is_row = False
    if not is_row:
        raise ValueError(
            f"{path}, line {number}: want a row of arena improve, got {line[:60]!r}; remove the "
            "line, and the same command plays that step again"
        )
    return row


def _has_type(value: object, kind: type) -> bool:
    return is_number(value) if kind is float else isinstance(value, kind)


class RunRows:
    """The rows of a run; each finished step appends one.

    Args:
        folder: of the run.
        settings: of this command.

    Raises:
        ValueError: the folder holds a run with other settings, or a line that is not a row.
    """

    def __init__(self, folder: Path, settings: Mapping[str, Any]) -> None:
        self._path = folder / ROWS
        self.rows = read_rows(folder)
        self._cut_torn_line()
        values = json.loads(json.dumps(dict(settings)))  # as a file holds them
        if not self.rows:
            self.add("settings", Spending(0, 0, 0, 0.0), settings=values)
        before = self.rows[0].get("settings", {})
        for name, value in values.items():
            if before.get(name) != value:
                raise ValueError(
                    f"want {name} = {before.get(name)!r:.80} as in the run in {str(folder)!r}, "
                    f"got {value!r:.80}; give the same, or another --out"
                )

    def _cut_torn_line(self) -> None:
        if self._path.is_file():
            content = self._path.read_bytes()
            os.truncate(self._path, content.rfind(b"\n") + 1)

    def find(self, kind: str, **values: int) -> ImproveRow | None:
        """The row of this kind with these values; None if its step is not finished."""
        for row in self.rows:
            if row["kind"] == kind and all(row[k] == v for k, v in values.items()):
                return row
        return None

    def add(self, kind: str, spending: Spending, **values: Any) -> ImproveRow:
        """Appends a row, with what endpoints used for its step."""
        row: ImproveRow = {
            "kind": kind,
            **values,
            "calls": spending.num_calls,
            "prompt_tokens": spending.prompt_tokens,
            "reply_tokens": spending.reply_tokens,
            "cost": spending.cost,
        }
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with open(self._path, "a", encoding="utf-8") as file:
            file.write(json.dumps(row, allow_nan=False) + "\n")
        self.rows.append(row)
        return row

    def spent(self) -> list[Spending]:
        """What each finished step used."""
        return [
            Spending(
                row["calls"], row["prompt_tokens"], row["reply_tokens"], row["cost"]
            )
            for row in self.rows
        ]
