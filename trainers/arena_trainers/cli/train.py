"""The command `arena train`."""

import errno
import os
import shlex
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena_envs import extras
from arena_envs.trust import named_only, no_code
from arena_trainers.checkpoint import newest_checkpoint, step_of
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.train_help import HELP, RECIPES, print_train_help, recipe_list
from arena_trainers.cli.train_request import (
    Request,
    imports_line,
    is_offline,
    read_request,
)
from arena_trainers.finite import Diverged, how_to_begin_anew
from arena_trainers.lm.backends.server import ServerError
from arena_trainers.offline.protocol import check_name
from arena_trainers.runs import code, launch
from arena_trainers.runs.checks import preflight
from arena_trainers.runs.folder import CONFIG, START
from arena_trainers.runs.recipe import load_recipe
from arena_trainers.runs.resuming import start_arguments
from arena_trainers.runs.round_settings import is_loop, read_loop
from arena_trainers.runs.row_settings import row_config
from arena_trainers.terminal import Console
from arena_wrappers import NoReplyError

if TYPE_CHECKING:
    from arena_trainers.runs.run import Run
    from arena_trainers.runs.stopping import Stopper


train_app = typer.Typer(add_completion=False, rich_markup_mode=None)


@train_app.command(
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
    if RECIPES in arguments:
        with usage_errors():
            if arguments != [RECIPES]:
                raise ValueError(
                    f"want {RECIPES} alone, which lists the recipes, got "
                    f"{shlex.join(arguments)!r}; a recipe comes first: arena train NAME"
                )
        typer.echo(recipe_list())
        return
    is_main = os.environ.get("RANK", "0") == "0"
    with usage_errors():
        request = read_request(arguments)
    with named_only(allow_code=True) if request.allow_code else nullcontext():
        with usage_errors():
            announce_code(request, is_main)
            check_request(request, is_main)
        if request.dry:
            return
        if request.note and is_main:
            typer.echo(request.note, err=True)
        with usage_errors():
            status = _launched(request, arguments)
        if status is not None:
            raise typer.Exit(status)
        _run(request, is_main)


def _launched(request: Request, arguments: list[str]) -> int | None:
    """The status of the processes that the option `machine` has started; None if it starts none."""
    settings = request.settings
    if is_loop(settings) or is_offline(settings) or not settings.get("machine"):
        return None
    job, args = preflight.read_options(settings)
    if not launch.starts_processes(job):
        return None
    words = list(arguments)
    if not request.resume and "output_dir" not in request.overrides:
        words += ["--output-dir", str(request.folder)]
    return launch.launch(
        job, args, words, request.folder, lambda text: typer.echo(text, err=True)
    )


def announce_code(request: Request, is_main: bool) -> None:
    """Says which code the recipe names, before it is imported; a dry run imports none."""
    if request.dry:
        if code.named_code(request.settings):
            code.allow_embedded()
        return
    if is_main and (line := imports_line(request)):
        typer.echo(line, err=True)
    code.allow(request.settings)


def check_request(request: Request, is_main: bool) -> None:
    """Checks what can be checked without torch, or prints the plan; the job checks the rest."""
    with no_code(active=request.dry and not request.allow_code):
        _check_settings(request, is_main)


def _check_settings(request: Request, is_main: bool) -> None:
    settings = request.settings
    if not is_loop(settings) and not is_offline(settings):
        if not request.dry:
            preflight.check(settings, request.folder, resume=request.resume)
        elif is_main:
            _print_plan(request)
        return
    if request.dry and is_loop(settings):
        raise ValueError("--dry-run plans self-play, and not rounds; leave it out")
    if request.dry:
        raise ValueError(
            "--dry-run plans self-play; for rows, arena data select ... --dry-run counts "
            "their tokens"
        )
    extras.require(preflight.REQUIRED_PACKAGES, "train")
    if is_loop(settings):
        read_loop(settings)
    else:
        check_name(settings["trainer"])
        row_config(settings)
        preflight.check_rows_options(settings)
        preflight.check_reporters(settings.get("report_to"))


def _print_plan(request: Request) -> None:
    """Prints the plan of a run, with status 2 if this machine refuses it."""
    from arena_trainers.runs.checks.dry_run import plan_lines

    lines, is_refused = plan_lines(
        request.settings, request.folder, resume=request.resume
    )
    typer.echo("\n".join([*lines, request.note]).rstrip())
    if is_refused:
        raise typer.Exit(2)


def _run(request: Request, is_main: bool) -> None:
    """Trains. A signal, a lost server or endpoint, or a full disk ends it, and so do weights that diverge.

    Then the command that resumes is printed, or after a divergence the one that begins anew.
    """
    from arena_trainers.runs.rounds import RoundError
    from arena_trainers.runs.stopping import Stopped, Stopper

    stopper = Stopper(speaks=is_main)
    try:
        with stopper:
            with usage_errors():
                run = _make_run(request, stopper)
                run.prepare()
            run.run()
    except KeyboardInterrupt as error:
        if stopper.speaks:
            typer.echo(f"\n{_how_it_stopped(request.folder)}", err=True)
        status = error.status if isinstance(error, Stopped) else 130
        raise typer.Exit(status) from None
    except Exception as error:
        if isinstance(error, ServerError | NoReplyError | RoundError | Diverged):
            message: str | None = str(error)
        else:
            message = _full_disk(error, request.folder)
        if message is None:
            raise
        if stopper.speaks:
            advice = (
                how_to_begin_anew(request.folder)
                if isinstance(error, Diverged)
                else _how_it_stopped(request.folder)
            )
            typer.echo(f"\nerror: {message}\n{advice}", err=True)
        raise typer.Exit(1) from None


_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
_FULL_TEXTS_OF_SAFETENSORS = [f"(os error {number})" for number in sorted(_FULL)]
_FULL_TEXTS_OF_TORCH = ["iostream error", "unexpected pos", "PytorchStreamWriter"]
_FULL_TEXTS = [*_FULL_TEXTS_OF_SAFETENSORS, *_FULL_TEXTS_OF_TORCH]


def _full_disk(error: BaseException | None, folder: Path) -> str | None:
    """The advice if a file could not be written for lack of space; else None."""
    causes: list[BaseException] = []
    while error is not None and error not in causes:
        causes.append(error)
        error = error.__cause__ or error.__context__
    for cause in causes:
        is_full = isinstance(cause, OSError) and cause.errno in _FULL
        if is_full or any(text in str(cause) for text in _FULL_TEXTS):
            name = getattr(cause, "filename", None)
            file = f"the file {str(name)!r}" if name else "a file"
            free = shutil.disk_usage(folder if folder.exists() else ".").free
            return (
                f"{file} could not be written, as the disk is full or a quota is used up; "
                f"{str(folder)!r} has {free:,} bytes left: free some"
            )
    return None


def _make_run(request: Request, stopper: "Stopper") -> "Run":
    """The run that the settings ask for."""
    from arena_trainers.runs.rounds import Rounds
    from arena_trainers.runs.rows import RowRun
    from arena_trainers.runs.self_play import SelfPlayRun

    run_class: type[Rounds] | type[RowRun] | type[SelfPlayRun] = SelfPlayRun
    if is_loop(request.settings):
        run_class = Rounds
    elif is_offline(request.settings):
        run_class = RowRun
    return run_class(
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
            f"arena train {config} {start_arguments(folder)} --output-dir NEW"
        )
    return (
        f"stopped; the last checkpoint is of step {step_of(checkpoint)}, resume with:\n"
        f"arena train --resume {shlex.quote(str(folder))}"
    )
