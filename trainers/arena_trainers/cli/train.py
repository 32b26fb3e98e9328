"""Command lines and help pages of `arena train`."""

import json
import os
import re
import textwrap
import time
import tomllib
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import typer
import yaml

from arena_credit.by_name import default_options, with_options
from arena_envs.doors import signature_of
from arena_envs.trust import no_code
from arena_trainers.lm.prompt_file import saved_options
from arena_trainers.offline.protocol import SELF_PLAY, check_name, row_trainer
from arena_trainers.options import GROUPS, OF_TRL, Option, options_of
from arena_trainers.runs import code
from arena_trainers.runs.defaults import without_what_yields
from arena_trainers.runs.folder import (
    CONFIG,
    START,
    read_config,
    read_run,
    with_start,
)
from arena_trainers.runs.settings import (
    DEFAULT_RECIPE,
    MODEL_RECIPE,
    OF_THE_START,
    ROUNDS,
    JobConfig,
    is_loop,
    load_recipe,
    overridden,
    read_overrides,
    recipes,
    row_options,
    trainer_options,
    with_rounds,
)
from arena_trainers.train.critics.registry import CRITIC_FACTS, critics
from arena_trainers.train.settings import SelfPlay, listed_options

ADAPTER_LEARNING_RATE = 3e-5  # full tuning of a pretrained model takes less
HELP = ("-h", "--help", "--help-all")
DRY_RUN, ALLOW_CODE = FLAGS = "--dry-run", "--allow-code"
WIDTH = 80
_COLUMN = 30  # column in which the help of an option begins
_OF_TRL = {name: text for names in OF_TRL.values() for name, text in names.items()}

_TEXTS = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))
RUN = tuple(
    Option(one["name"], (), (), one.get("default"), one["help"], "arena", "Run")
    for one in _TEXTS["run"]
)


@dataclass(frozen=True)
class Request:
    """A run that starts or resumes.

    Args:
        settings: options by name.
        folder: the run folder.
        recipe: name or file of the recipe.
        resume: whether to resume the run in the folder.
        extended: whether the resumed run has a new `max_steps`.
        given: options of the command line.
        dry: whether to print the plan of the run instead of training.
        allow_code: whether a dry run, and files of rows, may name code.
        note: what a user should know of the settings, if anything.
    """

    settings: dict[str, Any]
    folder: Path
    recipe: str
    resume: bool = False
    extended: bool = False
    given: Mapping[str, Any] = field(default_factory=dict)
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
    _, given = split(options)
    code.allow(given)
    with no_code(active=dry and not allow_code):
        request = _request(options)
    return replace(request, given=given, dry=dry, allow_code=allow_code)


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
    typed = code.code_named(request.given)
    named = [path for path in code.code_named(request.settings) if path not in typed]
    if not named or request.recipe in recipes():
        return ""
    return f"{request.recipe} names code that this run imports: {', '.join(named)}"


def _request(arguments: Sequence[str]) -> Request:
    recipe, given = split(arguments)
    resume = given.pop("resume", None)
    if resume is not None:
        return _resumed(Path(resume), recipe, given)
    own: Mapping[str, Any] = {}
    if recipe is None and is_offline(given):
        recipe, settings = "", dict(given)
    elif recipe is None:
        recipe = implied_recipe(given)
        own = load_recipe(recipe)
        settings = own | saved_options(given.get("model", "")) | given
        is_adapter = recipe == MODEL_RECIPE and given.get("lora_r")
        if is_adapter and "learning_rate" not in given:
            settings["learning_rate"] = ADAPTER_LEARNING_RATE
    else:
        own = load_recipe(recipe)
        settings = overridden(own, given)
    if "per_device_train_batch_size" in given and "episodes_per_step" not in given:
        settings.pop("episodes_per_step", None)  # the recipe's, which would replace it
    notes = _follow(settings, given, own)
    if not is_offline(settings) and not is_loop(settings):
        settings, yielded = without_what_yields(settings, given)
        notes += yielded
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


def _follow(
    settings: dict[str, Any], given: Mapping[str, Any], own: Mapping[str, Any]
) -> list[str]:
    """Leaves out the recipe's options of another estimator or critic; notes say which."""
    notes = []
    for option, door in (("credit", None), ("critic", critics)):
        if option not in given or f"{option}_args" in given:
            continue
        before = str(own.get(option, getattr(SelfPlay, option)))
        name, new = with_options(str(settings[option]), {}, door)
        args = settings.pop(f"{option}_args", {})
        kept = {key: value for key, value in args.items() if key not in new}
        if name == with_options(before, {}, door)[0]:
            settings[f"{option}_args"] = kept
        elif kept and settings[option] is not None:
            text = f"note: --{option} {name} leaves out the recipe's {', '.join(kept)} of {before}"
            known = _options_of(option, name)
            if shared := {key: value for key, value in kept.items() if key in known}:
                shown = yaml.safe_dump(shared, default_flow_style=True, width=999)
                text += f"; keep what it has, too: --{option}_args '{shown.strip()}'"
            notes.append(text)
    return notes


def _options_of(option: str, name: str) -> Collection[str]:
    """The names of the options of an estimator or a critic; none if there is no such one."""
    with suppress(ValueError, ImportError):
        if option == "credit":
            return default_options(name)
        if name in CRITIC_FACTS:
            return CRITIC_FACTS[name].options
        return {*signature_of(critics.find(name)).parameters} - {*critics.given}
    return ()


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
        start = f"its weights give --model {model}"
        if settings.get("roles"):  # its model/ holds a folder for each
            has_start = (folder / START).is_dir()
            base = with_start(folder) if has_start else f"--model {settings['model']}"
            start = f"its base model, with new learners, give {base}"
        raise ValueError(
            f"want --resume RUN alone or with --{longer} N, since the run keeps its "
            f"options, got {', '.join(others)} too; for a new run from {start}"
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


def print_train_help(arguments: Sequence[str]) -> None:
    """Prints the help page for a command line with `--help` or `--help-all`.

    Raises:
        ValueError: the command line names an unknown recipe.
    """
    is_all = "--help-all" in arguments
    before = [word for word in arguments if word not in HELP]
    options, _ = without_flags(before)
    recipe, given = split(options)
    code.allow(given)
    settings = {} if recipe is None else load_recipe(recipe)
    if recipe is not None and is_loop(settings):
        typer.echo(loop_help(recipe))
        return
    if is_offline(settings | given):
        with no_code():
            text = rows_help(str((settings | given)["trainer"]), all_options=is_all)
        typer.echo(text)
        return
    name = implied_recipe(given) if recipe is None else recipe
    typer.echo(train_help(name, all_options=is_all))


def loop_help(recipe: str) -> str:
    """The help page of a recipe with rounds, with its defaults."""
    known = {**options_of(JobConfig), **listed_options()}
    options = [*RUN[:2], *(known[name] for name in OF_THE_START)]
    settings = load_recipe(recipe)
    rounds = json.loads(
        json.dumps(settings[ROUNDS])
    )  # without shared objects: no aliases
    shown = textwrap.indent(yaml.safe_dump(rounds, sort_keys=False), "  ")
    usage = _TEXTS["rounds"].format(recipe=recipe, rounds=shown)
    return "\n".join([usage, *_group(options, settings)])


def train_help(recipe: str, *, all_options: bool = False) -> str:
    """The help page, with the defaults of a recipe.

    Args:
        recipe: a file, or the name of an embedded recipe.
        all_options: whether to include the options of TRL and transformers.
    """
    settings = load_recipe(recipe)
    known = {o.name: o for o in RUN} | {
        name: option
        for name, option in {**options_of(JobConfig), **listed_options()}.items()
        if name not in ("output_dir", "resume_from_checkpoint")
    }
    usage = _TEXTS["usage"].format(
        recipes=textwrap.fill(", ".join(recipes()), WIDTH, break_on_hyphens=False),
        default=DEFAULT_RECIPE,
        model=MODEL_RECIPE,
        recipe=recipe,
    )
    lines = [usage.rstrip()]
    for title in GROUPS:
        group = [known[n] for n in OF_TRL.get(title, ()) if n in known]
        own = [o for o in known.values() if o.group == title]
        group = own + group if title == "Run" else group + own
        lines += ["", f"{title}:", *_group(group, settings)]
    if all_options:
        told = {name for title in GROUPS for name in OF_TRL.get(title, ())}
        others = [o for n, o in known.items() if not o.group and n not in told]
        title = "Inherited from trl.GRPOConfig and transformers.TrainingArguments:"
        lines += ["", title, *_group(others, settings)]
    else:
        lines += [
            "",
            "arena train --help-all adds the options of TRL and transformers.",
        ]
    return "\n".join(lines)


def rows_help(trainer: str, *, all_options: bool = False) -> str:
    """The help page of a trainer that learns from rows.

    Args:
        trainer: its name.
        all_options: whether to include the options of its own; this imports TRL.

    Raises:
        ValueError: there is no such trainer.
    """
    check_name(trainer)
    options = {o.name: o for o in RUN if o.name != "dry-run"} | row_options()
    defaults = {"trainer": trainer, "data": None}  # nobody's default
    lines = [_TEXTS["rows"].format(trainer=trainer), "", "Shared options:"]
    lines += _group(options.values(), defaults)
    if not all_options:
        more = f"arena train --trainer {trainer} --help-all adds the trainer's own options."
        return "\n".join([*lines, "", more])
    kind = row_trainer(trainer)
    own = trainer_options(kind.config).values()
    return "\n".join([*lines, "", f"Of {kind.config.__name__}:", *_group(own, {})])


def _group(options: Iterable[Option], settings: Mapping[str, Any]) -> list[str]:
    return [line for option in options for line in _lines(option, settings)]


def _lines(option: Option, settings: Mapping[str, Any]) -> list[str]:
    default = settings.get(option.name, option.default)
    text = _OF_TRL.get(option.name) or re.sub(r"(?s)\. .*", ".", option.help)
    if default is not None and default != {}:
        text = f"{text} [{_written(default)}]"
    words = textwrap.wrap(text, WIDTH - _COLUMN, break_on_hyphens=False) or [""]
    head = f"  --{option.name}"
    if len(head) + 2 > _COLUMN:
        return [head, *(" " * _COLUMN + line for line in words)]
    first, *rest = words
    return [f"{head:<{_COLUMN}}{first}", *(" " * _COLUMN + line for line in rest)]


def _written(value: Any) -> str:
    """A value in the form of the command line."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, str):
        return value
    return json.dumps(value)
