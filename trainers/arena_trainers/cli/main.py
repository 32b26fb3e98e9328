"""The `arena` command."""

import errno
import itertools
import json
import os
import shlex
import shutil
import signal
import subprocess
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import TYPE_CHECKING, Annotated, Any
from urllib.parse import quote

import typer
from rich import box
from rich.table import Table
from typer.core import TyperGroup

from arena_envs import extras
from arena_envs.doors import missing_extra, split
from arena_envs.trust import named_only, no_code
from arena_trainers.checkpoint import newest_checkpoint, step_of
from arena_trainers.cli import episodes, evaluate, games
from arena_trainers.cli.credit import audit_app, credit_app
from arena_trainers.cli.options import (
    CsvOption,
    JsonOption,
    LatexOption,
    UsageError,
    one_form,
    show,
    usage_errors,
)
from arena_trainers.cli.serve import add_serve
from arena_trainers.cli.train import (
    HELP,
    Request,
    imports_line,
    is_offline,
    print_train_help,
    read_request,
)
from arena_trainers.finite import Diverged, how_to_begin_anew
from arena_trainers.lm.backends.server import ServerError
from arena_trainers.offline.protocol import check_name
from arena_trainers.runs import code
from arena_trainers.runs.checks import preflight
from arena_trainers.runs.folder import CONFIG, RESULTS, START, with_start
from arena_trainers.runs.settings import is_loop, load_recipe, read_loop, row_config
from arena_trainers.terminal import Console, guarded_streams
from arena_wrappers import NoReplyError
from arena_wrappers.locks import lock_of, locked
from arena_wrappers.policies import wrapped
from arena_wrappers.records import write_whole

if TYPE_CHECKING:
    from arena_trainers.runs.run import Run, Stopper


ParseError: Any = typer.BadParameter.__bases__[0]  # `UsageError` of the click in typer

_OPPONENTS = "; opponents follow --against, as in --against cfr"
_ADVICE = {  # by command, and by the start of what the parser says
    ("eval", "Got unexpected extra"): _OPPONENTS,
    ("play", "Got unexpected extra"): _OPPONENTS,
    ("games", "Got unexpected extra"): "; one game is shown by: arena show {word}",
    ("tournament", "Missing option"): "; for example --games kuhn_poker,tic_tac_toe",
    ("arena", "No such command"): " arena --help lists the commands.",
}
_OPTIONS = {  # of other programs, and ours
    **dict.fromkeys(("--opponent", "--opponents", "--vs"), "--against"),
    **dict.fromkeys(("--game", "--env"), "--games"),
    **dict.fromkeys(("--num-episodes", "--num-games"), "--episodes"),
    **dict.fromkeys(("--output", "--output-dir"), "--out"),
}


class Commands(TyperGroup):
    """The commands; the parser's errors end with what to do, where that is known."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except ParseError as error:
            name = error.ctx.info_name if error.ctx is not None else ""
            option = _OPTIONS.get(getattr(error, "option_name", ""), "")
            known = (
                [one for p in error.ctx.command.params for one in p.opts]
                if name
                else []
            )
            if option in known:
                error.message += f"; did you mean {option}?"
                error.possibilities = None
            for (command, start), text in _ADVICE.items():
                if name == command and error.format_message().startswith(start):
                    word = error.format_message().rpartition("(")[2].rstrip(")")
                    error.message = error.format_message() + text.format(word=word)
            raise


app = typer.Typer(
    name="arena",
    cls=Commands,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    context_settings={"token_normalize_func": lambda name: name.replace("_", "-")},
)


@app.callback(invoke_without_command=True)
def arena(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.")
    ] = False,
) -> None:
    """Text games for language models: play, evaluate, train by self-play."""
    # no output and no telemetry of libraries
    extras.hide_library_warnings()
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    os.environ.setdefault("VLLM_LOGGING_COLOR", "0")  # streams are guarded
    if show_version:
        typer.echo(version("arena-envs"))
        raise typer.Exit


@app.command(
    add_help_option=False,
    context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
)
def train(
    arguments: Annotated[
        list[str] | None, typer.Argument(metavar="[RECIPE.yaml] [--key value]...")
    ] = None,
) -> None:
    """Train a language model by self-play."""
    arguments = arguments or []
    if any(word in HELP for word in arguments):
        with usage_errors():
            print_train_help(arguments)
        return
    is_main = os.environ.get("RANK", "0") == "0"
    with usage_errors():
        request = read_request(arguments)
    with named_only(allow_code=True) if request.allow_code else nullcontext():
        with usage_errors():
            _announce(request, is_main)
            _check(request, is_main)
        if request.dry:
            return
        if request.note and is_main:
            typer.echo(request.note, err=True)
        _run(request, is_main)


def _announce(request: Request, is_main: bool) -> None:
    """Says which code the recipe names, before it is imported; a dry run imports none."""
    if request.dry:
        if code.code_named(request.settings):
            code.allow_embedded()
        return
    if is_main and (line := imports_line(request)):
        typer.echo(line, err=True)
    code.allow(request.settings)


def _check(request: Request, is_main: bool) -> None:
    """Checks what can be checked without torch, or prints the plan; the job checks the rest."""
    with no_code(active=request.dry and not request.allow_code):
        _check_settings(request, is_main)


def _check_settings(request: Request, is_main: bool) -> None:
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
def sweep(
    arguments: Annotated[list[str], typer.Argument(metavar="RECIPE [--key value]...")],
    vary: Annotated[
        list[str],
        typer.Option(
            metavar="KEY=VALUE,VALUE",
            help="Option to vary; repeatable. A+B=1+2,3+4 varies two as one.",
        ),
    ],
    output_dir: Annotated[Path, typer.Option(help="Folder of all runs.")],
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

    arena sweep kuhn-tiny --vary credit=mars,episode --vary max_steps=20,40 --output-dir runs/a

    arena sweep kuhn-tiny --vary warm_start_steps+max_steps=6+54,54+6 --output-dir runs/b  # two of two
    """
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
            _announce(request, is_main=folder == jobs[0][0])
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
    # without the working directory in front of Python's path
    train_it = [sys.executable, "-P", "-m", "arena_trainers", "train", *command]
    if status := _waited(train_it):
        typer.echo(f"error: {folder} did not end; the same command goes on", err=True)
        raise typer.Exit(status if status > 0 else 1)


def _waited(command: Sequence[str]) -> int:
    """The exit status of a process in a group of its own, which gets the signals of this one.

    The first one has it save a checkpoint, see `arena_trainers.runs.run`.
    """
    early: list[int] = []  # signals before there is a process
    process: subprocess.Popen[bytes] | None = None

    def pass_on(signum: int, _: object) -> None:
        if process is None:
            early.append(signum)
        else:
            process.send_signal(signum)

    signums = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = {signum: signal.getsignal(signum) for signum in signums}
    for signum, handler in before.items():
        if handler is not signal.SIG_IGN:
            signal.signal(signum, pass_on)
    try:
        process = subprocess.Popen(command, stdout=2, process_group=0)
        for number in early:
            process.send_signal(number)
        return process.wait()
    finally:
        for signum, handler in before.items():
            signal.signal(signum, handler)


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
    """A mean over seeds with the ends of Student's interval; None where all are equal."""
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
        table.add_row(*cells)
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
    printed: set[str] = set()

    def one_line(message: Warning | str, *_: Any, **__: Any) -> str:
        """The warning without its place in the code; "" if it was printed before."""
        text = wrapped(f"warning: {message}", sys.stderr) + "\n"
        is_new = text not in printed
        printed.add(text)
        return text if is_new else ""

    warnings.formatwarning = one_line
    try:
        with guarded_streams():
            _run_command()
    finally:
        warnings.formatwarning = before  # tests call this function, too


def _run_command() -> None:
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
