"""How commands end: mistakes in their use with status 2, and what stops them halfway."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import Any

import typer
from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table
from rich.text import Text


class UsageError(Exception):
    """What the user asked for cannot be done; the message says why in a sentence."""


@contextmanager
def usage_errors() -> Iterator[None]:
    """Before anything runs, a refusal is the user's to mend and needs no traceback."""
    try:
        yield
    except (ModuleNotFoundError, BrokenPipeError):
        raise
    except (ValueError, OSError, ImportError) as error:
        raise UsageError(" ".join(str(error).split())) from error


def terminal_width() -> int | None:
    """Columns of the terminal; None if tables go to a pipe or a file."""
    console = Console()
    return console.width if console.is_terminal else None


def print_tables(tables: Iterable[Table]) -> None:
    """Prints tables: drawn on a terminal, else plain, cells separated by tabs."""
    console = Console()
    for table in tables:
        if console.is_terminal:
            console.print(drawn(table))
        else:
            typer.echo(plain(table))


def drawn(table: Table) -> Group:
    """A table whose title and caption may be wider than its columns."""
    bare = copy(table)
    bare.title = bare.caption = None
    title = [_part(table.title, "table.title")] if table.title else []
    caption = [_part(table.caption, "table.caption")] if table.caption else []
    return Group(*title, bare, *caption, "")


def _part(text: Any, style: str) -> Text:
    return Text("\n".join(_lines(text)), style)


def plain(table: Table) -> str:
    """A table as text: its title, a line of headers, one for each row and line of caption.

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


def _text(cell: Any) -> str:
    return "; ".join(_lines(cell))


def _lines(cell: Any) -> list[str]:
    text = Text.from_markup(cell).plain if isinstance(cell, str) else str(cell)
    return text.splitlines()


@contextmanager
def running(
    advice: str, doing: str = "playing"
) -> Iterator[Callable[[int, int], None]]:
    """While something plays: a bar on stderr, if that is a terminal, and a plain end.

    Ctrl-C ends with status 130 and the advice, a full disk or the like with status 1.

    Yields:
        What is called with the number of episodes (or the like) done and the number in all.
    """
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    try:
        with Progress(
            *columns, console=console, transient=True, disable=not console.is_terminal
        ) as bar:
            task = bar.add_task(doing, total=None)
            yield lambda done, total: bar.update(task, completed=done, total=total)
    except KeyboardInterrupt:
        typer.echo(f"\nstopped; {advice}", err=True)
        raise typer.Exit(130) from None
    except OSError as error:
        typer.echo(f"error: {error}; {advice}", err=True)
        raise typer.Exit(1) from error
