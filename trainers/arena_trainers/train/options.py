"""Every option of `arena train` with its types, default and help, without importing TRL.

Importing TRL takes seconds, so the fields of `TurnGRPOConfig` are listed in `options.json`,
together with the versions of TRL and transformers that they come from. Update the list with
`python -m arena_trainers.train.options`; a test compares it with the installed TRL.
"""

import dataclasses
import difflib
import enum
import json
import types
import typing
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from arena_envs.checks import did_you_mean
from arena_trainers.train.checks import split_list

LIST = Path(__file__).with_name("options.json")
SOURCES = ("trl", "transformers")  # packages of the inherited fields
_KINDS = (bool, int, float, str, list, dict, type(None))


@dataclass(frozen=True)
class Option:
    """One option.

    Args:
        name: as in recipes.
        types: names of the allowed types; empty if every type is allowed.
        choices: the allowed strings of an enumeration; empty for other options.
        default: the default value.
        help: what it does.
        source: `"arena"`, or `"trl"` if it is inherited.
    """

    name: str
    types: tuple[str, ...]
    choices: tuple[str, ...]
    default: Any
    help: str
    source: str

    def converted(self, value: Any) -> Any:
        """`value`, converted to a type of the option.

        Strings are converted to numbers (YAML reads 1e-3 as a string) and, at commas, to
        lists.

        Raises:
            ValueError: a value of another type, or that is not among the choices.
        """
        if self.choices and isinstance(value, str) and value not in self.choices:
            raise ValueError(
                f"unknown {self.name} {value!r}; {did_you_mean(value, self.choices)}"
            )
        if not self.types or type(value).__name__ in self.types:
            return value
        if value is None and "None" in self.types:
            return None
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        if "float" in self.types and (is_number or isinstance(value, str)):
            try:
                return float(value)
            except (ValueError, OverflowError):
                pass
        if "str" in self.types and is_number:
            return str(value)
        if "list" in self.types and isinstance(value, str):
            return split_list(value)
        names = " or ".join(name for name in self.types if name != "None")
        raise ValueError(f"want {names} as {self.name}, got {value!r}")


def unknown_option(name: str, known: typing.Iterable[str]) -> ValueError:
    """The error for an unknown option."""
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f"did you mean {near[0]!r}?" if near else "arena train --help-all lists all"
    if name == "recipe":
        hint = "name the recipe without it, as in: arena train kuhn-tiny"
    return ValueError(f"unknown option {name!r}; {hint}")


def options_of(cls: Any, inherited: typing.Container[str] = ()) -> dict[str, Option]:
    """The fields of a dataclass as options, by name.

    Args:
        cls: the dataclass.
        inherited: names of the fields that are TRL's.
    """
    hints = typing.get_type_hints(cls)
    found = {}
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        kinds, choices = _kinds_of(hints[field.name])
        default: Any = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        found[field.name] = Option(
            name=field.name,
            types=kinds,
            choices=choices,
            default=default.value if isinstance(default, enum.Enum) else default,
            help=" ".join(str(field.metadata.get("help", "")).split()),
            source="trl" if field.name in inherited else "arena",
        )
    return found


def _kinds_of(hint: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the types that a hint allows, and the choices of an enumeration."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    parts = typing.get_args(hint) if is_union else (hint,)
    kinds = [typing.get_origin(part) or part for part in parts]
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return (), tuple(str(member.value) for member in kind)
    if any(kind not in _KINDS for kind in kinds):
        return (), ()  # TRL checks it
    return tuple("None" if k is type(None) else k.__name__ for k in kinds), ()


def training_options() -> dict[str, Option]:
    """The fields of `TurnGRPOConfig`; imports TRL."""
    from trl import GRPOConfig

    from arena_trainers.train.config import TurnGRPOConfig

    inherited = {field.name for field in dataclasses.fields(GRPOConfig)}
    return options_of(TurnGRPOConfig, inherited)


@cache
def _list() -> Mapping[str, Any]:
    found: dict[str, Any] = json.loads(LIST.read_text(encoding="utf-8"))
    return found


def listed_options() -> dict[str, Option]:
    """The fields of `TurnGRPOConfig` from the list, without importing TRL."""
    options = [
        Option(**{**o, "types": tuple(o["types"]), "choices": tuple(o["choices"])})
        for o in _list()["options"]
    ]
    return {option.name: option for option in options}


def installed_versions() -> dict[str, str | None]:
    """The installed versions of TRL and transformers; None if one is missing."""
    found: dict[str, str | None] = {}
    for package in SOURCES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = None
    return found


def is_of_installed_versions() -> bool:
    """Whether the list was made with the installed versions."""
    return dict(_list()["made_with"]) == installed_versions()


def write_list() -> None:
    """Writes the list for the installed TRL."""
    lines = [json.dumps(vars(option)) for option in training_options().values()]
    head = json.dumps(installed_versions())
    LIST.write_text(
        f'{{"made_with": {head},\n"options": [\n' + ",\n".join(lines) + "\n]}\n",
        encoding="utf-8",
    )


if __name__ == "__main__":
    write_list()
