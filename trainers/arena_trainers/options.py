"""Options: one declaration is the keyword of Python, the key of YAML, `--name` and its help.

A field of a dataclass has type, default and least value of an option; `Literal` gives its choices.
A TOML file beside the module has the texts, by class and by the title of a group of the help page.
`docs/options.md` is made of both. `check_declared` checks the values.
"""

import copy
import dataclasses
import difflib
import enum
import inspect
import json
import math
import tomllib
import types
import typing
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

from arena_envs.checks import check_known, did_you_mean, is_number
from arena_envs.doors import split

_KINDS = (bool, int, float, str, list, dict, type(None))


GROUPS = (
    *("Run", "Model", "Games and prompts", "Sampling", "Episodes and batch"),
    *("Credit", "Optimization", "Evaluation", "Output"),
)  # of the help page, in its order
# Inherited options on the help page: TRL's help of them is longer than a line, or describes
# another trainer.
OF_TRL: dict[str, dict[str, str]] = json.loads(
    Path(__file__).with_name("help.json").read_text(encoding="utf-8")
)


@dataclass(frozen=True)
class Option:
    """One option.

    Args:
        name: as in recipes.
        types: names of the allowed types; empty if every type is allowed.
        choices: the allowed strings of an enumeration; empty for other options.
        default: the default value.
        help: what it does; the help page shows the first sentence.
        source: `"arena"`, or `"trl"` if it is inherited.
        group: of the help page; "" for none.
        least: the lowest number that is allowed; None for any.
    """

    name: str
    types: tuple[str, ...]
    choices: tuple[str, ...]
    default: Any
    help: str
    source: str
    group: str = ""
    least: float | None = None

    def converted(self, value: Any) -> Any:
        """`value`, converted to a type of the option.

        Strings are converted to numbers (YAML reads 1e-3 as a string) and, at commas, to
        lists.

        Raises:
            ValueError: a value of another type, or that is not among the choices.
        """
        none = (None,) if "None" in self.types else ()
        if self.choices and value not in (*self.choices, *none):
            hint = did_you_mean(str(value), self.choices)
            raise ValueError(f"unknown {self.name} {value!r}; {hint}")
        if not self.types or type(value).__name__ in self.types:
            return value
        if value is None and "None" in self.types:
            return None
        is_number = _is_int_or_float(value)
        if "float" in self.types and (is_number or isinstance(value, str)):
            try:
                return float(value)
            except (ValueError, OverflowError):
                pass
        if "str" in self.types and is_number:
            return str(value)
        if "list" in self.types and isinstance(value, str):
            return split(value)
        names = " or ".join(name for name in self.types if name != "None")
        raise ValueError(f"want {names} as {self.name}, got {value!r}")

    def check(self, value: Any) -> None:
        """Raises ValueError for a value of another type or out of range."""
        found = self.converted(value)
        is_number = _is_int_or_float(found)
        if is_number and self.least is not None and not self.least <= found < math.inf:
            raise ValueError(f"want {self.name} of at least {self.least}, got {value}")


OF_WEIGHT = ("weight", "over", "until")  # its options


@dataclass(frozen=True)
class Weight:
    """A weight by optimizer step: linear from `start` to `end` at step `over`, and 0 from `until` on."""

    start: float
    end: float
    over: int = 1
    until: float = math.inf

    @classmethod
    def of(cls, what: str, given: dict[str, Any]) -> "Weight":
        """Takes `weight` (a number, or [from, to] with `over`) and `until` out of the options of `what`."""
        value, over = given.pop("weight", 1.0), given.pop("over", None)
        until = given.pop("until", None)
        pair = value if isinstance(value, list | tuple) else (value, value)
        if len(pair) != 2 or not all(map(is_number, pair)):
            raise ValueError(
                f"want a number or [from, to] as weight of {what}, got {value!r}"
            )
        if (over is None) == (pair is value):
            raise ValueError(
                f"want over, a number of steps, with a weight [from, to] of {what} and only "
                f"there, got weight {value!r} and over {over!r}"
            )
        for name, steps in (("over", over), ("until", until)):
            if steps is not None and (type(steps) is not int or steps < 1):
                raise ValueError(f"want {name} of {what} of at least 1, got {steps!r}")
        return cls(float(pair[0]), float(pair[1]), over or 1, until or math.inf)

    def is_over(self, step: int) -> bool:
        """Whether it is 0 from this step on."""
        return step >= self.until or (
            self.end == 0 and (self.start == 0 or step >= self.over)
        )

    def at(self, step: int) -> float:
        """The weight at a step.

        >>> [Weight(1.0, 0.0, over=4, until=3).at(step) for step in range(4)]
        [1.0, 0.75, 0.5, 0.0]
        """
        share = min(step / self.over, 1.0)
        found = self.start + (self.end - self.start) * share
        return 0.0 if self.is_over(step) else found


def _is_int_or_float(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def option(*default: Any, least: float | None = None) -> Any:
    """A field of a dataclass that is an option.

    Args:
        *default: the default value; none for an option that must be given.
        least: the lowest number that is allowed.
    """
    metadata = {"least": least}
    if default and isinstance(default[0], list | dict):
        made = partial(copy.copy, default[0])
        return dataclasses.field(default_factory=made, metadata=metadata)
    given = {"default": default[0]} if default else {}
    return dataclasses.field(**given, metadata=metadata)


T = typing.TypeVar("T", bound=type)


@cache
def documented(cls: Any) -> dict[str, tuple[str, str]]:
    """The group and the text of each option of a class, from the TOML file beside its module."""
    file = Path(inspect.getfile(cls)).with_suffix(".toml")
    given = tomllib.loads(file.read_text("utf-8")) if file.is_file() else {}
    groups: dict[str, dict[str, str]] = given.get(cls.__name__, {})
    return {
        name: (group, one) for group in groups for name, one in groups[group].items()
    }


def with_texts(cls: T) -> T:
    """Adds the texts of `documented` to the docstring of a class."""
    lines = [f"    {name}: {text}" for name, (_, text) in documented(cls).items()]
    cls.__doc__ = "\n".join([f"{cls.__doc__}\n", "Options:", *lines])
    return cls


def check_declared(values: Any, cls: Any = None) -> None:
    """Checks the values of an object by the declarations of its class, or of a base class.

    Raises:
        ValueError: a value of another type, not among the choices, or out of range.
    """
    for name, declared in options_of(cls or type(values)).items():
        declared.check(getattr(values, name))


# options by names that other programs have for them; the first one that there is counts
_MEANT = {
    "algo": ("credit",),
    "algorithm": ("credit",),
    "batch_size": ("episodes_per_step",),
    "bs": ("batch_size", "episodes_per_step"),
    "clip_range": ("epsilon",),
    "device": ("use_cpu",),
    "env": ("games",),
    "environment": ("games",),
    "epochs": ("num_train_epochs", "max_steps"),
    "estimator": ("credit",),
    "eval_every": ("evaluate_every",),
    "group_size": ("num_generations",),
    "kl_coef": ("beta",),
    "lora": ("lora_r",),
    "lr": ("learning_rate",),
    "max_new_tokens": ("max_completion_length",),
    "max_tokens": ("max_completion_length",),
    "num_steps": ("max_steps",),
    "opponent": ("opponents",),
    "rank": ("lora_r",),
    "wandb": ("report_to",),
}


def unknown_option(
    name: str,
    known: typing.Iterable[str],
    what: str = "unknown",
    page: str = "arena train --help-all",
) -> ValueError:
    """The error for an unknown option."""
    names = [*known]
    near = difflib.get_close_matches(name, names, n=1)
    near = [one for one in _MEANT.get(name, ()) if one in names][:1] or near
    hint = f"did you mean {near[0]!r}?" if near else f"{page} lists all"
    if name == "recipe":
        hint = "name the recipe without it, as in: arena train kuhn-tiny"
    return ValueError(f"{what} option {name!r}; {hint}")


def refuse_unknown(
    where: str, given: typing.Iterable[Any], known: typing.Iterable[str]
) -> None:
    """Raises ValueError for a name that is none of the known options."""
    names = list(known)
    for name in given:
        check_known(name, names, f"{where} has no option {name!r}")


def options_of(cls: Any, inherited: frozenset[str] = frozenset()) -> dict[str, Option]:
    """The fields of a dataclass as options, by name."""
    found = {}
    hints = typing.get_type_hints(cls)
    bases = reversed(cls.__mro__[:-1])  # but for object
    told = {name: text for base in bases for name, text in documented(base).items()}
    for field in dataclasses.fields(cls):
        if not field.init:
            continue
        kinds, choices = _kinds_of(hints[field.name])
        group, text = told.get(field.name, ("", ""))
        default: Any = field.default
        if field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        found[field.name] = Option(
            name=field.name,
            types=kinds,
            choices=choices,
            default=default.value if isinstance(default, enum.Enum) else default,
            help=" ".join((text or str(field.metadata.get("help", ""))).split()),
            source="trl" if field.name in inherited else "arena",
            group=group,
            least=field.metadata.get("least"),
        )
    return found


def _kinds_of(hint: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Names of the types that a hint allows, and the choices of an enumeration."""
    is_union = typing.get_origin(hint) in (typing.Union, types.UnionType)
    parts = typing.get_args(hint) if is_union else (hint,)
    kinds = [typing.get_origin(part) or part for part in parts]
    literal = [part for part in parts if typing.get_origin(part) is typing.Literal]
    if literal:
        kinds = [str if kind is typing.Literal else kind for kind in kinds]
        return _named(kinds), typing.get_args(literal[0])
    for kind in kinds:
        if isinstance(kind, type) and issubclass(kind, enum.Enum):
            return (), tuple(str(member.value) for member in kind)
    if any(kind not in _KINDS for kind in kinds):
        return (), ()  # TRL checks it
    return _named(kinds), ()


def _named(kinds: typing.Iterable[Any]) -> tuple[str, ...]:
    return tuple("None" if k is type(None) else k.__name__ for k in kinds)
