"""Tables for papers: LaTeX with booktabs, a label, ±, bold where a difference is significant, and n.

An interval `mean (low to high)` becomes mean ± half of its width, or the distances to both ends if it
is not symmetric. Bold: a difference whose interval excludes 0. Also, in a group of equal game, opponent
and seat, the largest mean if its interval overlaps with no other.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from rich.console import RenderableType
from rich.table import Table

NUMBER = r"-?\d+(?:\.\d+)?"
# "0.5 (0.4 to 0.6)", or in two lines
INTERVAL = re.compile(rf"({NUMBER})(?: \(|; )({NUMBER}) to ({NUMBER})\)?")
ENDS = re.compile(rf"({NUMBER}) to ({NUMBER})")
EXACT = re.compile(rf"({NUMBER})(?: \(exact\))?")
GROUP = ("game", "level", "against", "role", "seat")  # columns of what is compared
COUNTS = ("n", "episodes")  # columns of numbers of observations
DIFFERENCE = "difference"
PLUS_MINUS = (
    r"$\pm$: half the width of the 95 % interval; with two numbers, up and down; without, exact "
    "or not known. Bold: a difference whose interval excludes 0, or the largest mean of a "
    "group if its interval overlaps with no other"
)


class TextEstimate(NamedTuple):
    """A mean with the ends of its 95 % interval, as texts of a table."""

    mean: str
    low: str
    high: str

    @property
    def ends(self) -> tuple[float, float]:
        """The ends as numbers."""
        return float(self.low), float(self.high)


class TextColumns(NamedTuple):
    """A table as texts.

    Attributes:
        heads: of the columns.
        sides: of each column, `l` or `r`.
        rows: cells by row; an estimate where a cell has an interval.
    """

    heads: list[str]
    sides: str
    rows: list[list[str | TextEstimate]]


def latex_tables(tables: Sequence[Table]) -> str:
    """Tables for LaTeX, each with a label of its own."""
    labels: list[str] = []
    texts = []
    for table in tables:
        label = _label(table)
        if num := sum(earlier.startswith(label) for earlier in labels):
            label = f"{label}-{num + 1}"
        labels.append(label)
        texts.append(latex_table(table, label))
    return "\n\n".join(texts)


def latex_table(table: Table, label: str = "") -> str:
    r"""A table for LaTeX, which needs the package booktabs.

    >>> table = Table("policy", "n", "return (95 %)", title="Kuhn poker")
    >>> table.add_row("a", "50", "0.300 (0.200 to 0.400)")
    >>> table.add_row("b", "50", "0.100 (0.050 to 0.150)")
    >>> print(*latex_table(table).splitlines()[2:8], sep="\n")
    \label{tab:kuhn-poker}
    \begin{tabular}{lll}
    \toprule
    policy & n & return \\
    \midrule
    a & 50 & $\mathbf{0.300 \pm 0.100}$ \\
    """
    columns = _columns(table)
    bold = _significant(columns)
    lines = [
        " & ".join(
            _cell(cell, is_bold=(row, place) in bold)
            for place, cell in enumerate(cells)
        )
        + r" \\"
        for row, cells in enumerate(columns.rows)
    ]
    heads = " & ".join(map(_escaped, columns.heads)) + r" \\"
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_caption(table, columns)}}}",
            rf"\label{{{label or _label(table)}}}",
            rf"\begin{{tabular}}{{{columns.sides}}}",
            r"\toprule",
            heads,
            r"\midrule",
            *lines,
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def _columns(table: Table) -> TextColumns:
    """The texts of a table; a column of means and the one of their ends become one."""
    heads = [_text(column.header) for column in table.columns]
    sides = ["r" if column.justify == "right" else "l" for column in table.columns]
    rows: list[list[str | TextEstimate]] = [
        [_estimate_or_text(_text(cell)) for cell in cells]
        for cells in zip(*(column.cells for column in table.columns), strict=True)
    ]
    while "95 %" in heads[1:]:
        place = heads.index("95 %", 1)
        for row in rows:
            row[place - 1] = _joined(str(row[place - 1]), str(row.pop(place)))
        del heads[place], sides[place]
    return TextColumns(
        [head.replace(" (95 %)", "") for head in heads], "".join(sides), rows
    )


def _estimate_or_text(text: str) -> str | TextEstimate:
    match = INTERVAL.fullmatch(text)
    if match:
        return TextEstimate(*match.groups())
    exact = EXACT.fullmatch(text)
    return exact[1] if exact else text


def _joined(mean: str, ends: str) -> str | TextEstimate:
    match = ENDS.fullmatch(ends)
    return TextEstimate(mean, *match.groups()) if match else mean


def _significant(columns: TextColumns) -> set[tuple[int, int]]:
    """Row and column of the cells in bold."""
    keys = [place for place, head in enumerate(columns.heads) if head in GROUP]
    bold = set()
    for place in range(len(columns.heads)):
        groups: dict[tuple[str, ...], list[tuple[int, TextEstimate]]] = defaultdict(
            list
        )
        for row, cells in enumerate(columns.rows):
            cell = cells[place]
            if not isinstance(cell, TextEstimate):
                continue
            is_difference = DIFFERENCE in cells or DIFFERENCE in columns.heads[place]
            if is_difference and not cell.ends[0] <= 0 <= cell.ends[1]:
                bold.add((row, place))
            elif not is_difference:
                group = tuple(str(cells[key]) for key in keys)
                groups[group].append((row, cell))
        for members in groups.values():
            bold |= {(row, place) for row in _best_apart(members)}
    return bold


def _best_apart(members: Sequence[tuple[int, TextEstimate]]) -> list[int]:
    """The row of the largest mean, if its interval overlaps with no other."""
    if len(members) < 2:
        return []
    row, best = max(members, key=lambda member: float(member[1].mean))
    is_apart = all(
        estimate.ends[1] < best.ends[0] for number, estimate in members if number != row
    )
    return [row] if is_apart else []


def _cell(cell: str | TextEstimate, *, is_bold: bool) -> str:
    if not isinstance(cell, TextEstimate):
        return _escaped(cell)
    mean, (low, high) = float(cell.mean), cell.ends
    digits = len(cell.mean.partition(".")[2])
    down, up = mean - low, high - mean
    if abs(up - down) <= 1.2 * 10**-digits:  # equal but for rounding
        text = rf"{cell.mean} \pm {(up + down) / 2:z.{digits}f}"
    else:
        text = f"{cell.mean}^{{+{up:z.{digits}f}}}_{{-{down:z.{digits}f}}}"
    return rf"$\mathbf{{{text}}}$" if is_bold else f"${text}$"


def _caption(table: Table, columns: TextColumns) -> str:
    """The notes of a table, then n and what the intervals are."""
    notes = [line for line in str(table.caption or "").splitlines() if line]
    # the title may be the id of a game
    sentences = [
        str(table.title or ""),
        *(note[0].upper() + note[1:] for note in notes),
    ]
    parts = [_escaped(". ".join(text.rstrip(".") for text in sentences if text))]
    for name in COUNTS:
        if name in columns.heads:
            place = columns.heads.index(name)
            cells = [str(cells[place]) for cells in columns.rows]
            counts = sorted({int(cell) for cell in cells if cell.isdecimal()})
            if counts:
                ends = [*dict.fromkeys((counts[0], counts[-1]))]
                parts.append(rf"$n$ = {' to '.join(map(str, ends))} ({name})")
    if any(isinstance(cell, TextEstimate) for row in columns.rows for cell in row):
        parts.append(PLUS_MINUS.replace("%", r"\%"))
    elif any("exact" in _text(cell) for c in table.columns for cell in c.cells):
        parts.append("Means are exact")
    return ". ".join(parts)


def _label(table: Table) -> str:
    """The label of a table: letters and digits of its title, with dashes between."""
    words = re.findall("[a-z0-9]+", _text(table.title or "table").lower())
    return "tab:" + "-".join(words)[:50].strip("-")


def _escaped(text: str) -> str:
    text = text.replace("\\", r"\textbackslash ")
    text = re.sub(r"([&%$#_{}])", r"\\\1", text)
    text = text.replace("~", r"\textasciitilde ").replace("^", r"\textasciicircum ")
    text = text.replace("; ±", " ±").replace("±", r"$\pm$")
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", text)


def _text(cell: RenderableType) -> str:
    return "; ".join(str(cell).splitlines())
