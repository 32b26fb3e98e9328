"""The command `arena watch`."""

import getpass
import os
import shlex
import socket
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Group
from rich.live import Live
from rich.progress import BarColumn, Progress, TextColumn
from rich.text import Text

from arena_envs import extras
from arena_envs.trust import named_only
from arena_studio.outputs import output_at, reading_advice, training_folders
from arena_studio.report.run_files import MAX_RUNS, METRICS_FILE
from arena_studio.report.run_status import memory_lines, run_status, status_lines
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import AllowCodeOption, PortOption
from arena_trainers.cli.ports import check_free
from arena_trainers.terminal import Console

HOST = "127.0.0.1"
LOOK_SECONDS = 2.0  # between two looks at the files


def watch(
    runs: Annotated[
        list[Path],
        typer.Argument(metavar="RUN...", help="Folders of runs, also of new ones."),
    ],
    in_terminal: Annotated[
        bool,
        typer.Option("--terminal", help="Show step, time left and warnings here."),
    ] = False,
    port: PortOption = 8000,
    groups: Annotated[
        int, typer.Option(help="Groups of episodes to show of each step.", min=1)
    ] = 2,
    allow_code: AllowCodeOption = False,
) -> None:
    """Watch a run while it trains: its report, live, in a browser or a terminal.

    The page is that of `arena report`, with the time left, memory and warnings. It grows while
    the run goes on, and is served to this machine alone; the printed line opens it over ssh.

    For example:

    arena watch runs/first

    arena watch runs/first --terminal
    """
    with usage_errors():
        _check_runs(runs)
        if not in_terminal:
            check_free(HOST, port)
            extras.require(["starlette", "uvicorn"], "web")
            extras.require(["jinja2", "matplotlib"], "report")
    if in_terminal:
        _show_in_terminal(runs)
        return
    import uvicorn

    from arena_studio.report.live import LiveReport, make_live_app

    typer.echo(f"watch at http://{HOST}:{port}/; Ctrl-C stops")
    if "SSH_CONNECTION" in os.environ:
        here = f"{getpass.getuser()}@{socket.gethostname()}"
        typer.echo(f"from your machine first: ssh -L {port}:{HOST}:{port} {here}")
    app = make_live_app(LiveReport(runs, groups))
    with named_only(allow_code=allow_code):
        uvicorn.run(
            app,
            host=HOST,
            port=port,
            log_level="warning",
            use_colors=False,
            timeout_graceful_shutdown=1,  # open pages listen for ever
        )


def _check_runs(runs: Sequence[Path]) -> None:
    for folder in runs:
        if not folder.is_dir():
            advice = reading_advice(
                folder, "give the --output-dir of arena train, such as runs/first"
            )
            raise ValueError(
                f"want the folder of a run, found none at {str(folder)!r}; {advice}"
            )
        # a new run holds nothing that is known
        if output_at(folder) is not None and not (folder / METRICS_FILE).is_file():
            advice = reading_advice(folder)
            if trainings := training_folders(folder):
                word = shlex.quote(str(trainings[-1]))
                advice = f"its last training is watched by: arena watch {word}"
            raise ValueError(
                f"want the folder of a run of arena train, got {str(folder)!r}; {advice}"
            )
    if len(runs) > MAX_RUNS:
        raise ValueError(f"want at most {MAX_RUNS} runs, got {len(runs)}; give fewer")


def _show_in_terminal(runs: Sequence[Path]) -> None:
    """Draws the status again and again until all runs have ended; once into a pipe."""
    console = Console()
    if not console.is_terminal:
        for line in _plain_lines(runs):
            typer.echo(line)
        return
    with Live(console=console, auto_refresh=False) as live:
        try:
            while True:
                live.update(_picture(runs), refresh=True)
                if all(run_status(folder).has_ended for folder in runs):
                    return
                time.sleep(LOOK_SECONDS)
        except KeyboardInterrupt:
            raise typer.Exit(130) from None


def _plain_lines(runs: Sequence[Path]) -> list[str]:
    lines = []
    for folder in runs:
        status = run_status(folder)
        lines += [f"{status.name}: {line}" for line in status_lines(status)]
    return [*lines, *memory_lines()]


def _picture(runs: Sequence[Path]) -> Group:
    """A bar and the sentences of each run, then the memory."""
    parts: list[Progress | Text] = []
    for folder in runs:
        status = run_status(folder)
        name = TextColumn("{task.description}", markup=False)
        bar = Progress(name, BarColumn(), auto_refresh=False)
        bar.add_task(status.name, total=status.max_steps, completed=status.step)
        parts.append(bar)
        for line in status_lines(status):
            style = "yellow" if line.startswith("warning") else ""
            parts.append(Text(line, style))
    return Group(*parts, *(Text(line, "dim") for line in memory_lines()))
