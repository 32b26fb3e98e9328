"""The command `arena replay`."""

import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from arena_envs.trust import named_only
from arena_studio.outputs import EPISODES, reading_advice
from arena_studio.report.episode_text import episode_lines
from arena_studio.report.episodes import (
    BadLine,
    Recorded,
    count_lines,
    not_blank,
    read_lines,
)
from arena_studio.report.page import write_replay
from arena_studio.report.sheet import sheet
from arena_studio.report.stepper import Stepper
from arena_trainers.cli.arguments import check_out
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import AllowCodeOption
from arena_trainers.terminal import Console
from arena_wrappers.play import game_of
from arena_wrappers.records import write_whole

NUM_PRINTED, NUM_IN_PAGE = 4, 200  # episodes, unless --episodes is given
MAX_WARNINGS = 5
REPLAY_PAGE = (b"<!doctype html>", b"Made by arena replay.")  # what our files hold
PICTURE = (b"<svg ", b'class="f-paper"')


def replay(
    file: Annotated[Path, typer.Argument(metavar="FILE")],
    page: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page of replays.")
    ] = None,
    figure: Annotated[
        Path | None,
        typer.Option(metavar="FILE.svg", help="Draw all turns of one episode."),
    ] = None,
    num_episodes: Annotated[
        int | None,
        typer.Option(
            "--episodes",
            "-n",
            help=f"Number of lines to show [default: {NUM_IN_PAGE} in a page, {NUM_PRINTED} printed, all in a terminal].",
            min=1,
        ),
    ] = None,
    first: Annotated[
        int, typer.Option(help="First line to show, counted from 1.", min=1)
    ] = 1,
    seen_by: Annotated[
        str,
        typer.Option(
            metavar="AGENT", help="Whose view --figure draws: all, or player_0."
        ),
    ] = "all",
    full: Annotated[
        bool,
        typer.Option("--full", help="Show whole prompts, not only the last message."),
    ] = False,
    allow_code: AllowCodeOption = False,
) -> None:
    """Replay recorded episodes: in the terminal, as a page, or as a picture.

    Without --page and --figure, keys step through the turns; in a pipe the turns are printed.
    FILE has JSON lines: episodes.jsonl or rollouts/step-N.jsonl of a run folder, the --out
    file of eval or play, or results.jsonl of a tournament. Only rollouts have credit.

    For example:

    arena replay runs/seed1/episodes.jsonl

    arena replay runs/seed1/rollouts/step-400.jsonl --page replay.html
    """
    with usage_errors(), named_only(allow_code=allow_code):
        _check_options(file, page, figure, seen_by)
        if page is not None:
            _write_page(file, page, first, num_episodes or NUM_IN_PAGE)
        elif figure is not None:
            (line,) = _with_an_episode(read_lines(file, first - 1, 1), file)
            if isinstance(line, Recorded):
                write_whole(figure, sheet(line.rollout.episode, seen_by))
                typer.echo(f"{figure}: the episode of line {line.line}")
        elif sys.stdin.isatty() and sys.stdout.isatty():
            step_through(
                _with_an_episode(read_lines(file, first - 1, num_episodes), file), full
            )
        else:
            _print(file, first, num_episodes or NUM_PRINTED, full)


def _check_options(
    file: Path, page: Path | None, figure: Path | None, seen_by: str
) -> None:
    if page is not None and figure is not None:
        raise ValueError("want --page or --figure, got both; give one of them")
    if seen_by != "all" and figure is None:
        raise ValueError(
            f"want --seen-by with --figure only, got --seen-by {seen_by}; add --figure FILE.svg, "
            "or choose the view in the page or with the key v in a terminal"
        )
    if out := page or figure:
        if file.exists() and out.exists() and out.samefile(file):
            raise ValueError(f"{out} is the file of episodes itself; give another OUT")
        check_out(out, REPLAY_PAGE if page else PICTURE, "arena replay")
    if figure is not None and figure.suffix != ".svg":
        raise ValueError(
            f"want --figure as a file .svg, got {str(figure)!r}; give another ending"
        )


def step_through(
    lines: Sequence[Recorded | BadLine],
    full: bool,
    read_key: Callable[[], str] = typer.getchar,
) -> None:
    """Shows one turn at a time, until the reader quits."""
    stepper, terminal = Stepper(lines, full), Console()
    while not stepper.is_over:
        terminal.clear()
        typer.echo(stepper.screen())
        try:
            stepper.press(read_key())
        except (EOFError, KeyboardInterrupt):
            return


def _with_an_episode(
    lines: Iterator[Recorded | BadLine], file: Path
) -> list[Recorded | BadLine]:
    """The lines, of which at least one must be an episode.

    Raises:
        ValueError: none is; the message has the first fault.
    """
    shown_lines = list(not_blank(lines))
    if not shown_lines and next(not_blank(read_lines(file)), None) is None:
        raise ValueError(f"the file {file} holds no episodes; give another FILE")
    if not shown_lines:
        raise ValueError(
            f"want --first of at most the number of lines in {file}, "
            f"{count_lines(file)}"
        )
    bad = [line for line in shown_lines if isinstance(line, BadLine)]
    if len(bad) == len(shown_lines):
        advice = reading_advice(file, readable=EPISODES)
        reason = f"no episode; {advice}" if advice else bad[0].reason
        raise ValueError(f"{file}, line {bad[0].line}: {reason}")
    return shown_lines


def _write_page(file: Path, out: Path, first: int, count: int) -> None:
    lines = _with_an_episode(read_lines(file, first - 1, count), file)
    left = count_lines(file) - lines[-1].line
    write_replay(out, lines, title=file.name, left=left)
    bad = [line for line in lines if isinstance(line, BadLine)]
    for line in bad[:MAX_WARNINGS]:
        typer.echo(f"line {line.line} is no episode: {line.reason}", err=True)
    if len(bad) > MAX_WARNINGS:
        typer.echo(f"{len(bad) - MAX_WARNINGS} more lines are no episodes", err=True)
    typer.echo(f"{out}: {len(lines) - len(bad)} episodes")
    _print_num_left(left, lines)


def _print(file: Path, first: int, count: int, full: bool) -> None:
    lines = _with_an_episode(read_lines(file, first - 1, count), file)
    faults = {}
    for line in lines:
        if isinstance(line, Recorded):
            try:
                game_of(line.rollout.episode)
            except (ImportError, ValueError) as error:
                faults[" ".join(str(error).split())] = True
    for fault in faults:
        typer.echo(f"note: no replay, the prompts only: {fault}", err=True)
    for line in lines:
        if isinstance(line, BadLine):
            typer.echo(f"--- line {line.line} is no episode: {line.reason}\n")
            continue
        for text in episode_lines(line, full):
            typer.echo(text)
    _print_num_left(count_lines(file) - lines[-1].line, lines)


def _print_num_left(left: int, lines: Sequence[Recorded | BadLine]) -> None:
    """Tells the number of lines that follow those shown."""
    if left:
        following = lines[-1].line + 1
        typer.echo(f"{left} more: --first {following} shows the next ones")
