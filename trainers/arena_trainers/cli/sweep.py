"""The command `arena bench sweep`."""

import itertools
import json
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from types import FrameType
from typing import Annotated, Any
from urllib.parse import quote

import typer
from rich import box
from rich.table import Table

from arena_envs.registry import split
from arena_trainers.checkpoint import newest_checkpoint
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import CsvOption, LatexOption
from arena_trainers.cli.output import JsonOption, one_form, show
from arena_trainers.cli.train import announce_code, check_request
from arena_trainers.cli.train_request import read_request
from arena_trainers.runs.folder import RESULTS
from arena_wrappers.locks import lock_of, locked
from arena_wrappers.records import write_whole

CAPTION = """\
difference: from the first options, paired by seeds; brackets: 95 % intervals of the mean over seeds
without brackets: one seed, or the same number in all seeds"""

sweep_app = typer.Typer(add_completion=False, rich_markup_mode=None)


@sweep_app.command(context_settings={"ignore_unknown_options": True})
def sweep(
    arguments: Annotated[list[str], typer.Argument(metavar="RECIPE [--key value]...")],
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=VALUE,VALUE",
            help="Option to vary, such as beta or lora.r; repeatable. A+B=1+2,3+4 varies two as one.",
        ),
    ],
    output_dir: Annotated[
        Path, typer.Option(metavar="DIR", help="Folder of all runs.")
    ],
    num_seeds: Annotated[
        int, typer.Option("--seeds", help="Seeds, from 0.", min=1)
    ] = 3,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    as_latex: LatexOption = False,
) -> None:
    """Train with all combinations of options, and compare them over seeds.

    Options of `arena train` apply to all runs. After a stop the same command goes on: finished
    runs are kept, others resume. The value of a run is its last NashConv (lower is better) or, in
    games without it, the return against random play, or else in self-play. Intervals are of the
    mean over seeds. Differences are from the first combination, paired by seeds.

    For example:

    arena bench sweep kuhn-tiny --vary credit=mars,episode --vary max_steps=20,40 --output-dir runs/a

    arena bench sweep kuhn-tiny --vary warm_start.steps+max_steps=6+54,54+6 --output-dir runs/b  # two of two
    """
    with usage_errors():
        form = one_form(json=as_json, csv=as_csv, latex=as_latex)
        runs: dict[str, dict[Path, list[str]]] = {}
        for options in _grid(vary):
            name = ",".join(options)
            place = output_dir / quote(name, safe="=,")
            runs[name] = {}
            for seed in range(num_seeds):
                folder = place / f"seed-{seed}"
                runs[name][folder] = [
                    *arguments,
                    *(f"--{option}" for option in options),
                    f"--seed={seed}",
                    f"--output-dir={folder}",
                ]
        jobs = [job for commands in runs.values() for job in commands.items()]
        for folder, command in jobs:
            request = read_request(command)
            announce_code(request, is_main=folder == jobs[0][0])
            if not folder.exists():  # refuses mistakes before hours of training
                check_request(request, is_main=True)
        if request.dry:
            return
        lock = lock_of(output_dir, is_folder=True)
        _check_sweep(output_dir / "sweep.json", arguments)
    for folder, command in jobs:
        _train_once(folder, command)
    lock.release()
    records = list(_records({name: [*commands] for name, commands in runs.items()}))
    show(form, records, records, lambda _: [_sweep_table(records)])


def _grid(vary: Sequence[str]) -> list[tuple[str, ...]]:
    """All combinations, such as `("credit=mars", "max_steps=4")`; `a+b=1+2,3+4` varies two as one."""
    axes = []
    for axis in vary:
        key, _, values = axis.partition("=")
        keys = key.split("+")
        points = [
            part.split("+") if len(keys) > 1 else [part] for part in split(values)
        ]
        are_complete = bool(points) and all(len(point) == len(keys) for point in points)
        if not are_complete or not all(map(_is_name, keys)):
            raise ValueError(f"want --vary KEY=VALUE,VALUE, got {axis!r}")
        axes.append([_assignments(keys, point) for point in points])
    return [
        tuple(itertools.chain.from_iterable(options))
        for options in itertools.product(*axes)
    ]


def _is_name(key: str) -> bool:
    """Whether a word names an option: `beta`, or `lora.r` of a mapping."""
    return all(map(str.isidentifier, key.split(".")))


def _assignments(keys: Sequence[str], values: Sequence[str]) -> list[str]:
    return [f"{key}={value}" for key, value in zip(keys, values, strict=True)]


def _check_sweep(path: Path, arguments: Sequence[str]) -> None:
    """Notes the arguments of a new sweep; refuses those of another one."""
    earlier_arguments = json.loads(path.read_text()) if path.is_file() else [*arguments]
    if earlier_arguments != [*arguments]:
        raise ValueError(
            f"{path} is of a sweep of {shlex.join(earlier_arguments)}; give another --output-dir"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(list(arguments)))


def _train_once(folder: Path, command: Sequence[str]) -> None:
    """Trains a run to its end, unless it has ended, in a process of its own."""
    if (folder / RESULTS).is_file():
        return
    if newest_checkpoint(folder).checkpoint is not None:
        command = ["--resume", str(folder)]
    else:
        with usage_errors(), locked(folder, is_folder=True):
            shutil.rmtree(folder, ignore_errors=True)  # there is nothing to go on with
    typer.echo(f"arena train {shlex.join(command)}", err=True)
    # without the working directory in front of Python's path
    train_command = [sys.executable, "-P", "-m", "arena_trainers", "train", *command]
    if status := _exit_status(train_command):
        typer.echo(f"error: {folder} did not end; the same command goes on", err=True)
        raise typer.Exit(status if status > 0 else 1)


def _exit_status(command: Sequence[str]) -> int:
    """The exit status of a process in a group of its own, which gets the signals of this one.

    The first one has it save a checkpoint, see `arena_trainers.runs.run`.
    """
    early_signals: list[int] = []  # signals before there is a process
    process: subprocess.Popen[bytes] | None = None

    def pass_on(signum: int, _: FrameType | None) -> None:
        if process is None:
            early_signals.append(signum)
        else:
            process.send_signal(signum)

    signums = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    handlers = {signum: signal.getsignal(signum) for signum in signums}
    for signum, handler in handlers.items():
        if handler is not signal.SIG_IGN:
            signal.signal(signum, pass_on)
    try:
        process = subprocess.Popen(command, stdout=2, process_group=0)
        for number in early_signals:
            process.send_signal(number)
        return process.wait()
    finally:
        for signum, handler in handlers.items():
            signal.signal(signum, handler)


def _records(runs: Mapping[str, Sequence[Path]]) -> Iterator[dict[str, Any]]:
    """A record of each game and combination; differences are from the first one."""
    first_values: dict[str, list[float]] = {}
    for options, folders in runs.items():
        values_by_game: dict[tuple[str, str], list[float]] = {}
        for folder in folders:
            results = json.loads((folder / RESULTS).read_text())
            for game, outcome in results["outcomes"].items():
                metric, value = _metric_and_value(outcome)
                values_by_game.setdefault((game, metric), []).append(value)
        for (game, metric), values in values_by_game.items():
            names = {"game": game, "options": options, "metric": metric}
            base_values = first_values.setdefault(game, values)
            differences = [
                value - base for value, base in zip(values, base_values, strict=True)
            ]
            summary = _mean_with_interval("value", values) | _mean_with_interval(
                "difference", differences
            )
            yield names | {"num_seeds": len(values)} | summary


def _mean_with_interval(name: str, values: Sequence[float]) -> dict[str, Any]:
    """A mean over seeds with the ends of its interval; None where all are equal."""
    from arena_eval.intervals import mean_interval

    ends = mean_interval(values) if len({*values}) > 1 else (None, None)
    return {name: fmean(values), f"{name}_low": ends[0], f"{name}_high": ends[1]}


def _metric_and_value(outcome: Mapping[str, Any]) -> tuple[str, float]:
    """The metric of a game in `results.json`, and its value after training."""
    last = outcome["stages"][-1]
    rows = [row for row in outcome["evaluation"] if row["opponent"] == "random"]
    if last["nash_conv"] is not None:
        return "NashConv", last["nash_conv"]
    if last["learner"]:
        return "return of the learner", last["learner"]["mean_return"]
    if rows:
        return "return against random", rows[-1]["mean_return"]
    return "return in self-play", fmean(row["mean"] for row in last["returns"])


def _sweep_table(records: Sequence[Mapping[str, Any]]) -> Table:
    heads = ["game", "options", "metric", "seeds", "value (95 %)", "difference (95 %)"]
    table = Table(*heads, title="Sweep", box=box.SIMPLE_HEAD, caption=CAPTION)
    table.caption_justify = "left"
    for record in records:
        cells = [
            record["game"],
            record["options"],
            record["metric"],
            str(record["num_seeds"]),
        ]
        for name in ("value", "difference"):
            low, high = record[f"{name}_low"], record[f"{name}_high"]
            ends = "" if low is None else f" ({low:z.3f} to {high:z.3f})"
            cells.append(f"{record[name]:z.3f}{ends}")
        table.add_row(*cells)
    return table
