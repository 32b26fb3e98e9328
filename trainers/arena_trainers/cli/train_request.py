"""Command lines of `arena train`."""

import os
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import yaml

from arena_credit.by_name import default_options, with_options
from arena_envs.trust import no_code
from arena_trainers.lm.prompt_file import saved_options
from arena_trainers.offline.protocol import SELF_PLAY
from arena_trainers.runs import code
from arena_trainers.runs.defaults import drop_yielding_options
from arena_trainers.runs.folder import CONFIG, START, read_config
from arena_trainers.runs.recipe import (
    DEFAULT_RECIPE,
    MODEL_RECIPE,
    ROUNDS,
    load_recipe,
    overridden,
    read_overrides,
    recipes,
)
from arena_trainers.runs.resuming import read_run, start_arguments
from arena_trainers.runs.round_settings import is_loop, with_rounds
from arena_trainers.train.critics.registry import critic_facts, critics
from arena_trainers.train.settings import SelfPlay

ADAPTER_LEARNING_RATE = 3e-5  # full tuning of a pretrained model takes less
DRY_RUN, ALLOW_CODE = "--dry-run", "--allow-code"
FLAGS = (DRY_RUN, ALLOW_CODE)


@dataclass(frozen=True)
class Request:
    """A run that starts or resumes.

    Args:
        settings: options by name.
        folder: the run folder.
        recipe: name or file of the recipe.
        resume: whether to resume the run in the folder.
        extended: whether the resumed run has a new `max_steps`.
        overrides: options of the command line.
        dry: whether to print the plan of the run instead of training.
        allow_code: whether a dry run, and files of rows, may name code.
        note: what a user should know of the settings, if anything.
    """

    settings: dict[str, Any]
    folder: Path
    recipe: str
    resume: bool = False
    extended: bool = False
    overrides: Mapping[str, Any] = field(default_factory=dict)
    dry: bool = False
    allow_code: bool = False
    note: str = ""


def read_request(arguments: Sequence[str]) -> Request:
    """The run of a command line.

    Raises:
        ValueError: unknown option or recipe, or a folder without a run to resume.
    """
    options, flags = without_flags(arguments)
    dry, allow_code = DRY_RUN in flags, ALLOW_CODE in flags
    _, overrides = recipe_and_overrides(options)
    code.allow(overrides)
    with no_code(active=dry and not allow_code):
        request = _new_request(options)
    return replace(request, overrides=overrides, dry=dry, allow_code=allow_code)


def without_flags(arguments: Sequence[str]) -> tuple[list[str], set[str]]:
    """The arguments of a command line but for the flags `FLAGS`, and these.

    Raises:
        ValueError: a flag has a value.
    """
    options, flags = [], set()
    for argument, following in pairwise([*arguments, "--"]):
        word, equals, value = argument.partition("=")
        flag = word.replace("_", "-")
        if flag not in FLAGS:
            options.append(argument)
        elif equals or not following.startswith("-"):
            raise ValueError(
                f"want {flag} without a value, got {value or following!r}; a recipe comes "
                f"first: arena train RECIPE {flag}"
            )
        else:
            flags.add(flag)
    return options, flags


def imports_line(request: Request) -> str:
    """The code that a recipe outside this package names, as a line; empty if it names none.

    What the command line names is left out.
    """
    typed_code = code.named_code(request.overrides)
    named_code = [
        path for path in code.named_code(request.settings) if path not in typed_code
    ]
    if not named_code or request.recipe in recipes():
        return ""
    return f"{request.recipe} names code that this run imports: {', '.join(named_code)}"


def _new_request(arguments: Sequence[str]) -> Request:
    recipe, overrides = recipe_and_overrides(arguments)
    resume = overrides.pop("resume", None)
    if resume is not None:
        return _resumed_request(Path(resume), recipe, overrides)
    if (value := overrides.get("resume_from_checkpoint")) is not None:
        raise ValueError(
            f"want --resume RUN for a run that goes on, from its last checkpoint, got "
            f"--resume_from_checkpoint {value}; give arena train --resume RUN"
        )
    recipe_settings: Mapping[str, Any] = {}
    if recipe is None and is_offline(overrides):
        recipe, settings = "", dict(overrides)
    elif recipe is None:
        recipe = implied_recipe(overrides)
        recipe_settings = load_recipe(recipe)
        settings = _implied_settings(recipe, recipe_settings, overrides)
    else:
        recipe_settings = load_recipe(recipe)
        settings = overridden(recipe_settings, overrides)
    has_batch_size = "per_device_train_batch_size" in overrides
    if has_batch_size and "episodes_per_step" not in overrides:
        settings.pop("episodes_per_step", None)  # the recipe's, which would replace it
    notes = _drop_options_of_another(settings, overrides, recipe_settings)
    if not is_offline(settings) and not is_loop(settings):
        settings, yield_notes = drop_yielding_options(settings, overrides)
        notes += yield_notes
    if not is_offline(settings):
        settings.pop("trainer", None)
        if "data" in settings:
            raise ValueError(
                f"want a trainer that learns from rows with --data {settings['data']}, "
                "got self-play; give --trainer NAME, such as --trainer sft"
            )
    folder = settings.pop("output_dir", None)
    if folder is None and int(os.environ.get("WORLD_SIZE", "1")) > 1:
        raise ValueError(
            "want --output-dir when several processes train together, got none; give "
            "--output-dir runs/NAME"
        )
    path = Path(time.strftime("runs/%Y%m%d-%H%M%S") if folder is None else folder)
    return Request(settings, path, recipe, note="\n".join(notes))


def _implied_settings(
    recipe: str, recipe_settings: Mapping[str, Any], overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings of a command line that names no recipe."""
    model_options = saved_options(overrides.get("model", ""))
    settings = {**recipe_settings, **model_options, **overrides}
    is_adapter = recipe == MODEL_RECIPE and overrides.get("lora_r")
    if is_adapter and "learning_rate" not in overrides:
        settings["learning_rate"] = ADAPTER_LEARNING_RATE
    return settings


def _drop_options_of_another(
    settings: dict[str, Any],
    overrides: Mapping[str, Any],
    recipe_settings: Mapping[str, Any],
) -> list[str]:
    """Leaves out the recipe's options of another estimator or critic; notes say which."""
    notes = []
    for option, registry in (("credit", None), ("critic", critics)):
        if option not in overrides or f"{option}_args" in overrides:
            continue
        recipe_value = str(recipe_settings.get(option, getattr(SelfPlay, option)))
        name, named_options = with_options(str(settings[option]), {}, registry)
        args = settings.pop(f"{option}_args", {})
        kept_args = {
            key: value for key, value in args.items() if key not in named_options
        }
        if name == with_options(recipe_value, {}, registry)[0]:
            settings[f"{option}_args"] = kept_args
        elif kept_args and settings[option] is not None:
            text = f"note: --{option} {name} leaves out the recipe's {', '.join(kept_args)} of {recipe_value}"
            known_options = _options_of(option, name)
            shared_args = {
                key: value for key, value in kept_args.items() if key in known_options
            }
            if shared_args:
                shared_text = yaml.safe_dump(
                    shared_args, default_flow_style=True, width=999
                )
                text += (
                    f"; keep what it has, too: --{option}_args '{shared_text.strip()}'"
                )
            notes.append(text)
    return notes


def _options_of(option: str, name: str) -> Collection[str]:
    """The names of the options of an estimator or a critic; none if there is no such one."""
    with suppress(ValueError, ImportError):
        if option == "credit":
            return default_options(name)
        return critic_facts(name).defaults
    return ()


def is_offline(settings: Mapping[str, Any]) -> bool:
    """Whether the trainer of a run learns from rows instead of self-play."""
    return bool(settings.get("trainer", SELF_PLAY) != SELF_PLAY)


def recipe_and_overrides(arguments: Sequence[str]) -> tuple[str | None, dict[str, Any]]:
    """The recipe of a command line (None if it names none), and its options."""
    if arguments and not arguments[0].startswith("-"):
        return arguments[0], read_overrides(arguments[1:])
    return None, read_overrides(arguments)


def implied_recipe(overrides: dict[str, Any]) -> str:
    """The recipe of a command line that names none."""
    return DEFAULT_RECIPE if overrides.get("model", "tiny") == "tiny" else MODEL_RECIPE


def _resumed_request(
    folder: Path, recipe: str | None, overrides: dict[str, Any]
) -> Request:
    config = folder / CONFIG
    settings = read_config(folder) if config.is_file() else {}
    length_option, model = "max_steps", folder / "model"
    if is_loop(settings):
        length_option, model = ROUNDS, folder / "round-NN" / "model"
    refused_words = [f"--{name}" for name in overrides if name != length_option]
    if recipe is not None:
        refused_words.insert(0, f"the recipe {recipe!r}")
    if refused_words:
        start = f"its weights give --model {model}"
        if settings.get("roles"):  # its model/ holds a folder for each
            has_start = (folder / START).is_dir()
            base = (
                start_arguments(folder) if has_start else f"--model {settings['model']}"
            )
            start = f"its base model, with new learners, give {base}"
        raise ValueError(
            f"want --resume RUN alone or with --{length_option} N, since the run keeps its "
            f"options, got {', '.join(refused_words)} too; for a new run from {start}"
        )
    if is_loop(settings):
        if ROUNDS in overrides:
            settings = with_rounds(settings, overrides[ROUNDS])
        return Request(settings, folder, str(config), resume=True)
    max_steps = overrides.get("max_steps")
    if max_steps is not None and type(max_steps) is not int:
        raise ValueError(f"want an integer as max_steps, got {max_steps!r}")
    settings = read_run(folder, max_steps)
    settings.pop("output_dir", None)
    return Request(
        settings, folder, str(config), resume=True, extended=max_steps is not None
    )
