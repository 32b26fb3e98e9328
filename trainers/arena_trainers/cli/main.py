"""The `arena` command."""

import contextlib
import errno
import itertools
import json
import os
import shlex
import shutil
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from arena_envs import extras
from arena_envs.doors import find_modules_here, missing_extra, split
from arena_trainers.checkpoint import newest_checkpoint, step_of
from arena_trainers.cli import episodes, evaluate, games
from arena_trainers.cli.credit import audit_app, credit_app
from arena_trainers.cli.options import (
    UsageError,
    as_command,
    one_form,
    show,
    usage_errors,
)
from arena_trainers.cli.serve import add_serve
from arena_trainers.cli.train import (
    HELP,
    Request,
    is_offline,
    print_train_help,
    read_request,
)
from arena_trainers.finite import Diverged, how_to_begin_anew
from arena_trainers.lm.backends.server import ServerError
from arena_trainers.offline.protocol import check_name
from arena_trainers.runs.checks import preflight
from arena_trainers.runs.folder import CONFIG, RESULTS, START, with_start
from arena_trainers.runs.settings import is_loop, load_recipe, read_loop, row_config
from arena_wrappers import NoReplyError
from arena_wrappers.locks import lock_of, locked
from arena_wrappers.policies import wrapped
from arena_wrappers.records import write_whole

if TYPE_CHECKING:
    from arena_trainers.runs.run import Run, Stopper


app = typer.Typer(
    name="arena",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"token_normalize_func": lambda name: name.replace("_", "-")},
)


@app.callback(invoke_without_command=True)
@as_command
def arena(show_version: bool = False) -> None:
    """Text games for language models: play, evaluate, train by self-play."""
    # no output and no telemetry of libraries
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    find_modules_here()
    if show_version:
        typer.echo(version("arena-envs"))
        raise typer.Exit


@app.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
@as_command
def train(arguments: list[str] | None = None) -> None:
    """Train a language model by self-play."""
    arguments = arguments or []
    if any(word in HELP for word in arguments):
        with usage_errors():
            print_train_help(arguments)
        return
    is_main = os.environ.get("RANK", "0") == "0"
    with usage_errors():
        request = read_request(arguments)
        _check(request, is_main)
    if request.dry:
        return
    if request.note and is_main:
        typer.echo(request.note, err=True)
    _run(request, is_main)


def _check(request: Request, is_main: bool) -> None:
    """Checks what can be checked without torch, or prints the plan; the job checks the rest."""
    settings, told = request.settings, (request.settings, request.folder)
    if not is_loop(settings) and not is_offline(settings):
        if not request.dry:
            preflight.check(*told, resume=request.resume)
        elif is_main:
            from arena_trainers.runs.checks.dry_run import plan_lines

            lines, refused = plan_lines(*told, resume=request.resume)
            typer.echo("\n".join([*lines, request.note]).rstrip())
            if refused:
                raise typer.Exit(2)
        return
    if request.dry and is_loop(settings):
        raise ValueError("--dry-run plans self-play, and not rounds; leave it out")
    if request.dry:
        raise ValueError(
            "--dry-run plans self-play; for rows, arena data ... --dry-run counts "
            "their tokens"
        )
    extras.require(preflight.NEEDED, "train")
    if is_loop(settings):
        read_loop(settings)
    else:
        check_name(settings["trainer"])
        row_config(settings)
        preflight.check_reporters(settings.get("report_to"))


def _run(request: Request, is_main: bool) -> None:
    """Trains. A signal, a lost server or endpoint, or a full disk ends it, and so do weights that diverge.

    Then the command that resumes is printed, or after a divergence the one that begins anew.
    """
    from arena_trainers.runs.rounds import RoundError
    from arena_trainers.runs.run import Stopped, Stopper

    stopper = Stopper(speaks=is_main)
    try:
        with stopper:
            with usage_errors():
                run = _run_of(request, stopper)
                run.prepare()
            run.run()
    except KeyboardInterrupt as error:
        if stopper.speaks:
            typer.echo(f"\n{_how_it_stopped(request.folder)}", err=True)
        status = error.status if isinstance(error, Stopped) else 130
        raise typer.Exit(status) from None
    except Exception as error:
        diverged = isinstance(error, Diverged)
        known = isinstance(error, ServerError | NoReplyError | RoundError) or diverged
        said = str(error) if known else _full_disk(error, request.folder)
        if said is None:
            raise
        if stopper.speaks:
            then = how_to_begin_anew if diverged else _how_it_stopped
            message = f"error: {said}\n{then(request.folder)}"
            typer.echo(f"\n{message}", err=True)
        raise typer.Exit(1) from None


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL_TEXTS = (
    *(f"(os error {number})" for number in sorted(_FULL)),  # of safetensors
    *("iostream error", "unexpected pos", "PytorchStreamWriter"),  # of torch.save
)


def _full_disk(error: BaseException | None, folder: Path) -> str | None:
    """The advice if a file could not be written for lack of space; else None."""
    seen: list[BaseException] = []
    while error is not None and error not in seen:
        seen.append(error)
        error = error.__cause__ or error.__context__
    for one in seen:
        is_full = isinstance(one, OSError) and one.errno in _FULL
        if is_full or any(part in str(one) for part in _FULL_TEXTS):
            name = getattr(one, "filename", None)
            file = f"the file {str(name)!r}" if name else "a file"
            free = shutil.disk_usage(folder if folder.exists() else ".").free
            return (
                f"{file} could not be written, as the disk is full or a quota is used up; "
                f"{str(folder)!r} has {free:,} bytes left: free some"
            )
    return None


def _run_of(request: Request, stopper: "Stopper") -> "Run":
    """The run that the settings ask for."""
    from arena_trainers.runs.rounds import Rounds
    from arena_trainers.runs.rows import RowRun
    from arena_trainers.runs.self_play import SelfPlay

    learns = RowRun if is_offline(request.settings) else SelfPlay
    kind = Rounds if is_loop(request.settings) else learns
    return kind(
        request.settings,
        request.folder,
        Console(),
        resume=request.resume,
        recipe=request.recipe,
        extended=request.extended,
        stopper=stopper,
    )


def _how_it_stopped(folder: Path) -> str:
    if (folder / CONFIG).is_file() and is_loop(load_recipe(str(folder / CONFIG))):
        return (
            "stopped; finished stages are kept, go on with:\n"
            f"arena train --resume {shlex.quote(str(folder))}"
        )
    checkpoint = newest_checkpoint(folder).checkpoint
    if checkpoint is None:
        text = "stopped before the first checkpoint"
        if not (folder / START).is_dir():
            return text
        config = shlex.quote(str(folder / CONFIG))
        return (
            f"{text}; the model before self-play is kept, start from it with:\n"
            f"arena train {config} {with_start(folder)} --output-dir NEW"
        )
    return (
        f"stopped; the last checkpoint is of step {step_of(checkpoint)}, resume with:\n"
        f"arena train --resume {shlex.quote(str(folder))}"
    )


SWEPT = """\
difference: from the first options, paired by seeds; brackets: 95 % intervals of the mean over seeds
without brackets: one seed, or the same number in all seeds"""


@app.command(context_settings={"ignore_unknown_options": True})
@as_command
def sweep(
    arguments: list[str],
    vary: list[str],
    output_dir: Path,
    num_seeds: int = 3,
    as_json: bool = False,
    as_csv: bool = False,
    as_latex: bool = False,
) -> None:
    """Train with all combinations of options, and compare them over seeds."""
    with usage_errors():
        form = one_form(json=as_json, csv=as_csv, latex=as_latex)
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
        jobs = [job for one in runs.values() for job in one.items()]
        for folder, command in jobs:
            request = read_request(command)
            if not folder.exists():  # refuses mistakes before hours of training
                _check(request, is_main=True)
        if request.dry:
            return
        lock = lock_of(output_dir, is_folder=True)
        _check_sweep(output_dir / "sweep.json", arguments)
    for folder, command in jobs:
        _train_once(folder, command)
    lock.release()
    records = list(_swept({name: [*one] for name, one in runs.items()}))
    show(form, records, records, lambda _: [_sweep_table(records)])


def _grid(vary: Sequence[str]) -> list[tuple[str, ...]]:
    """All combinations, such as `("credit=mars", "max_steps=4")`; `a+b=1+2,3+4` varies two as one."""
    axes = []
    for one in vary:
        key, _, values = one.partition("=")
        keys = key.split("+")
        tied = [part.split("+") if keys[1:] else [part] for part in split(values)]
        if {*map(len, tied)} != {len(keys)} or not all(map(str.isidentifier, keys)):
            raise ValueError(f"want --vary KEY=VALUE,VALUE, got {one!r}")
        axes.append([tuple(map("{}={}".format, keys, told)) for told in tied])
    return [sum(options, ()) for options in itertools.product(*axes)]


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
        with usage_errors(), locked(folder, is_folder=True):
            shutil.rmtree(folder, ignore_errors=True)  # there is nothing to go on with
    typer.echo(f"arena train {shlex.join(command)}", err=True)
    train_it = [sys.executable, "-m", "arena_trainers", "train", *command]
    if status := _waited(train_it):
        typer.echo(f"error: {folder} did not end; the same command goes on", err=True)
        raise typer.Exit(status if status > 0 else 1)


def _waited(command: Sequence[str]) -> int:
    """The exit status of a process that Ctrl-C reaches, too: it first saves a checkpoint."""
    with subprocess.Popen(command, stdout=2) as process:
        while True:
            with contextlib.suppress(KeyboardInterrupt):
                return process.wait()


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
            base = first.setdefault(game, values)
            gaps = [x - y for x, y in zip(values, base, strict=True)]
            ends = _mean("value", values) | _mean("difference", gaps)
            yield names | {"num_seeds": len(values)} | ends


def _mean(name: str, values: Sequence[float]) -> dict[str, Any]:
    """A mean over seeds with the ends of its interval; None where all are equal."""
    from arena_eval.intervals import mean_interval

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
    table = Table(*heads, title="Sweep", box=box.SIMPLE_HEAD, caption=SWEPT)
    table.caption_justify = "left"
    for one in records:
        cells = [one["game"], one["options"], one["metric"], str(one["num_seeds"])]
        for name in ("value", "difference"):
            low, high = one[f"{name}_low"], one[f"{name}_high"]
            ends = "" if low is None else f" ({low:z.3f} to {high:z.3f})"
            cells.append(f"{one[name]:z.3f}{ends}")
        table.add_row(*map(escape, cells))
    return table


for name, command in (
    *(("games", games.list_games), ("show", games.show_game), ("check", games.check)),
    *(("new-game", games.new_game), ("eval", evaluate.evaluate)),
    *(("play", evaluate.play), ("replay", episodes.replay)),
    *(("report", episodes.report), ("data", episodes.data)),
    *(("export", episodes.export), ("solve", games.solve)),
    *(("tournament", evaluate.tournament), ("compare", evaluate.compare)),
    ("attribute", evaluate.attribute),
):
    app.command(name)(command)
add_serve(app)
app.add_typer(credit_app)
app.add_typer(audit_app)
app.add_typer(evaluate.board_app)


def main() -> None:
    """Runs the command; a usage error prints one sentence and exits with status 2."""
    before = warnings.formatwarning
    # without the place in the code, which says nothing to users of commands
    warnings.formatwarning = lambda message, *_, **__: (
        wrapped(f"warning: {message}", sys.stderr) + "\n"
    )
    try:
        app()
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("arena_"):
            raise
        named = error if "pip install" in str(error) else missing_extra(error)
        typer.echo(f"error: {named}", err=True)
        sys.exit(2)
    except UsageError as error:
        typer.echo(wrapped(f"error: {error}", sys.stderr), err=True)
        sys.exit(2)
    except BrokenPipeError:  # the reader, such as `head`, has closed the pipe
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    finally:
        warnings.formatwarning = before  # tests call this function, too
