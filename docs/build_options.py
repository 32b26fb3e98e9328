"""Writes `docs/options.md`: every option of `arena train` that is ours, by its declaration.

Run `python docs/build_options.py --write` after a change of an option. Without `--write` it
compares, and fails if the page is out of date.
"""

import json
import sys
from collections.abc import Iterable
from dataclasses import MISSING
from pathlib import Path

from arena_trainers.options import GROUPS, Option, options_of
from arena_trainers.runs.round_settings import EvaluateStage, Loop, PlayStage
from arena_trainers.runs.row_settings import RowConfig
from arena_trainers.runs.settings import JobConfig
from arena_trainers.train.settings import SelfPlay

PAGE = Path(__file__).with_name("options.md")
HEAD = """# Options of `arena train`

Made by `docs/build_options.py` from the declarations in `arena_trainers/runs/*settings.py` and
`arena_trainers/train/settings.py`. [Training](training.md) shows how to use them. Each option is a key of a
recipe in YAML, and `--name VALUE` on the command line, with `-` and `_` alike. `lora: r` is a key of a mapping:
`lora: {r: 16}` in a recipe, `--lora r=16` on the command line, and `lora_r` as an argument of Python. Self-play also has every option
of TRL's `GRPOConfig`, which `arena train --help-all` lists.
"""
ROWS = "Rows (`--trainer NAME`), besides those of the model, of evaluation and the trainer's own"
STAGES = {"rounds": Loop, "rounds.play": PlayStage, "rounds.evaluate": EvaluateStage}


def table(title: str, options: Iterable[Option]) -> list[str]:
    """The section of a group."""
    rows = [f"| `{name(o)}` | {kind(o)} | {default(o)} | {text(o)} |" for o in options]
    head = ["| Option | Values | Default | |", "|---|---|---|---|"]
    return ["", f"## {title}", "", *head, *rows]


def name(option: Option) -> str:
    """The name of an option in recipes."""
    return f"{option.mapping}: {option.key}" if option.mapping else option.name


def kind(option: Option) -> str:
    """The types or choices of an option, with its least value."""
    values = option.choices or [t for t in option.types if t != "None"]
    bound = "" if option.least is None else f" ≥ {option.least}"
    return " or ".join(f"`{value}`" for value in values) + bound


def default(option: Option) -> str:
    """The default of an option."""
    if option.default is MISSING:
        return "required"
    empty = option.default is None or option.default == {} or not option.types
    if empty and not isinstance(option.default, str):
        return ""
    return f"`{json.dumps(option.default)}`"


def text(option: Option) -> str:
    """The text of an option, as a cell."""
    return option.help.replace("|", "\\|")


def page() -> str:
    """The whole page."""
    options = [*options_of(JobConfig).values(), *options_of(SelfPlay).values()]
    lines = [HEAD.rstrip()]
    for group in GROUPS:
        group_options = [option for option in options if option.group == group]
        if group_options:
            # those of a mapping beside each other
            group_options.sort(key=lambda option: option.mapping)
            lines += table(group, group_options)
    lines += table(ROWS, options_of(RowConfig).values())
    for stage_name, stage in STAGES.items():
        lines += table(f"`{stage_name}`", options_of(stage).values())
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    if "--write" in sys.argv:
        PAGE.write_text(page(), encoding="utf-8")
    elif PAGE.read_text(encoding="utf-8") != page():
        sys.exit(f"{PAGE} is out of date: python docs/build_options.py --write")
