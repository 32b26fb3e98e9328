"""The help page of `arena train`: every option, its default and what it does."""

import dataclasses
from typing import Any

from rich.console import Console
from rich.table import Table
from trl import GRPOConfig

from arena_trainers.config import TurnGRPOConfig
from arena_trainers.job_config import DEFAULT_RECIPE, MODEL_RECIPE, JobConfig, recipes

USAGE = """\
Usage: arena train [RECIPE] [--key value]...

Trains a language model by self-play. Without arguments: a tiny model made on the spot
learns Kuhn poker on a CPU in minutes (recipe {recipe!r}). With --model and no
recipe, {model_recipe!r}. Options override the recipe; values are read as YAML.
A recipe is a file, or one of {recipes}.

Examples:
  arena train
  arena train --seed 1 --output-dir runs/seed1
  arena train --credit episode --max_steps 200
  arena train my_recipe.yaml --games "[tic_tac_toe, mini_hanabi]" --max_completion_length 9
  arena train --resume runs/seed1
"""


def show(console: Console) -> None:
    """Prints the page."""
    console.print(
        USAGE.format(
            recipe=DEFAULT_RECIPE,
            model_recipe=MODEL_RECIPE,
            recipes=", ".join(recipes()),
        ),
        markup=False,
        highlight=False,
    )
    folder = [
        ("seed", "42", "Seed of the model, the episodes and the order of the data."),
        ("output_dir", "runs/<time>", "Run folder: new or empty."),
        ("resume", "", "Run folder to go on with, from its last checkpoint; alone."),
    ]
    inherited = {option.name for option in dataclasses.fields(GRPOConfig)}
    fields = [o for o in dataclasses.fields(TurnGRPOConfig) if o.init]
    own = [o for o in fields if o.name not in inherited]
    others = [o for o in fields if o.name in inherited - {"seed", "output_dir"}]
    _table(console, "The run", folder)
    _table(console, "The job", [_row(o) for o in dataclasses.fields(JobConfig)])
    _table(console, "Games, prompts and credit", [_row(o) for o in own])
    _table(console, "Inherited from trl.GRPOConfig", [_row(o) for o in others])


def _row(option: "dataclasses.Field[Any]") -> tuple[str, str, str]:
    if option.default is not dataclasses.MISSING:
        default = repr(option.default)
    elif option.default_factory is not dataclasses.MISSING:
        default = repr(option.default_factory())
    else:
        default = ""
    text = " ".join(str(option.metadata.get("help", "")).split())
    return option.name, default, text


def _table(console: Console, title: str, rows: list[tuple[str, str, str]]) -> None:
    table = Table(title=title, title_justify="left", show_lines=False)
    for column in ("option", "default", "what it does"):
        table.add_column(column, overflow="fold")
    for name, default, text in rows:
        table.add_row(f"--{name}", default, text)
    console.print(table, markup=False)
