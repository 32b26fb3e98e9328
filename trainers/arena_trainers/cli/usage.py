"""Output of commands: tables, progress bars, usage errors and exit statuses."""

import csv
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from typing import Any

import typer
from rich.console import Console, Group
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from arena_wrappers import NoReplyError
from arena_wrappers.policies import names_person


class UsageError(Exception):
    """The command line cannot be carried out; the message says why in one sentence."""


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turns errors in arguments into `UsageError`, which is printed without traceback."""
    try:
        yield
    except (ModuleNotFoundError, BrokenPipeError):
        raise
    except (ValueError, OSError, ImportError) as error:
        raise UsageError(" ".join(str(error).split())) from error


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


def print_csv(records: Sequence[Mapping[str, Any]]) -> None:
    """Prints a line for each record, with the names of all columns in the first."""
    names = dict.fromkeys(name for record in records for name in record)
    writer = csv.DictWriter(sys.stdout, [*names], lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)


def one_form(**given: bool) -> str:
    """The form of output that was asked for; empty for tables.

    Raises:
        ValueError: several forms; names them.
    """
    chosen = [name for name, is_given in given.items() if is_given]
    if len(chosen) > 1:
        names = " and ".join(f"--{name}" for name in chosen)
        raise ValueError(f"want one form of output, got {names}")
    return chosen[0] if chosen else ""


def latex(table: Table) -> str:
    r"""A table for LaTeX, which needs the package booktabs.

    >>> table = Table("seat", "won", title="kuhn_poker")
    >>> table.add_row("0", "50%")
    >>> print(latex(table).splitlines()[4])
    seat & won \\
    """
    heads = [_text(column.header) for column in table.columns]
    rows = zip(*(map(_text, column.cells) for column in table.columns), strict=True)
    lines = [" & ".join(map(_for_latex, cells)) + r" \\" for cells in (heads, *rows)]
    sides = "".join("r" if c.justify == "right" else "l" for c in table.columns)
    notes = [_text(part) for part in (table.title, table.caption) if part]
    return "\n".join(
        [
            r"\begin{table}",
            rf"\caption{{{_for_latex('. '.join(notes))}}}",
            rf"\begin{{tabular}}{{{sides}}}",
            r"\toprule",
            lines[0],
            r"\midrule",
            *lines[1:],
            r"\bottomrule",
            r"\end{tabular}",
            r"\end{table}",
        ]
    )


def _for_latex(text: str) -> str:
    text = text.replace("\\", r"\textbackslash ")
    text = re.sub(r"([&%$#_{}])", r"\\\1", text)
    text = text.replace("~", r"\textasciitilde ").replace("^", r"\textasciicircum ")
    return re.sub(r"(?<![\w-])-(?=\d)", "$-$", text)


def drawn(table: Table) -> Group:
    """A table with its title above and its caption below, which may be wider."""
    bare = copy(table)
    bare.title = bare.caption = None
    title = [_part(table.title, "table.title")] if table.title else []
    caption = [_part(table.caption, "table.caption")] if table.caption else []
    return Group(*title, bare, *caption, "")


def _part(text: Any, style: str) -> Text:
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


def _text(cell: Any) -> str:
    return "; ".join(_lines(cell))


def _lines(cell: Any) -> list[str]:
    text = Text.from_markup(cell).plain if isinstance(cell, str) else str(cell)
    return text.splitlines()


@contextmanager
def running(
    advice: str | Callable[[], str],
    doing: str = "playing",
    *,
    policies: Iterable[str] = (),
) -> Iterator[Callable[[int, int], None]]:
    """Shows a progress bar on stderr, if it is a terminal, and reports interruptions.

    Ctrl-C prints the advice and exits with status 130; an OSError, such as a full disk,
    or a NoReplyError with status 1.

    Args:
        advice: a clause that says what was kept, and what to do, or a function that gives it.
        doing: label of the bar.
        policies: strings of those who play; a person types, so that there is no bar.

    Yields:
        A function that takes the numbers of steps done and in all.
    """
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    is_hidden = not console.is_terminal or any(map(names_person, policies))
    with (
        interruptions(advice),
        Progress(*columns, console=console, transient=True, disable=is_hidden) as bar,
    ):
        task = bar.add_task(doing, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def interruptions(advice: str | Callable[[], str]) -> Iterator[None]:
    """Reports interruptions as `running` does, without a progress bar."""
    clause = (lambda: advice) if isinstance(advice, str) else advice
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nstopped; {clause()}", err=True)
        raise typer.Exit(130) from None
    except (OSError, NoReplyError) as error:
        typer.echo(f"error: {error}; {clause()}", err=True)
        raise typer.Exit(1) from error
