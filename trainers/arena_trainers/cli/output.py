"""Results of commands: tables on a terminal, in a pipe and for LaTeX, JSON, CSV, warnings."""

import csv
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import copy
from typing import Annotated, Any

import typer
from rich.console import (
    Group,
    RenderableType,
)
from rich.table import Table
from rich.text import Text

from arena_envs.hostile import wrapped
from arena_trainers.cli.latex import latex_tables
from arena_trainers.terminal import Console

JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]


def terminal_width() -> int | None:
    """Columns of the terminal; None if the output is a pipe or a file."""
    console = Console()
    return console.width if console.is_terminal else None


def print_tables(tables: Iterable[Table]) -> None:
    """Prints tables: drawn on a terminal, else with tabs between cells."""
    console = Console()
    for table in tables:
        if console.is_terminal:
            console.print(drawn(table))
        else:
            typer.echo(plain(table))


def show(
    form: str,
    document: Mapping[str, Any] | Sequence[Any],
    records: Sequence[Mapping[str, Any]],
    tables: Callable[[int | None], list[Table]],
) -> None:
    """Prints results in a form of `one_form`; `tables` takes the terminal's width."""
    if form == "json":
        typer.echo(json.dumps(document, indent=1))
    elif form == "csv":
        _print_csv(records)
    elif form == "latex":
        typer.echo(latex_tables(tables(None)))
    else:
        print_tables(tables(terminal_width()))


def _print_csv(records: Sequence[Mapping[str, Any]]) -> None:
    """Prints a line for each record, with the names of all columns in the first."""
    names = dict.fromkeys(name for record in records for name in record)
    writer = csv.DictWriter(sys.stdout, [*names], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)


def one_form(**flags: bool) -> str:
    """The form of output that was asked for; empty for tables.

    Raises:
        ValueError: several forms; names them.
    """
    forms = [name for name, is_set in flags.items() if is_set]
    if len(forms) > 1:
        names = " and ".join(f"--{name}" for name in forms)
        raise ValueError(f"want one form of output, got {names}")
    return forms[0] if forms else ""


def drawn(table: Table) -> Group:
    """A table with its title above and its caption below, which may be wider."""
    bare = copy(table)
    bare.title = bare.caption = None
    title = [_part(table.title, "table.title")] if table.title else []
    caption = [_part(table.caption, "table.caption")] if table.caption else []
    return Group(*title, bare, *caption, "")


def _part(text: RenderableType, style: str) -> Text:
    return Text("\n".join(_lines(text)), style)


def plain(table: Table) -> str:
    """A table as text: a line for the title, the headers, each row and line of caption.

    >>> table = Table("seat", "plays", title="kuhn_poker")
    >>> table.add_row("0", "bet")
    >>> print(plain(table).expandtabs(6))
    # kuhn_poker
    seat  plays
    0     bet
    """
    heads = [_text(column.header) for column in table.columns]
    rows = zip(*(map(_text, column.cells) for column in table.columns), strict=True)
    lines = ["\t".join(cells) for cells in (heads, *rows)]
    title = [f"# {_text(table.title)}"] if table.title else []
    caption = [f"# {line}" for line in _lines(table.caption or "")]
    return "\n".join([*title, *lines, *caption])


def _text(cell: RenderableType) -> str:
    return "; ".join(_lines(cell))


def _lines(cell: RenderableType) -> list[str]:
    return str(cell).splitlines()


def show_warnings(texts: Sequence[str]) -> None:
    """Prints one line per warning to stderr, and equal ones once."""
    for text in dict.fromkeys(texts):
        typer.echo(wrapped(f"warning: {text}", sys.stderr), err=True)
