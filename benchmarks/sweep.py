r"""Trains with all combinations of options, over seeds, and compares them.

    python benchmarks/sweep.py kuhn-tiny --vary credit=mars,episode --vary learning_rate=1e-3,3e-3 \
        --seeds 3 --output-dir runs/a

Further options are those of `arena train` and apply to all runs. After a stop the same command goes
on: finished runs are kept, others resume.
"""

import itertools
import json
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any
from urllib.parse import quote

import numpy as np
import typer
from rich import box
from rich.markup import escape
from rich.table import Table

from arena_envs.doors import split as split_values
from arena_trainers.checkpoint import newest_checkpoint
from arena_trainers.cli.main import _check as check_request
from arena_trainers.cli.options import as_command, print_tables, usage_errors
from arena_trainers.cli.train import read_request
from arena_trainers.evaluate.intervals import mean_interval
from arena_trainers.evaluate.tables import interval_text
from arena_trainers.runs.folder import RESULTS
from arena_wrappers.records import write_whole
from comparing import run_script

Vary = Annotated[
    list[str],
    typer.Option(metavar="KEY=VALUE,VALUE", help="Option to vary; repeatable."),
]
NumSeeds = Annotated[int, typer.Option("--seeds", min=1, help="Seeds, from 0.")]
SWEEP = "sweep.json"


@as_command
def sweep(
    arguments: Annotated[list[str], typer.Argument(metavar="RECIPE [--key value]...")],
    vary: Vary,
    output_dir: Annotated[Path, typer.Option(help="Folder of all runs.")],
    num_seeds: NumSeeds = 3,
    as_json: bool = False,
) -> None:
    """Train with all combinations of options, and compare them over seeds.

    Options of `arena train` apply to all runs. After a stop the same command goes on: finished
    runs are kept, others resume. The value of a run is its last NashConv (lower is better) or, in
    games without it, the return against random play, or else in self-play. Intervals are of the
    mean over seeds. Differences are from the first combination, paired by seeds.

    For example:

    python benchmarks/sweep.py kuhn-tiny --vary credit=mars,episode --output-dir runs/a
    """
    with usage_errors():
        runs: dict[str, dict[Path, list[str]]] = {}
        for options in _grid(vary):
            place = output_dir / quote(name := ",".join(options), safe="=,")
            runs[name] = {
                place / f"seed-{seed}": [
                    *(*arguments, *(f"--{option}" for option in options)),
                    *(f"--seed={seed}", f"--output-dir={place / f'seed-{seed}'}"),
                ]
                for seed in range(num_seeds)
            }
        for one in runs.values():
            for folder, command in one.items():
                request = read_request(command)
                if not folder.exists():  # refuses mistakes before hours of training
                    check_request(request, is_main=True)
        _check_sweep(output_dir / SWEEP, arguments)
    for one in runs.values():
        for folder, command in one.items():
            _train_once(folder, command)
    records = list(_swept({name: [*one] for name, one in runs.items()}))
    if as_json:
        typer.echo(json.dumps(records, indent=1))
    else:
        print_tables([_sweep_table(records)])


def _grid(vary: Sequence[str]) -> list[tuple[str, ...]]:
    """All combinations, such as `("credit=mars", "max_steps=4")`."""
    axes = []
    for one in vary:
        key, _, values = one.partition("=")
        if not (parts := split_values(values)) or not key.isidentifier():
            raise ValueError(f"want --vary KEY=VALUE,VALUE, got {one!r}")
        axes.append([f"{key}={part}" for part in parts])
    return list(itertools.product(*axes))


def _check_sweep(path: Path, arguments: Sequence[str]) -> None:
    """Notes the arguments of a new sweep; refuses those of another one."""
    before = json.loads(path.read_text()) if path.is_file() else [*arguments]
    if before != [*arguments]:
        raise ValueError(
            f"{path} is of a sweep of {shlex.join(before)}; give another --output-dir"
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
        shutil.rmtree(folder, ignore_errors=True)  # there is nothing to go on with
    typer.echo(f"arena train {shlex.join(command)}", err=True)
    code = "from arena_trainers.cli.main import main; main()"
    status = subprocess.run(
        [sys.executable, "-c", code, "train", *command], stdout=2, check=False
    ).returncode
    if status:
        typer.echo(f"error: {folder} did not end; the same command goes on", err=True)
        raise typer.Exit(status if status > 0 else 1)


def _swept(runs: Mapping[str, Sequence[Path]]) -> Iterator[dict[str, Any]]:
    """A record of each game and combination; differences are from the first one."""
    first: dict[str, list[float]] = {}
    for options, folders in runs.items():
        found: dict[tuple[str, str], list[float]] = {}
        for folder in folders:
            results = json.loads((folder / RESULTS).read_text())
            for game, outcome in results["outcomes"].items():
                metric, value = _value_of(outcome)
                found.setdefault((game, metric), []).append(value)
        for (game, metric), values in found.items():
            names = {"game": game, "options": options, "metric": metric}
            gaps = np.subtract(values, first.setdefault(game, values)).tolist()
            yield (
                names
                | {"num_seeds": len(values)}
                | _mean("value", values)
                | _mean("difference", gaps)
            )


def _mean(name: str, values: Sequence[float]) -> dict[str, Any]:
    """A mean over seeds with the ends of Student's interval; None where all are equal."""
    ends = mean_interval(values) if len({*values}) > 1 else (None, None)
    return {name: fmean(values), f"{name}_low": ends[0], f"{name}_high": ends[1]}


def _value_of(outcome: Mapping[str, Any]) -> tuple[str, float]:
    """The metric of a game in `results.json`, and its value after training."""
    last = outcome["stages"][-1]
    rows = [row for row in outcome["evaluation"] if row["opponent"] == "random"]
    if last["nash_conv"] is not None:
        return "NashConv", last["nash_conv"]
    if last["learner"]:
        return "return of the learner", last["learner"]["mean_return"]
    if rows:
        return "return against random", rows[-1]["mean_return"]
    return "return in self-play", fmean(one["mean"] for one in last["returns"])


def _sweep_table(records: Sequence[Mapping[str, Any]]) -> Table:
    heads = ["game", "options", "metric", "seeds", "value (95 %)", "difference (95 %)"]
    table = Table(*heads, title="Sweep", box=box.SIMPLE_HEAD)
    for one in records:
        cells = [
            f"{one[name]:z.3f} ({interval_text(one[f'{name}_low'], one[f'{name}_high'])})"
            for name in ("value", "difference")
        ]
        names = (one["game"], one["options"], one["metric"], str(one["num_seeds"]))
        table.add_row(*map(escape, [*names, *cells]))
    return table


if __name__ == "__main__":
    run_script(sweep, others=True)
