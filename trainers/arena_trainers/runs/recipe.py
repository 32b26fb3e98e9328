"""Recipes, and the command lines that override their options."""

import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from itertools import takewhile
from pathlib import Path
from typing import Any

from arena_envs.checks import did_you_mean
from arena_envs.registration import games
from arena_trainers.options import read_pairs, read_yaml
from arena_trainers.runs.mappings import flattened, mapped_options, refuse_flat

DEFAULT_RECIPE = "kuhn-tiny"
MODEL_RECIPE = "pretrained"  # where a model is given and no recipe
ROUNDS = "rounds"
# The recipes to begin with; each is believed to start on the machine that it names.
FRONT = ("kuhn-tiny", "smollm2", "qwen3-0.6b", "qwen3-1.7b", "qwen3-4b", "marshal")


def recipes() -> list[str]:
    """Names of the embedded recipes."""
    folder = files("arena_trainers") / "recipes"
    names = [file.name for file in folder.iterdir()]
    return sorted(
        name.removesuffix(".yaml") for name in names if name.endswith(".yaml")
    )


def summary_of(name: str) -> str:
    """What an embedded recipe is: the first sentence of its comment."""
    text = (files("arena_trainers") / "recipes" / f"{name}.yaml").read_text("utf-8")
    lines = takewhile(lambda line: line.startswith("# "), text.splitlines())
    comment = " ".join(line[2:] for line in lines)
    return re.split(r"(?<!et al)\.(?: |$)", comment)[0]


def load_recipe(path: str) -> dict[str, Any]:
    """The settings of a recipe: a file, or the name of an embedded one; see `mappings`.

    Raises:
        ValueError: the file is missing or no mapping, or an option stands outside its mapping.
    """
    if path in recipes():
        embedded = files("arena_trainers") / "recipes" / f"{path}.yaml"
        source = embedded.read_bytes()
    elif Path(path).is_file():
        source = Path(path).read_bytes()
    else:
        hint = did_you_mean(path, recipes())
        if games.knows(path):
            hint = f"a game is an option: arena train --games {path}"
        elif Path(path).is_dir():
            hint = f"a model is an option: arena train --model {path}"
        raise ValueError(
            f"want a recipe file, found none at {path!r}; give a file or a recipe; {hint}"
        )
    try:
        settings = read_yaml(source.decode(), f"recipe {path!r}")
    except UnicodeDecodeError:
        raise ValueError(
            f"want YAML in recipe {path!r}, got bytes that are not UTF-8; save the "
            "file as UTF-8"
        ) from None
    if not isinstance(settings, dict) or not all(isinstance(k, str) for k in settings):
        raise ValueError(
            f"want a mapping of options in recipe {path!r}, got "
            f"{type(settings).__name__}; write lines such as seed: 1"
        )
    try:
        return flattened({n.replace("-", "_"): value for n, value in settings.items()})
    except ValueError as error:
        raise ValueError(f"recipe {path!r}: {error}") from None


_PATHS = ("model", "output_dir", "resume")


def read_overrides(arguments: Sequence[str]) -> dict[str, Any]:
    """The options of a command line: `--key value` or `--key=value`, values as YAML.

    Those of a mapping are `--lora r=16`, or `--lora.r 16`.

    Raises:
        ValueError: an argument is no option, or an option lacks its value.

    >>> read_overrides(["--learning-rate", "1e-4", "--games=[kuhn_poker]"])
    {'learning_rate': '1e-4', 'games': ['kuhn_poker']}
    """
    settings: dict[str, Any] = {}
    remaining = iter(arguments)
    for argument in remaining:
        if not argument.startswith("--"):
            raise ValueError(_no_option(argument))
        key, equals_sign, value = argument[2:].partition("=")
        if not equals_sign:
            following = next(remaining, None)
            if following is None or following.startswith("--"):
                raise ValueError(
                    f"option --{key} lacks a value; give it as --{key} VALUE"
                )
            value = following
        name, dot, inner_name = key.replace("-", "_").partition(".")
        if name in mapped_options():
            options = mapped_options()[name]
            pair = f"{inner_name}={value}" if dot else value
            for inner, inner_value in read_pairs(name, [pair], options).items():
                settings[options[inner].name] = inner_value
            continue
        name += dot + inner_name
        refuse_flat(name)
        settings[name] = value if name in _PATHS else read_yaml(value, f"--{key}")
    return settings


def _no_option(argument: str) -> str:
    text = f"want an option such as --seed 1, got {argument!r}"
    if argument in recipes() or argument.endswith((".yaml", ".yml")):
        return f"{text}; a recipe comes first: arena train {argument} --seed 1"
    if argument.startswith("-"):
        return f"{text}; options have two hyphens"
    if games.knows(argument):
        return f"{text}; separate games by commas: --games kuhn_poker,{argument}"
    return f'{text}; quote a value that has spaces: --games "[a, b]"'


def overridden(
    settings: Mapping[str, Any], overrides: Mapping[str, Any]
) -> dict[str, Any]:
    """The settings of a recipe with the options of a command line.

    In a recipe with `rounds`, a name such as `rounds.play.episodes` is a path. Where a stage is
    a list, all its elements change, or the one whose number the path has. `rounds` with a number
    is `rounds.num`.

    Args:
        settings: those of the recipe.
        overrides: options by name.

    Raises:
        ValueError: a path leads into a value without options, or beyond a list.

    >>> recipe = {"rounds": {"num": 4, "train": [{"beta": 0.1}, {"beta": 0.5}]}}
    >>> overridden(recipe, {"seed": 1, "rounds": 2, "rounds.train.1.beta": 0.9})
    {'rounds': {'num': 2, 'train': [{'beta': 0.1}, {'beta': 0.9}]}, 'seed': 1}
    """
    merged = dict(settings)
    for name, value in overrides.items():
        path = name.split(".")
        if name == ROUNDS and ROUNDS in merged and type(value) is int:
            path = [ROUNDS, "num"]
        if ROUNDS in merged and path[0] == ROUNDS:
            merged[ROUNDS] = _changed(merged[ROUNDS], path, 1, value)
        else:
            merged[name] = value
    return merged


def _changed(old: object, path: Sequence[str], depth: int, value: object) -> object:
    """`old`, which stands at the first `depth` names of a path, with a new value at its end."""
    if depth == len(path):
        return value
    name, where = path[depth], ".".join(path[:depth])
    if isinstance(old, list):
        if not name.isdecimal():
            return [_changed(item, path, depth, value) for item in old]
        if int(name) >= len(old):
            raise ValueError(
                f"{where} is a list of {len(old)}, counted from 0; it has no {name}, "
                f"got --{'.'.join(path)}"
            )
        new = _changed(old[int(name)], path, depth + 1, value)
        return [new if k == int(name) else item for k, item in enumerate(old)]
    if old is not None and not isinstance(old, Mapping):
        raise ValueError(
            f"{where} is {old!r:.60} and has no options, got --{'.'.join(path)}; give "
            f"--{where} VALUE"
        )
    inner = dict(old or {})
    return inner | {name: _changed(inner.get(name), path, depth + 1, value)}
