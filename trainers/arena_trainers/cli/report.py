"""The command `arena report`: a page about runs, an evaluation or a tournament."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from arena_trainers.cli.out_file import check_out
from arena_trainers.cli.usage import usage_errors
from arena_trainers.report.episodes import BadLine
from arena_trainers.report.played_page import (
    RESULTS,
    read_evaluation,
    read_tournament,
    write_played,
)
from arena_trainers.report.run_page import SECONDS, follow, write_report
from arena_trainers.report.runs import EVALUATED, METRICS, RunFiles, read_runs

IN_FOLDER = "report.html"
PAGE = (b"<!doctype html>", b"Made by arena report.")  # what our files hold


Paths = Annotated[
    list[Path],
    typer.Argument(
        metavar="PATH...",
        help="Folders of runs, a folder of a tournament, or a file of episodes.",
    ),
]
Page = Annotated[
    Path | None,
    typer.Option(
        metavar="OUT",
        help="The page [default: report.html in the folder, or FILE.html].",
    ),
]
Groups = Annotated[
    int,
    typer.Option(
        min=1,
        help="Groups of episodes to show of each step; of evaluations and "
        f"tournaments, {EVALUATED} episodes for each.",
    ),
]
Follow = Annotated[
    bool,
    typer.Option(
        "--follow",
        help=f"Write the page anew, at most every {SECONDS} s, until the runs end.",
    ),
]


def add_commands(app: typer.Typer) -> None:
    """Adds the command to the `arena` command."""
    app.command("report")(report)


def report(
    paths: Paths, out: Page = None, groups: Groups = 2, go_on: Follow = False
) -> None:
    """Write a page about runs, an evaluation or a tournament: results, curves, replays.

    The page is one HTML file that loads nothing. Up to six runs are laid over each other. A
    run may still be going: with --follow, the page is live until the run ends or you press
    Ctrl-C. What is missing is named in the page. No file but an earlier report is
    overwritten.

    For example:

    arena report runs/seed1

    arena report runs/seed1 runs/seed2 --out seeds.html

    arena report runs/seed1 --follow

    arena report mars.jsonl
    """
    with usage_errors():
        _check_inputs(paths)
        path = _page(paths, out)
        check_out(path, PAGE, "arena report")
        are_runs = len(paths) > 1 or (paths[0] / METRICS).is_file()
        if go_on and are_runs:
            _follow(paths, path, groups)
        elif are_runs:
            found = read_runs(paths, groups)
            write_report(path, *found)
            _tell(path, found)
        elif go_on:
            raise ValueError(
                f"want --follow with folders of runs, found no {METRICS} in "
                f"{str(paths[0])!r}; a run writes it at its first log, so try again then"
            )
        else:
            _write_played(paths[0], path, EVALUATED * groups)


def _follow(runs: Sequence[Path], path: Path, groups: int) -> None:
    """Keeps the page up to date; status 130 after Ctrl-C."""
    typer.echo(
        f"{path}: written at most every {SECONDS} s until the run ends; Ctrl-C stops it"
    )
    found, have_ended = follow(path, runs, groups)
    _tell(path, found)
    if not have_ended:
        raise typer.Exit(130)


def _check_inputs(paths: Sequence[Path]) -> None:
    """Refuses what is missing or cannot be combined, before errors about OUT."""
    for path in paths:
        if not path.exists():
            raise ValueError(
                f"want a run folder, a tournament folder or a file of episodes, found "
                f"none at {str(path)!r}; give one such as runs/first"
            )
    if len(paths) > 1 and not all((path / METRICS).is_file() for path in paths):
        others = ", ".join(str(p) for p in paths if not (p / METRICS).is_file())
        raise ValueError(
            f"want run folders (with {METRICS}) in a report of several, found none at "
            f"{others}; a tournament or a file of episodes has a report of its own"
        )


def _page(paths: Sequence[Path], out: Path | None) -> Path:
    """Where the page stands."""
    if out is not None:
        return out
    if len(paths) > 1:
        raise ValueError(
            f"want --out with several runs, got {len(paths)} without; add --out OUT"
        )
    (path,) = paths
    return path / IN_FOLDER if path.is_dir() else path.with_suffix(".html")


def _write_played(source: Path, path: Path, num_episodes: int) -> None:
    """Writes the page of a tournament or of an evaluation."""
    if source.is_dir() and not (source / RESULTS).is_file():
        if (source / "start-scores.json").is_file():
            raise ValueError(
                f"want the folder of a run without rounds, got {str(source)!r} with rounds; "
                f"give a round: {source / 'round-00' / 'train'}. {source / 'curves.png'} "
                "compares the rounds"
            )
        raise ValueError(
            f"want a folder with {METRICS} or {RESULTS}, found neither in "
            f"{str(source)!r}; give the --output-dir of arena train, such as runs/first, "
            "or the --out of arena tournament"
        )
    read = read_tournament if source.is_dir() else read_evaluation
    found = read(source, num_episodes)
    write_played(path, found)
    _tell_bad(found.bad, "")
    tables = _counted(len(found.tables), "result table")
    typer.echo(f"{path}: {tables}, {_counted(len(found.episodes), 'episode')}")


def _tell(path: Path, runs: Sequence[RunFiles]) -> None:
    for run in runs:
        _tell_bad(run.bad, f"{run.name}, " if len(runs) > 1 else "")
    num_steps = sum(len({record["step"] for record in run.metrics}) for run in runs)
    num_episodes = sum(len(run.episodes) for run in runs)
    steps = _counted(num_steps, "logged step")
    typer.echo(f"{path}: {steps}, {_counted(num_episodes, 'episode')}")


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _tell_bad(bad: Iterable[tuple[str, BadLine]], name: str) -> None:
    for file, line in bad:
        typer.echo(
            f"{name}{file}, line {line.line} is left out: {line.reason}", err=True
        )
