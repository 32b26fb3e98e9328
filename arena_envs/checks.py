"""Checks of arguments, and words of their error messages."""

import difflib
import math
import operator
import re
from collections.abc import (
    Hashable,
    Iterable,
    Sequence,
)
from functools import cache
from importlib.util import find_spec
from typing import Any, TypeAlias

# a value of a JSON text
JSON: TypeAlias = "bool | int | float | str | list[JSON] | dict[str, JSON] | None"

PACKAGES = ("resvg_py", "PIL")  # that draw pixels


def checked_seed(seed: Any) -> int:
    """The seed as an `int`.

    Raises:
        ValueError: it is negative or no integer.
    """
    number = _integer(seed)
    if number is None or number < 0:
        raise ValueError(f"want a non-negative integer as seed, got {short(seed)}")
    return number


def checked_action(action: Any, legal: Sequence[int], agent: str) -> int:
    """The action as an `int`.

    Raises:
        ValueError: it is no integer or not legal.
    """
    number = _integer(action)
    if number is None or number not in legal:
        hint = "; PromptWrapper(env) takes texts" if isinstance(action, str) else ""
        raise ValueError(
            f"{agent} played {short(action)}; legal are {list(legal)}{hint}"
        )
    return number


def short(value: Any) -> str:
    """The start of a value's repr, with its type.

    >>> short("7")
    "'7' (str)"
    """
    text = repr(value[:80] if isinstance(value, str) else value)
    return f"{text[:80]} ({type(value).__name__})"


def did_you_mean(word: str, candidates: Iterable[str]) -> str:
    """A clause that names the nearest known word, or all known words.

    >>> did_you_mean("khun", ["kuhn", "leduc"])
    "did you mean 'kuhn'?"
    >>> did_you_mean("TABU", ["leduc_poker-v0", "taboo-v1"])
    "did you mean 'taboo-v1'?"
    """
    names = {re.sub(r"-v\d+$", "", name.lower()): name for name in candidates}
    word = re.sub(r"-v\d+$", "", word.lower())
    near = difflib.get_close_matches(word, names, n=1)
    if not near and len(word) > 2:
        near = [name for name in names if word in name]
    if near:
        return f"did you mean {names[near[0]]!r}?"
    return f"known are {', '.join(names.values())}"


def check_known(name: Hashable, candidates: Iterable[str], problem: str) -> None:
    """Raises ValueError for an unknown name; the error begins with `problem` and names the nearest."""
    if name not in (words := tuple(candidates)):
        raise ValueError(f"{problem}; {did_you_mean(str(name), words)}")


def _integer(value: Any) -> int | None:
    if isinstance(value, bool):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def check_options(max_turns: object, observation: object) -> None:
    """Raises if an option of an environment is out of range.

    Raises:
        ValueError: `max_turns` is no integer above 0, or an unknown `observation`.
    """
    if max_turns is not None and (type(max_turns) is not int or max_turns < 1):
        raise ValueError(f"want max_turns as an integer above 0, got {max_turns!r}")
    if observation not in ("all", "features", "text"):
        raise ValueError(
            f"want observation 'all', 'features' or 'text', got {observation!r:.80}"
        )


@cache
def missing_package() -> str | None:
    """The first package that `"rgb_array"` needs and that is not installed."""
    return next((name for name in PACKAGES if find_spec(name) is None), None)


def render_modes() -> list[str]:
    """The modes that the installed packages allow."""
    return ["ansi", "human"] + ["rgb_array"] * (missing_package() is None)


def install_advice(extra: str) -> str:
    """How to install an extra; the package is not published yet."""
    return f"install it in a clone of arena-envs: pip install '.[{extra}]'"


def check_render_mode(mode: object) -> None:
    """Raises if an environment cannot render in this mode.

    Raises:
        ValueError: the mode is unknown.
        ModuleNotFoundError: a package is missing; names the extra to install.
    """
    if mode not in (None, "ansi", "human", "rgb_array"):
        raise ValueError(
            f"want render_mode None, 'ansi', 'human' or 'rgb_array', got {mode!r:.80}"
        )
    if mode == "rgb_array" and (name := missing_package()):
        raise ModuleNotFoundError(
            f"render_mode 'rgb_array' needs the package {name!r}; {install_advice('render')}",
            name=name,
        )


def check_count(name: str, value: Any) -> None:
    """Raises ValueError unless an option is an integer of at least 1."""
    if type(value) is not int or value < 1:
        raise ValueError(f"want {name} as an integer of at least 1, got {value!r:.80}")


def is_number(value: Any) -> bool:
    """Whether a value is a finite `int` or `float`; a bool is none."""
    return type(value) is int or (type(value) is float and math.isfinite(value))
