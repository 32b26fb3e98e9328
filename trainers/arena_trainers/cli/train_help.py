"""Help pages of `arena train`."""

import json
import re
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import typer
import yaml

from arena_envs.trust import no_code
from arena_trainers.cli.train_request import (
    implied_recipe,
    is_offline,
    recipe_and_overrides,
    without_flags,
)
from arena_trainers.inherited import HELP_OF_TRL
from arena_trainers.offline.protocol import check_name, row_trainer
from arena_trainers.options import GROUPS, MAPPINGS, Option, options_of
from arena_trainers.runs import code
from arena_trainers.runs.mappings import mapped_options, nested
from arena_trainers.runs.recipe import (
    DEFAULT_RECIPE,
    FRONT,
    MODEL_RECIPE,
    ROUNDS,
    load_recipe,
    recipes,
    summary_of,
)
from arena_trainers.runs.round_settings import START_OPTIONS, is_loop
from arena_trainers.runs.row_settings import row_options, trainer_options
from arena_trainers.runs.settings import JobConfig
from arena_trainers.train.listed_options import listed_options

HELP = ("-h", "--help", "--help-all")
RECIPES = "--recipes"  # alone, lists them
WIDTH = 80
_COLUMN = 30  # column in which the help of an option begins
_OF_TRL = {name: text for names in HELP_OF_TRL.values() for name, text in names.items()}

USAGE = """\
Usage: arena train [RECIPE] [--key value]...

Trains a language model by self-play. Without arguments it makes a tiny model,
which learns Kuhn poker on a CPU in minutes.

RECIPE is a YAML file of options, or one of
{recipes}.
arena train --recipes lists all, those of papers too.
The default is {default!r}; with --model it is {model!r}.
Options override the recipe. Values are YAML; lists may be written a,b. Options
with KEY=VALUE are mappings in a recipe, as lora: {{r: 16}}, and repeatable here.

  arena train --seed 1 --output-dir runs/seed1
  arena train --model Qwen/Qwen3-0.6B --games kuhn_poker,tic_tac_toe
  arena train --model Qwen/Qwen3-0.6B --lora r=16 --prompt rules=false
  arena train my_recipe.yaml --credit episode --max_steps 200
  arena train --trainer sft --data rows.parquet    learns from rows of data
  arena train --resume runs/seed1                  after Ctrl-C or SIGTERM
  arena train --resume runs/seed1 --max_steps 800  trains longer

Brackets show the defaults of the recipe {recipe!r}.
"""

ROWS_USAGE = """\
Usage: arena train --trainer {trainer} --data FILE.parquet [--key value]...

Trains a language model on rows that arena data select chose. --model is a folder, an
id of the Hugging Face hub, or 'tiny', which is made on the spot."""

ROUNDS_USAGE = """\
Usage: arena train {recipe} [--key value]...

Repeats the stages of `rounds` in the recipe: play, select, train, evaluate. The
page docs/loops.md names their options. A loop goes on after a stop, or to N
rounds in all, by arena train --resume RUN [--rounds N].

  arena train {recipe} --rounds 2 --rounds.play.episodes 20   changes the stages

The recipe has these stages:

{rounds}
Other options are:
"""


# the options and mappings of the first page, by group; --help-all has all
FIRST_PAGE = {
    "Run": ("output_dir", "resume", "dry-run", "allow-code", "seed", "max_steps"),
    "Model": ("model", "tiny", "lora", "warm_start", "machine"),
    "Games and prompts": (
        "games",
        "opponents",
        "curriculum",
        "prompt",
        "penalty",
        "rewards",
    ),
    "Sampling": ("temperature", "max_completion_length", "use_vllm", "asynchronous"),
    "Episodes and batch": ("num_generations", "episodes_per_step", "select", "branch"),
    "Credit": ("credit", "credit_args", "critic", "critic_args", "columns"),
    "Optimization": ("learning_rate", "beta", "losses", "agent", "roles", "bf16"),
    "Evaluation": ("evaluate_every", "callbacks"),
    "Output": ("report_to",),
}


def _run_option(name: str, default: str | None, help: str) -> Option:
    """An option of every run."""
    return Option(name, (), (), default, help, "arena", "Run")


RUN = (
    _run_option(
        "output_dir",
        default="runs/<time>",
        help="Run folder: new or empty.",
    ),
    _run_option(
        "resume",
        default=None,
        help="Run folder to resume from its last checkpoint; only --max_steps may be given besides, or --rounds where the recipe has rounds.",
    ),
    _run_option(
        "dry-run",
        default=None,
        help="Prints the plan of the run, with status 2 if this machine refuses it; imports no code that the recipe names; takes no value.",
    ),
    _run_option(
        "allow-code",
        default=None,
        help="With --dry-run: imports the code that the recipe names; with --data: rows may name games by code; takes no value.",
    ),
)


def recipe_list() -> str:
    """All recipes, each with what it is."""
    of_papers = [name for name in recipes() if "http" in summary_of(name)]
    others = [name for name in recipes() if name not in (*FRONT, *of_papers)]
    front_papers = [name for name in of_papers if name not in FRONT]
    groups = {
        "To begin with": FRONT,
        "Others": others,
        "Of papers, checked with a tiny model": front_papers,
    }
    lines = list[str]()
    for title, names in groups.items():
        lines += ["", f"{title}:"]
        for name in names:
            head, text = f"  {name.ljust(22)}", summary_of(name)
            lines += textwrap.wrap(
                head + text,
                WIDTH,
                subsequent_indent=" " * 24,
                break_long_words=False,
                break_on_hyphens=False,
            )
    return "\n".join(lines[1:])


def print_train_help(arguments: Sequence[str]) -> None:
    """Prints the help page for a command line with `--help` or `--help-all`.

    Raises:
        ValueError: the command line names an unknown recipe.
    """
    is_all = "--help-all" in arguments
    other_words = [word for word in arguments if word not in HELP]
    options, _ = without_flags(other_words)
    recipe, overrides = recipe_and_overrides(options)
    code.allow(overrides)
    settings = {} if recipe is None else load_recipe(recipe)
    if recipe is not None and is_loop(settings):
        typer.echo(loop_help(recipe))
        return
    if is_offline(settings | overrides):
        with no_code():
            text = rows_help(str((settings | overrides)["trainer"]), all_options=is_all)
        typer.echo(text)
        return
    name = implied_recipe(overrides) if recipe is None else recipe
    typer.echo(train_help(name, all_options=is_all))


def loop_help(recipe: str) -> str:
    """The help page of a recipe with rounds, with its defaults."""
    options_by_name = {**options_of(JobConfig), **listed_options()}
    options = [*RUN[:2], *(options_by_name[name] for name in START_OPTIONS)]
    settings = load_recipe(recipe)
    # without shared objects, which YAML would write as aliases
    rounds = json.loads(json.dumps(settings[ROUNDS]))
    stages_text = textwrap.indent(yaml.safe_dump(rounds, sort_keys=False), "  ")
    usage = ROUNDS_USAGE.format(recipe=recipe, rounds=stages_text)
    return "\n".join([usage, *_group(options, settings)])


def train_help(recipe: str, *, all_options: bool = False) -> str:
    """The help page, with the defaults of a recipe.

    Args:
        recipe: a file, or the name of an embedded recipe.
        all_options: whether to list all options, those of TRL and transformers too.
    """
    settings = load_recipe(recipe)
    options_by_name = {
        **options_of(JobConfig),
        **listed_options(),
    }
    del options_by_name["output_dir"], options_by_name["resume_from_checkpoint"]
    options_by_name = {option.name: option for option in RUN} | options_by_name
    usage = USAGE.format(
        recipes=textwrap.fill(", ".join(FRONT), WIDTH, break_on_hyphens=False),
        default=DEFAULT_RECIPE,
        model=MODEL_RECIPE,
        recipe=recipe,
    )
    option_lines = _all_options if all_options else _first_page
    return "\n".join([usage.rstrip(), *option_lines(options_by_name, settings)])


def _first_page(
    options_by_name: Mapping[str, Option], settings: Mapping[str, Any]
) -> list[str]:
    """The lines of the options and mappings of `FIRST_PAGE`."""
    lines: list[str] = []
    for title, names in FIRST_PAGE.items():
        lines += ["", f"{title}:"]
        for name in names:
            if name in MAPPINGS:
                lines += _mapping_lines(name, settings)
            else:
                lines += _lines(options_by_name[name], settings)
    more = (
        "arena train --help-all lists all options, those of TRL and transformers too."
    )
    return [*lines, "", more]


def _all_options(
    options_by_name: Mapping[str, Option], settings: Mapping[str, Any]
) -> list[str]:
    """The lines of all options by group, then of those that are in no group."""
    lines: list[str] = []
    for title in GROUPS:
        trl_options = [
            options_by_name[name]
            for name in HELP_OF_TRL.get(title, ())
            if name in options_by_name
        ]
        own_options = [o for o in options_by_name.values() if o.group == title]
        if title == "Run":
            group = own_options + trl_options
        else:
            group = trl_options + own_options
        lines += ["", f"{title}:", *_group(group, settings)]
    grouped_names = {name for title in GROUPS for name in HELP_OF_TRL.get(title, ())}
    ungrouped = [
        o for n, o in options_by_name.items() if not o.group and n not in grouped_names
    ]
    title = "Inherited from trl.GRPOConfig and transformers.TrainingArguments:"
    return [*lines, "", title, *_group(ungrouped, settings)]


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
    lines = [ROWS_USAGE.format(trainer=trainer), "", "Shared options:"]
    lines += _group(options.values(), defaults)
    if not all_options:
        more = f"arena train --trainer {trainer} --help-all adds the trainer's own options."
        return "\n".join([*lines, "", more])
    kind = row_trainer(trainer)
    trainer_fields = trainer_options(kind.config).values()
    return "\n".join(
        [*lines, "", f"Of {kind.config.__name__}:", *_group(trainer_fields, {})]
    )


def _group(options: Iterable[Option], settings: Mapping[str, Any]) -> list[str]:
    return [line for option in options for line in _lines(option, settings)]


def _lines(option: Option, settings: Mapping[str, Any]) -> list[str]:
    default = settings.get(option.name, option.default)
    text = _OF_TRL.get(option.name) or re.sub(r"(?s)\. .*", ".", option.help)
    if default is not None and default != {}:
        text = f"{text} [{_on_command_line(default)}]"
    return _two_columns(option.typed_name, text)


def _mapping_lines(name: str, settings: Mapping[str, Any]) -> list[str]:
    """The lines of a mapping: its keys, each with the recipe's value if it has one."""
    values = nested(settings).get(name, {})
    keys = [
        f"{key} [{_on_command_line(values[key])}]" if key in values else key
        for key in mapped_options()[name]
    ]
    return _two_columns(
        f"--{name} KEY=VALUE", f"{MAPPINGS[name]}. Keys: {', '.join(keys)}."
    )


def _two_columns(option: str, text: str) -> list[str]:
    words = textwrap.wrap(text, WIDTH - _COLUMN, break_on_hyphens=False) or [""]
    head = f"  {option}"
    if len(head) + 2 > _COLUMN:
        return [head, *(" " * _COLUMN + line for line in words)]
    first_word, *other_words = words
    return [
        f"{head:<{_COLUMN}}{first_word}",
        *(" " * _COLUMN + line for line in other_words),
    ]


def _on_command_line(value: object) -> str:
    """A value in the form of the command line."""
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return ",".join(value)
    if isinstance(value, str):
        return value
    return json.dumps(value)
