"""The command `arena report`, which writes the report of a training run."""

from pathlib import Path
from typing import Annotated

import typer

from arena_trainers.cli.out_file import check_out
from arena_trainers.cli.usage import usage_errors
from arena_trainers.report.report_page import write_report
from arena_trainers.report.run_files import read_run_files

IN_FOLDER = "report.html"
PAGE = (b"<!doctype html>", b"Made by arena report.")  # what our files hold


def add_commands(app: typer.Typer) -> None:
    """Adds the command to the `arena` command."""
    app.command("report")(report)


def report(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run.")],
    out: Annotated[
        Path | None,
        typer.Option(metavar="OUT", help="The page [default: RUN/report.html]."),
    ] = None,
    groups: Annotated[
        int, typer.Option(min=1, help="Groups of episodes to show of each step.")
    ] = 2,
) -> None:
    """Write a page about a training run: results, curves and replays.

    The page is one HTML file that loads nothing. The run may still be going. What it lacks
    is named in the page. No file but an earlier report is overwritten.

    For example:

    arena report runs/seed1

    arena report runs/seed1 --groups 1 --out seed1.html
    """
    with usage_errors():
        found = read_run_files(run, groups)
        path = out or run / IN_FOLDER
        check_out(path, PAGE, "arena report")
        write_report(path, found)
    for file, line in found.bad:
        typer.echo(f"{file}, line {line.line} is left out: {line.reason}", err=True)
    typer.echo(f"{path}: {len(found.metrics)} records, {len(found.episodes)} episodes")
