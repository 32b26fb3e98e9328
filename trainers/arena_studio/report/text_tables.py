"""Tables of text, and what their cells show."""

from collections.abc import Sequence
from typing import Any, NamedTuple
from urllib.parse import urlencode

from arena_envs.checks import is_number

NONE = "-"
HEATS = 5  # shades of a color


class TableCell(NamedTuple):
    """A cell that is more than text.

    Attributes:
        text: what it shows.
        link: what a click opens; empty for nothing.
        heat: the color, from -5 to 5; None for none.
    """

    text: str
    link: str = ""
    heat: int | None = None


class TextTable(NamedTuple):
    """A table of text.

    Attributes:
        title: what it shows.
        heads: names of the columns.
        rows: cells by row.
        notes: sentences below the table.
        num_keys: number of first columns that name the row.
    """

    title: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | TableCell]]
    notes: Sequence[str] = ()
    num_keys: int = 1


def source_link(source: str) -> str:
    """The button that opens the episodes of a source."""
    return f"#{urlencode({'from': source})}"


def number_cell(value: object, digits: int = 3) -> str:
    """A number with its digits after the point; "-" for anything else."""
    return f"{value:z.{digits}f}" if is_number(value) else NONE


def percent(value: Any) -> str:
    """A share as a percentage; "-" for anything else than a number."""
    return f"{100 * value:.1f} %" if is_number(value) else NONE
