"""The page of a run that improves a text: the texts, their differences, what was tried, games."""

from collections.abc import Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from arena_eval.improve.rows import ROWS, STAGES, TEXT, ImproveRow, read_rows
from arena_eval.tables import interval_text
from arena_studio.report.episodes import BadLine, Recorded, not_blank, read_lines
from arena_studio.report.page import filled_page
from arena_studio.report.replay_data import packed, page_data
from arena_studio.report.run_files import MAX_TURNS
from arena_studio.report.text_tables import NONE, TextTable, number_cell

NUM_EPISODES = 20  # of each stage of each round, at most; fewer if turns exceed a page


def is_improvement(folder: Path) -> bool:
    """Whether a folder holds a run of `arena improve`."""
    return (folder / ROWS).is_file()


def records_of(rows: Sequence[ImproveRow]) -> list[dict[str, Any]]:
    """A record for each text that raced: its figures, and whether it was kept."""
    confirmations = {
        row["number"]: row for row in rows if row["kind"] == "confirmation"
    }
    records = []
    for row in rows:
        if row["kind"] != "race":
            continue
        confirmation = confirmations.get(row["number"])
        records.append(
            {
                "round": row["round"],
                "number": row["number"],
                "race": _figures(row),
                "confirmation": _figures(confirmation) if confirmation else "",
                "is_accepted": bool(confirmation and confirmation["is_accepted"]),
                "text": row["text"],
            }
        )
    return records


def silent_rounds(rows: Sequence[ImproveRow]) -> list[str]:
    """A sentence for each round whose proposer wrote no new text."""
    return [
        f"Round {row['round']}: the proposer {row['reason']}."
        for row in rows
        if row["kind"] == "proposals" and row.get("reason")
    ]


def _figures(row: Mapping[str, Any]) -> str:
    ends = interval_text(row.get("low"), row.get("high"))
    return f"{number_cell(row['difference'])} ({ends}), {row.get('num_seeds')} seeds"


def improve_page(folder: Path) -> str:
    """The page of a run, finished or not.

    Raises:
        ValueError: a row is none of `arena improve`.
        ModuleNotFoundError: Jinja is not installed.
    """
    rows = read_rows(folder)
    records = records_of(rows)
    text_file = folder / TEXT
    episodes, bad = _episodes(folder)
    return filled_page(
        "improve.html",
        title=folder.absolute().name,
        settings=_settings_table(rows),
        text=text_file.read_text(encoding="utf-8") if text_file.is_file() else "",
        persona=f"@{text_file}",
        rounds=_round_table(rows),
        texts=records,
        num_kept=sum(record["is_accepted"] for record in records),
        num_episodes=len(episodes),
        bad=bad,
        data=packed(page_data(episodes)),
    )


def _settings_table(rows: Sequence[ImproveRow]) -> TextTable:
    settings = rows[0].get("settings", {}) if rows else {}
    cells = [[name, str(value)] for name, value in settings.items() if value != ""]
    return TextTable("", ["setting", "value"], cells)


def _round_table(rows: Sequence[ImproveRow]) -> TextTable:
    """The mean return of the text with which each round began, and what came of it."""
    cells = []
    accepted = {
        row["round"]: f"text {row['number']}"
        for row in rows
        if row["kind"] == "confirmation" and row["is_accepted"]
    }
    for row in rows:
        if row["kind"] == "proposals":
            cells.append(
                [
                    str(row["round"]),
                    number_cell(row["mean_return"]),
                    str(row.get("num_played")),
                    str(len(row["texts"])),
                    accepted.get(row["round"], NONE),
                ]
            )
    heads = ["round", "mean return", "games", "new texts", "kept"]
    notes = [
        "Mean returns of different rounds are of different games; the differences below pair them.",
        *silent_rounds(rows),
    ]
    return TextTable("", heads, cells, notes)


def _episodes(folder: Path) -> tuple[list[Recorded], list[tuple[str, BadLine]]]:
    """The first episodes of each stage, with round and stage as source."""
    num_turns = 0
    episodes: list[Recorded] = []
    bad: list[tuple[str, BadLine]] = []
    for path in sorted(folder.glob("round-*/*.jsonl")):
        if path.stem not in STAGES:
            continue
        source = f"{path.parent.name}, {path.stem}"
        for line in islice(not_blank(read_lines(path)), NUM_EPISODES):
            if isinstance(line, BadLine):
                bad.append((f"{path.parent.name}/{path.name}", line))
                continue
            num_turns += len(line.rollout.episode.turns)
            if num_turns > MAX_TURNS and episodes:
                return episodes, bad
            episodes.append(line._replace(source=source))
    return episodes, bad
