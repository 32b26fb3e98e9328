"""Converts between recipes, with `lora: {r: 16}`, and settings, with `lora_r: 16`."""

from collections.abc import Mapping
from functools import cache
from typing import Any

from arena_trainers.options import Option, options_of, read_mapping
from arena_trainers.runs.settings import JobConfig
from arena_trainers.train.settings import SelfPlay


@cache
def mapped_options() -> dict[str, dict[str, Option]]:
    """The options of each mapping, by their keys in it."""
    options_by_mapping: dict[str, dict[str, Option]] = {}
    for option in (options_of(JobConfig) | options_of(SelfPlay)).values():
        if option.mapping:
            options_by_mapping.setdefault(option.mapping, {})[option.key] = option
    return options_by_mapping


@cache
def _option_by_name() -> dict[str, Option]:
    return {
        option.name: option
        for options in mapped_options().values()
        for option in options.values()
    }


def typed_name(name: str) -> str:
    """The words of a command line that a value follows: `--beta` or `--lora r=`."""
    options = _option_by_name()
    return options[name].typed_name if name in options else f"--{name}"


def typed_words(name: str, value: object) -> list[str]:
    """The words of a command line that set an option.

    >>> typed_words("lora_r", 16), typed_words("beta", 0)
    (['--lora', 'r=16'], ['--beta', '0'])
    """
    option, _, key = typed_name(name).partition(" ")
    return [option, f"{key}{value}"]


def flattened(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a recipe, or of a command line, with the options of mappings among them.

    Raises:
        ValueError: the value of a mapping's key is no mapping or has an unknown key, or an option of a
            mapping stands outside of it.

    >>> flattened({"seed": 1, "lora": {"r": 16}})
    {'seed': 1, 'lora_r': 16}
    """
    settings: dict[str, Any] = {}
    for name, value in recipe.items():
        if name in mapped_options():
            options = mapped_options()[name]
            for key, inner in read_mapping(name, value, options).items():
                settings[options[key].name] = inner
        else:
            refuse_flat(name)
            settings[name] = value
    return settings


def refuse_flat(name: str) -> None:
    """Raises ValueError for an option outside its mapping, with the words to write."""
    if name in _option_by_name():
        option = _option_by_name()[name]
        raise ValueError(
            f"unknown option {name!r}; did you mean --{option.mapping} {option.key}=VALUE? In a "
            f"recipe: {option.mapping}: {{{option.key}: VALUE}}"
        )


def nested(settings: Mapping[str, Any]) -> dict[str, Any]:
    """A recipe with these settings: what `flattened` reads.

    >>> nested({"lora_r": 16, "seed": 1, "lora_alpha": 32})
    {'lora': {'r': 16, 'alpha': 32}, 'seed': 1}
    """
    recipe: dict[str, Any] = {}
    for name, value in settings.items():
        option = _option_by_name().get(name)
        if option is None:
            recipe[name] = value
        else:
            recipe.setdefault(option.mapping, {})[option.key] = value
    return recipe
