"""The command `arena report`."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from arena_envs.trust import named_only
from arena_studio.outputs import reading_advice
from arena_studio.report.comparison import name_sources
from arena_studio.report.episodes import BadLine
from arena_studio.report.figures import FIGURE_TYPES, write_figure
from arena_studio.report.following import SECONDS, follow
from arena_studio.report.improve_report import improve_page, is_improvement
from arena_studio.report.played_report import (
    MATCHES,
    played_page,
    read_evaluation,
    read_tournament,
)
from arena_studio.report.run_files import (
    EPISODES_PER_GROUP,
    METRICS_FILE,
    RunFiles,
    read_runs,
)
from arena_studio.report.run_report import (
    chart_named,
    last_step_of,
    report_page,
    run_charts,
)
from arena_trainers.cli.arguments import check_out
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import AllowCodeOption
from arena_wrappers.records import write_whole

PAGE_NAME = "report.html"
REPORT_PAGE = (b"<!doctype html>", b"Made by arena report.")  # what our files hold


def report(
    paths: Annotated[
        list[Path],
        typer.Argument(
            metavar="PATH...",
            help="Folders of runs, a folder of a tournament, or a file of episodes.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="The page [default: report.html in the folder, or FILE.html].",
        ),
    ] = None,
    groups: Annotated[
        int,
        typer.Option(
            help=f"Groups of episodes to show of each step; of evaluations and tournaments, {EPISODES_PER_GROUP} episodes for each.",
            min=1,
        ),
    ] = 2,
    go_on: Annotated[
        bool,
        typer.Option(
            "--follow",
            help=f"Write the page anew, at most every {SECONDS} s, until the runs end.",
        ),
    ] = False,
    figures: Annotated[
        list[Path] | None,
        typer.Option(
            "--figure",
            metavar="CHART.pdf",
            help="Write a chart for a paper instead of a page. The name of the file says which, by letters of its title: nashconv.pdf, loss.svg, entropy.png; repeatable.",
        ),
    ] = None,
    allow_code: AllowCodeOption = False,
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

    arena report runs/seed1 runs/seed2 --figure nashconv.pdf
    """
    with usage_errors(), named_only(allow_code=allow_code):
        _check_inputs(paths)
        if figures:
            _write_figures(paths, figures)
            return
        path = _page_path(paths, out)
        check_out(path, REPORT_PAGE, "arena report")
        are_runs = len(paths) > 1 or (paths[0] / METRICS_FILE).is_file()
        if go_on and are_runs:
            typer.echo(
                f"{path}: written at most every {SECONDS} s until the run ends; Ctrl-C stops "
                "it"
            )
            run_files, have_ended = follow(path, paths, groups)
            _print_counts(path, run_files)
            if not have_ended:
                raise typer.Exit(130)
        elif are_runs:
            run_files = read_runs(paths, groups)
            write_whole(path, report_page(*run_files))
            _print_counts(path, run_files)
        elif go_on:
            raise ValueError(
                "want --follow with folders of runs, found no metrics.jsonl in "
                f"{str(paths[0])!r}; a run writes it at its first log, so try again "
                "then"
            )
        else:
            _write_played(paths[0], path, EPISODES_PER_GROUP * groups)


def _check_inputs(paths: Sequence[Path]) -> None:
    """Refuses what is missing or cannot be combined, before errors about OUT."""
    for path in paths:
        if not path.exists():
            raise ValueError(
                "want a run folder, a tournament folder or a file of episodes, found "
                f"none at {str(path)!r}; give one such as runs/first"
            )
    if len(paths) > 1 and not all((path / METRICS_FILE).is_file() for path in paths):
        others = ", ".join(str(p) for p in paths if not (p / METRICS_FILE).is_file())
        raise ValueError(
            "want run folders (with metrics.jsonl) in a report of several, found none "
            f"at {others}; a tournament or a file of episodes has a report of its own"
        )


def _write_figures(paths: Sequence[Path], figures: Sequence[Path]) -> None:
    """Writes charts of runs, each named by its file."""
    for file in figures:
        if file.suffix not in FIGURE_TYPES:
            raise ValueError(
                f"want --figure as a file of {', '.join(FIGURE_TYPES)}, got {str(file)!r}; give "
                "another ending"
            )
        if not file.parent.is_dir():
            raise ValueError(
                f"no folder {str(file.parent)!r}; make it, or give another --figure"
            )
    runs = read_runs(paths, 1)
    if len(runs) > 1:
        runs = name_sources(runs)
    charts, last = run_charts(runs), last_step_of(runs)
    for file in figures:
        chart = chart_named(charts, file.stem)
        write_figure(chart, file, last)
        num_bars = sum(len(curve.intervals) for curve in chart.lines)
        bars = "; bars are 95 % intervals" if num_bars else "; no intervals were logged"
        names = ", ".join(run.name for run in runs)
        typer.echo(f"{file}: {chart.title}, by optimizer step, of {names}{bars}")


def _page_path(paths: Sequence[Path], out: Path | None) -> Path:
    """The path of the page."""
    if out is not None:
        return out
    if len(paths) > 1:
        raise ValueError(
            f"want --out with several runs, got {len(paths)} without; add --out OUT"
        )
    (path,) = paths
    return path / PAGE_NAME if path.is_dir() else path.with_suffix(".html")


def _write_played(source: Path, path: Path, num_episodes: int) -> None:
    """Writes the page of a tournament, of an evaluation, or of `arena improve`."""
    if source.is_dir() and is_improvement(source):
        write_whole(path, improve_page(source))
        typer.echo(f"{path}: the texts of arena improve")
        return
    if source.is_dir() and not (source / MATCHES).is_file():
        advice = reading_advice(
            source,
            "give the --output-dir of arena train, such as runs/first, or the --out of "
            "arena bench tournament",
        )
        if (source / "curves.png").is_file():
            advice += f"; {source}/curves.png compares the rounds"
        raise ValueError(
            "want a folder with metrics.jsonl or results.jsonl, found neither in "
            f"{str(source)!r}; {advice}"
        )
    read_files = read_tournament if source.is_dir() else read_evaluation
    played_files = read_files(source, num_episodes)
    write_whole(path, played_page(played_files))
    _print_bad_lines(played_files.bad, "")
    tables = _count_text(len(played_files.tables), "result table")
    typer.echo(
        f"{path}: {tables}, {_count_text(len(played_files.episodes), 'episode')}"
    )


def _print_counts(path: Path, runs: Sequence[RunFiles]) -> None:
    for run in runs:
        _print_bad_lines(run.bad, f"{run.name}, " if len(runs) > 1 else "")
    num_steps = sum(len({record["step"] for record in run.metrics}) for run in runs)
    num_episodes = sum(len(run.episodes) for run in runs)
    steps = _count_text(num_steps, "logged step")
    typer.echo(f"{path}: {steps}, {_count_text(num_episodes, 'episode')}")


def _count_text(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _print_bad_lines(bad: Iterable[tuple[str, BadLine]], name: str) -> None:
    for file, line in bad:
        typer.echo(
            f"{name}{file}, line {line.line} is left out: {line.reason}", err=True
        )
