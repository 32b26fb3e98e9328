"""Reads command lines of `arena train`."""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from arena_trainers.job.run_folder import (
    CONFIG,
    SELF_PLAY,
    default_folder,
    read_config,
    read_run,
)
from arena_trainers.job.settings import (
    DEFAULT_RECIPE,
    MODEL_RECIPE,
    load_recipe,
    read_overrides,
)
from arena_trainers.lm.prompt_file import saved_options
from arena_trainers.loops.overrides import overridden
from arena_trainers.loops.settings import ROUNDS, is_loop, with_rounds

ADAPTER_LEARNING_RATE = 3e-5  # full tuning of a pretrained model takes less
HELP = ("-h", "--help", "--help-all")
DRY_RUN = "--dry-run"


@dataclass(frozen=True)
class Request:
    """A run that starts or resumes.

    Args:
        settings: options by name.
        folder: the run folder.
        recipe: name or file of the recipe.
        resume: whether to resume the run in the folder.
        extended: whether the resumed run has a new `max_steps`.
        dry: whether to print the plan of the run instead of training.
    """

    settings: dict[str, Any]
    folder: Path
    recipe: str
    resume: bool = False
    extended: bool = False
    dry: bool = False


def read_request(arguments: Sequence[str]) -> Request:
    """The run of a command line.

    Raises:
        ValueError: unknown option or recipe, or a folder without a run to resume.
    """
    rest = without_dry_run(arguments)
    return replace(_request(rest), dry=len(rest) < len(arguments))


def without_dry_run(arguments: Sequence[str]) -> list[str]:
    """The other arguments of a command line.

    Raises:
        ValueError: `--dry-run` has a value.
    """
    rest = []
    for argument, following in pairwise([*arguments, "--"]):
        flag, found, value = argument.partition("=")
        if flag.replace("_", "-") != DRY_RUN:
            rest.append(argument)
        elif found or not following.startswith("-"):
            raise ValueError(
                f"want {DRY_RUN} without a value, got {value or following!r}; a recipe "
                f"comes first: arena train RECIPE {DRY_RUN}"
            )
    return rest


def _request(arguments: Sequence[str]) -> Request:
    recipe, given = split(arguments)
    resume = given.pop("resume", None)
    if resume is not None:
        return _resumed(Path(resume), recipe, given)
    if recipe is None and is_offline(given):
        recipe, settings = "", dict(given)
    elif recipe is None:
        recipe = implied_recipe(given)
        settings = load_recipe(recipe) | saved_options(given.get("model", "")) | given
        is_adapter = recipe == MODEL_RECIPE and given.get("lora_r")
        if is_adapter and "learning_rate" not in given:
            settings["learning_rate"] = ADAPTER_LEARNING_RATE
        if recipe == DEFAULT_RECIPE and "games" in given:
            # the recipe's is for Kuhn poker; other games need other lengths
            settings.pop("max_completion_length")
            settings |= {k: v for k, v in given.items() if k == "max_completion_length"}
    else:
        settings = overridden(load_recipe(recipe), given)
    if "credit" in given and "credit_args" not in given:
        settings.pop("credit_args", None)  # options of the recipe's estimator
    if not is_offline(settings):
        settings.pop("trainer", None)
        if "data" in settings:
            raise ValueError(
                f"want a trainer that learns from rows with --data {settings['data']}, got "
                "self-play; give --trainer NAME, such as --trainer sft"
            )
    folder = settings.pop("output_dir", None)
    if folder is None and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(
            "want --output-dir when several processes train together, got none; give "
            "--output-dir runs/NAME"
        )
    path = default_folder() if folder is None else Path(folder)
    return Request(settings, path, recipe)


def is_offline(settings: Mapping[str, Any]) -> bool:
    """Whether the trainer of a run learns from rows instead of self-play."""
    return bool(settings.get("trainer", SELF_PLAY) != SELF_PLAY)


def split(arguments: Sequence[str]) -> tuple[str | None, dict[str, Any]]:
    """The recipe of a command line (None if it names none), and its options."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], read_overrides(arguments[1:])
    return None, read_overrides(arguments)


def implied_recipe(given: dict[str, Any]) -> str:
    """The recipe of a command line that names none."""
    return DEFAULT_RECIPE if given.get("model", "tiny") == "tiny" else MODEL_RECIPE


def _resumed(folder: Path, recipe: str | None, given: dict[str, Any]) -> Request:
    config = folder / CONFIG
    settings = read_config(folder) if config.is_file() else {}
    longer, model = "max_steps", folder / "model"
    if is_loop(settings):
        longer, model = ROUNDS, folder / "round-NN" / "model"
    others = [f"--{name}" for name in given if name != longer]
    if recipe is not None:
        others.insert(0, f"the recipe {recipe!r}")
    if others:
        raise ValueError(
            f"want --resume RUN alone or with --{longer} N, since the run keeps its "
            f"options, got {', '.join(others)} too; for a new run from its weights give "
            f"--model {model}"
        )
    if is_loop(settings):
        if ROUNDS in given:
            settings = with_rounds(settings, given[ROUNDS])
        return Request(settings, folder, str(config), resume=True)
    max_steps = given.get("max_steps")
    if max_steps is not None and type(max_steps) is not int:
        raise ValueError(f"want int as max_steps, got {max_steps!r}")
    settings = read_run(folder, max_steps)
    settings.pop("output_dir", None)
    return Request(
        settings, folder, str(config), resume=True, extended=max_steps is not None
    )
