"""The command `arena report`, which writes the report of a training run."""

from pathlib import Path
from typing import Annotated

import typer

from arena_trainers.cli.out_file import check_out
from arena_trainers.cli.usage import usage_errors
from arena_trainers.report.report_page import write_report
from arena_trainers.report.run_files import read_runs

IN_FOLDER = "report.html"
PAGE = (b"<!doctype html>", b"Made by arena report.")  # what our files hold


def add_commands(app: typer.Typer) -> None:
    """Adds the command to the `arena` command."""
    app.command("report")(report)


def report(
    runs: Annotated[
        list[Path], typer.Argument(metavar="RUN...", help="The folders of runs.")
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="OUT", help="The page [default: RUN/report.html of a single run]."
        ),
    ] = None,
    groups: Annotated[
        int, typer.Option(min=1, help="Groups of episodes to show of each step.")
    ] = 2,
) -> None:
    """Write a page about training runs: results, curves and replays.

    The page is one HTML file that loads nothing. Up to six runs are laid over each other. A
    run may still be going. What it lacks is named in the page. No file but an earlier
    report is overwritten.

    For example:

    arena report runs/seed1

    arena report runs/seed1 runs/seed2 --out seeds.html

    arena report runs/seed1 --groups 1 --out seed1.html
    """
    with usage_errors():
        if out is None and len(runs) > 1:
            raise ValueError(
                f"want --out with several runs, got {len(runs)} without; add --out OUT"
            )
        path = out or runs[0] / IN_FOLDER
        found = read_runs(runs, groups)
        check_out(path, PAGE, "arena report")
        write_report(path, *found)
    for run in found:
        name = f"{run.name}, " if len(runs) > 1 else ""
        for file, line in run.bad:
            typer.echo(
                f"{name}{file}, line {line.line} is left out: {line.reason}", err=True
            )
    num_records = sum(len(run.metrics) for run in found)
    num_episodes = sum(len(run.episodes) for run in found)
    typer.echo(f"{path}: {num_records} records, {num_episodes} episodes")
