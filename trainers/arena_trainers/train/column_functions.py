"""Extra columns for estimators that the user's Python functions compute turn by turn."""

import difflib
import math
from collections.abc import Callable, Collection, Mapping
from numbers import Real
from typing import Any

import numpy as np

from arena_trainers.credit.batch import INT_COLUMNS
from arena_trainers.extras import imported
from arena_wrappers.episodes import Episode, Turn

ColumnFunction = Callable[[Episode, Turn, Any], float]

SUPPLIED = ("value", "action_value", "stratum")  # and parts of the reward


def part_of(column: str) -> str | None:
    """The part of the reward that a column holds; None for other columns.

    >>> part_of("rewards.judge"), part_of("stratum")
    ('judge', None)
    """
    kind, _, part = column.partition(".")
    return part if kind == "rewards" and part else None


def load_functions(specs: Mapping[str, Any]) -> dict[str, ColumnFunction]:
    """Imports functions by name.

    Args:
        specs: `"module:function"` by column; modules of the working directory can be used.

    Raises:
        ValueError: a string of another form, or that names no function.
    """
    found: dict[str, ColumnFunction] = {}
    for name, spec in specs.items():
        wanted = f"columns[{name!r}] as 'module:function'"
        if not isinstance(spec, str) or ":" not in spec:
            raise ValueError(f"want {wanted}, got {spec!r}")
        found[name] = imported(spec, wanted)
    return found


def check_functions(functions: Mapping[str, Any], taken: Collection[str]) -> None:
    """Raises for functions of columns that functions cannot give.

    Args:
        functions: functions by column.
        taken: columns that the trainer gives.

    Raises:
        ValueError: no mapping; an unknown column; a column that is taken; no function.
    """
    if not isinstance(functions, Mapping):
        raise ValueError(f"want columns as a mapping from names, got {functions!r}")
    for name, function in functions.items():
        if name in taken:
            raise ValueError(
                f"columns gives {name!r}, which the trainer gives; leave it out"
            )
        if name not in SUPPLIED and part_of(name) is None:
            part = str(name).rpartition(".")[2] or "judge"
            near = difflib.get_close_matches(str(name), SUPPLIED, n=1)
            (hint,) = near or [f"rewards.{part}"]
            raise ValueError(
                f"columns gives {name!r}, but a function can give {', '.join(SUPPLIED)} "
                f"and parts of the reward; did you mean {hint!r}?"
            )
        if not callable(function):
            raise ValueError(
                f"want a function of episode, turn and state as columns[{name!r}], got "
                f"{function!r}"
            )


def supplied_by(
    functions: Mapping[str, ColumnFunction], episode: Episode, turn: Turn, state: Any
) -> dict[str, float]:
    """Values of the functions for one turn, by column.

    Args:
        functions: functions by column.
        episode: the episode of the turn.
        turn: the turn.
        state: the state before the turn.

    Raises:
        ValueError: a value that is not a finite number; in an integer column, one that is
            not an integer of 64 bits.
    """
    found: dict[str, float] = {}
    for name, function in functions.items():
        value, is_int = function(episode, turn, state), name in INT_COLUMNS
        if not _fits(value, is_int):
            wanted = "an integer of 64 bits" if is_int else "a finite number"
            raise ValueError(
                f"want {wanted} from columns[{name!r}], got {value!r} for turn "
                f"{turn.index} of seat {turn.seat} in an episode of seed {episode.seed}"
            )
        found[name] = int(value) if is_int else float(value)
    return found


def _fits(value: Any, is_int: bool) -> bool:
    if not isinstance(value, Real | np.bool_):
        return False
    try:
        number = int(value) if is_int else float(value)  # type: ignore[arg-type] # Real
    except (OverflowError, ValueError):  # too large, infinite or NaN
        return False
    return abs(number) < 2**63 and number == value if is_int else math.isfinite(number)
