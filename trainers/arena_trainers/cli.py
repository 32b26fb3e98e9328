"""The `arena` command."""

import os
import sys
import warnings
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console

from arena_trainers import (
    credit_commands,
    episode_commands,
    game_commands,
    play_commands,
    solve_command,
    tournament_commands,
)
from arena_trainers.extras import missing_extra
from arena_trainers.usage import UsageError, usage_errors

if TYPE_CHECKING:
    from arena_trainers.job import TrainingJob

app = typer.Typer(
    name="arena",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def arena(
    show_version: Annotated[
        bool, typer.Option("--version", help="Show the version and exit.")
    ] = False,
) -> None:
    """Text games for language models: look at them, check yours, train by self-play."""
    _quiet_libraries()
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
    """Train a language model by self-play; `arena train --help` lists every option."""
    arguments = arguments or []
    if "--help" in arguments or "-h" in arguments:
        _show_train_help()
        return
    _quiet_libraries()
    with usage_errors():
        job, path = _training_job(arguments)
        job.prepare()
    try:
        job.run()
    except KeyboardInterrupt:
        typer.echo(f"\nstopped; if {path} has a checkpoint, go on with:", err=True)
        typer.echo(f"arena train --resume {path}", err=True)
        raise typer.Exit(130) from None


game_commands.add_commands(app)
play_commands.add_commands(app)
episode_commands.add_commands(app)
solve_command.add_commands(app)
tournament_commands.add_commands(app)
credit_commands.add_commands(app)


def _training_job(arguments: list[str]) -> tuple["TrainingJob", Path]:
    """The job that a command line describes, and its folder."""
    from arena_trainers import job_config
    from arena_trainers.job import TrainingJob
    from arena_trainers.run_folder import default_folder

    recipe = None
    if arguments and not arguments[0].startswith("--"):
        recipe, *arguments = arguments
    given = job_config.read_overrides(arguments)
    resume = given.pop("resume", None)
    folder = given.pop("output_dir", None)
    if resume is not None:
        if recipe or given or folder:
            raise ValueError("want --resume RUN_DIR alone: the run keeps its options")
        folder, recipe = resume, str(Path(resume) / "config.yaml")
    elif recipe is None:
        is_tiny = given.get("model", "tiny") == "tiny"
        recipe = job_config.DEFAULT_RECIPE if is_tiny else job_config.MODEL_RECIPE
    settings = {**job_config.load_recipe(recipe), **given}
    if "credit" in given and "credit_args" not in given:
        settings.pop("credit_args", None)  # they were another estimator's
    if folder is None and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError("want --output-dir when several processes train together")
    path = Path(folder) if folder is not None else default_folder()
    job = TrainingJob(
        settings, path, Console(), resume=resume is not None, recipe=recipe
    )
    return job, path


def _show_train_help() -> None:
    from arena_trainers.train_help import show

    _quiet_libraries()
    show(Console())


def _quiet_libraries() -> None:
    """Keeps libraries from writing between the lines of ours, and off the network."""
    warnings.filterwarnings("ignore", category=FutureWarning, module="transformers")
    os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
    os.environ.setdefault("HF_DATASETS_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")


def main() -> None:
    """Runs the command; a mistake in its use ends with one sentence and status 2."""
    try:
        app()
    except ModuleNotFoundError as error:
        if error.name and error.name.startswith("arena_"):
            raise
        named = error if "pip install" in str(error) else missing_extra(error)
        typer.echo(f"error: {named}", err=True)
        sys.exit(2)
    except UsageError as error:
        typer.echo(f"error: {error}", err=True)
        sys.exit(2)
