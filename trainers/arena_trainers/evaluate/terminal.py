"""An evaluation for a terminal: one table per opponent, within the terminal's width."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from rich import box
from rich.markup import escape
from rich.table import Table

from arena_trainers.evaluate.matches import Evaluation
from arena_trainers.evaluate.result_rows import Row, against
from arena_trainers.evaluate.tables import (
    as_table,
    caption,
    percentages,
    reference_kind,
    score_without_interval,
    title,
)

NAME = 20  # longest name without a line break
RESULTS = "win/draw\n/loss %"
DROPPED = ("turns", "tokens", RESULTS, "invalid")  # in this order


def evaluation_tables(found: Evaluation, width: int | None) -> list[Table]:
    """One table per opponent, with the columns that fit into `width` characters.

    Policy, seat, number of episodes, return, interval and score always stay. None as width
    gives one table with all columns.
    """
    if width is None:
        return [as_table(found)]
    opponents = dict.fromkeys(row.opponent for row in found.rows)
    tables = [_table(found, opponent, width) for opponent in opponents]
    remarks = [caption(found), *_invalid(found.rows)]
    tables[-1].caption = escape("\n".join(filter(None, remarks))) or None
    return tables


def _table(found: Evaluation, opponent: str, width: int) -> Table:
    rows = [row for row in found.rows if row.opponent == opponent]
    columns = {
        "policy": _names(rows),
        "seat": [str(row.seat) for row in rows],
        **_counts(rows),
        "return": [f"{row.mean_return:z.3f}" for row in rows],
        "95 %": [f"{row.low:z.3f} to {row.high:z.3f}" for row in rows],
        **_optional(rows, found.rows),
    }
    widths, gap = _fitting(columns, width)
    table = Table(
        title=escape(f"{title(found)}{against(opponent)}"),
        caption_justify="left",
        box=box.SIMPLE_HEAD,
        padding=(0, gap - 1, 0, 0),
        pad_edge=False,
        show_edge=False,
    )
    for name in widths:
        is_name = name == "policy"
        table.add_column(
            name,
            justify="left" if is_name else "right",
            no_wrap=not is_name,
            overflow="fold",
            width=widths[name],
        )
    for cells in zip(*(columns[name] for name in widths), strict=True):
        table.add_row(*map(escape, cells))
    return table


def _fitting(
    columns: Mapping[str, Sequence[str]], width: int
) -> tuple[dict[str, int], int]:
    """Widths of the columns that fit, and the number of spaces between them.

    Columns are dropped in the order of `DROPPED`; the policy's gets the remaining space.
    """
    widths = {
        name: max(len(line) for text in (name, *cells) for line in text.split("\n"))
        for name, cells in columns.items()
    }
    longest, widths["policy"] = widths["policy"], min(widths["policy"], NAME)
    for name in DROPPED:
        if name in widths and _total(widths, 1) > width:
            del widths[name]
    gap = 2 if _total(widths, 2) <= width else 1
    spare = max(0, width - _total(widths, gap))
    widths["policy"] = min(longest, widths["policy"] + spare)
    return widths, gap


def _total(widths: Mapping[str, int], gap: int) -> int:
    return sum(widths.values()) + gap * (len(widths) - 1)


def _invalid(rows: Sequence[Row]) -> list[str]:
    """Lines with the evaluated policy's invalid replies by reason, which have no column."""
    last = {row.opponent: row for row in rows if row.role == "policy"}  # of all seats
    return [
        f"invalid replies{against(opponent)}: "
        + ", ".join(f"{reason} {rate:.1%}" for reason, rate in row.invalid.items())
        for opponent, row in last.items()
        if row.invalid
    ]


def _names(rows: Sequence[Row]) -> list[str]:
    """A policy's name in its first row, the kind of a baseline in its second."""
    cells: list[str] = []
    for (name, role), group in groupby(rows, lambda row: (row.policy, row.role)):
        kind = {
            "solver": reference_kind(name),
            "constant": "best constant",
        }.get(role, role)
        lines = [name] if role == "policy" else [name, f"  ({kind})"]
        number = len(list(group))
        found = lines + [""] * (number - len(lines))
        cells += ["\n".join(found)] if number == 1 else found
    return cells


def _counts(rows: Sequence[Row]) -> dict[str, list[str]]:
    """Numbers of episodes; in brackets the distinct ones, if some repeat."""
    if all(row.num_distinct == row.num_episodes for row in rows):
        return {"n": [str(row.num_episodes) for row in rows]}
    return {
        "n\n(distinct)": [f"{row.num_episodes} ({row.num_distinct})" for row in rows]
    }


def _optional(rows: Sequence[Row], known: Sequence[Row]) -> dict[str, list[str]]:
    """The optional columns for which the rows have values."""
    columns = {}
    if any(row.normalised is not None for row in rows):
        columns["score"] = [score_without_interval(row, known) for row in rows]
    if any(row.wins is not None for row in rows):
        columns[RESULTS] = ["/".join(percentages(row)) for row in rows]
    if any(row.invalid for row in rows):
        columns["invalid"] = [f"{sum(row.invalid.values()):.1%}" for row in rows]
    columns["turns"] = [f"{row.num_turns:.1f}" for row in rows]
    if any(row.num_tokens is not None for row in rows):
        columns["tokens"] = [
            "" if row.num_tokens is None else f"{row.num_tokens:.1f}" for row in rows
        ]
    return columns
