"""Columns of the turn batch that users' functions and reward models supply (`Supplier`).

This module imports neither TRL nor torch.
"""

import difflib
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from numbers import Real
from typing import Any

import numpy as np

from arena_credit.batch import INT_COLUMNS
from arena_envs.game import AnyState
from arena_envs.registry import imported
from arena_trainers.lm.models import check_reward_model
from arena_trainers.rewards import Call, Part, reads_calls
from arena_wrappers.records import Episode, Turn

ColumnFunction = Callable[..., Any]  # of episode, turn and state, or of calls
SUPPLIED = ("value", "action_value", "stratum")  # and parts of the reward


@dataclass(frozen=True)
class RewardColumn:
    """A column that a reward model supplies, see `arena_trainers.train.rollout.reward_columns`.

    Args:
        path: the reward model, a folder or an id of the Hugging Face hub.
    """

    path: str


Supplier = ColumnFunction | RewardColumn


def part_of(column: str) -> str | None:
    """The part of the reward that a column holds; None for other columns.

    >>> part_of("rewards.judge"), part_of("stratum")
    ('judge', None)
    """
    kind, _, part = column.partition(".")
    return part if kind == "rewards" and part else None


def load_functions(specs: Mapping[str, Any]) -> dict[str, Supplier]:
    """Imports functions by name, and finds reward models without loading them.

    Args:
        specs: by column, `"module:function"`, also of a module of the working directory, or
            `{"reward": PATH}`.

    Raises:
        ValueError: another form, no such function, or no such reward model.
    """
    suppliers: dict[str, Supplier] = {}
    for name, spec in specs.items():
        if isinstance(spec, Mapping) and [*spec] == ["reward"]:
            suppliers[name] = RewardColumn(str(spec["reward"]))
            check_reward_model(str(spec["reward"]))
            continue
        form = f"columns[{name!r}] as 'module:function' or {{reward: PATH}}"
        if not isinstance(spec, str) or ":" not in spec:
            raise ValueError(f"want {form}, got {spec!r}")
        suppliers[name] = imported(spec, form)
    return suppliers


def functions_of(columns: Mapping[str, Supplier]) -> dict[str, ColumnFunction]:
    """The columns that functions supply."""
    return {n: c for n, c in columns.items() if not isinstance(c, RewardColumn)}


def reward_columns_of(columns: Mapping[str, Supplier]) -> dict[str, RewardColumn]:
    """The columns that reward models supply."""
    return {n: c for n, c in columns.items() if isinstance(c, RewardColumn)}


def check_functions(
    functions: Mapping[str, Any], trainer_columns: Collection[str]
) -> None:
    """Raises for columns that functions or reward models cannot give.

    Raises:
        ValueError: an unknown column; a column that is taken; no function; a
            column that a reward model cannot give, see `arena_trainers.train.rollout.reward_columns`.
    """
    for name, function in functions.items():
        if name in trainer_columns:
            raise ValueError(
                f"columns gives {name!r}, which the trainer gives; leave it out"
            )
        if name not in SUPPLIED and part_of(name) is None:
            part = str(name).rpartition(".")[2] or "judge"
            near = difflib.get_close_matches(str(name), SUPPLIED, n=1)
            (hint,) = near or [f"rewards.{part}"]
            raise ValueError(
                f"columns gives {name!r}, but a function can give "
                f"{', '.join(SUPPLIED)} and parts of the reward; did you mean {hint!r}?"
            )
        if not callable(function) and not isinstance(function, RewardColumn):
            raise ValueError(
                f"want a function of episode, turn and state as columns[{name!r}], got "
                f"{function!r}"
            )
    _check_scores(functions)


def _check_scores(columns: Mapping[str, Any]) -> None:
    """Raises if a column of a reward model would depend on the zero of its scores."""
    if isinstance(columns.get("stratum"), RewardColumn):
        raise ValueError(
            "columns gives 'stratum' by a reward model; scores have an arbitrary zero "
            "and scale, so that only differences at the same prompt have a meaning; "
            "give rewards.judge, or value and action_value by the same reward model"
        )
    pair = columns.get("value"), columns.get("action_value")
    if any(isinstance(column, RewardColumn) for column in pair) and pair[0] != pair[1]:
        raise ValueError(
            "want value and action_value by the same reward model, got "
            f"{pair[0]!r:.200} and {pair[1]!r:.200}; scores have an arbitrary zero and "
            "scale, so that only differences at the same prompt have a meaning; give "
            "rewards.judge, or value and action_value by the same reward model"
        )


def supplied_by(
    functions: Mapping[str, ColumnFunction],
    episode: Episode,
    turn: Turn,
    state: AnyState,
    game: Any = None,
) -> dict[str, float]:
    """Values of the functions for one turn, by column.

    Raises:
        ValueError: a value that is not a finite number; in an integer column, one that is
            not an integer of 64 bits.
    """
    values: dict[str, float] = {}
    for name, function in functions.items():
        extra_arguments = (game,) if isinstance(function, Part) else ()
        value = function(episode, turn, state, *extra_arguments)
        values[name] = _number(name, value, episode, turn)
    return values


def pays_calls(function: object) -> bool:
    """Whether a function gives a value for each call of a turn; False for a string that names one."""
    if isinstance(function, Part):
        return reads_calls(function.function)
    return callable(function) and reads_calls(function)


def supplied_by_calls(
    functions: Mapping[str, ColumnFunction], calls: Sequence[Call]
) -> list[dict[str, float]]:
    """Values of the functions that `pays_calls`, by column, for each call.

    Raises:
        ValueError: not one value for each call; or as for `supplied_by`.
    """
    supplied: list[dict[str, float]] = [{} for _ in calls]
    for name, function in functions.items() if calls else ():
        ask = function.of_calls if isinstance(function, Part) else function
        values = list(ask(calls))
        if len(values) != len(calls):
            raise ValueError(
                f"want one value for each call, {len(calls)} here, from columns[{name!r}], got "
                f"{len(values)}; return a list as long as `calls`"
            )
        for call, value, columns in zip(calls, values, supplied, strict=True):
            columns[name] = _number(name, value, call.episode, call.turn)
    return supplied


def _number(name: str, value: Any, episode: Episode, turn: Turn) -> float:
    """A function's value, which fits its column."""
    is_int = name in INT_COLUMNS
    if not _fits(value, is_int):
        form = "an integer of 64 bits" if is_int else "a finite number"
        raise ValueError(
            f"want {form} from columns[{name!r}], got {value!r} for turn "
            f"{turn.index} of seat {turn.seat} in an episode of seed {episode.seed}"
        )
    return int(value) if is_int else float(value)


def _fits(value: Any, is_int: bool) -> bool:
    if not isinstance(value, Real | np.bool_):
        return False
    try:
        number = int(value) if is_int else float(value)  # type: ignore[arg-type] # Real
    except (OverflowError, ValueError):  # too large, infinite or NaN
        return False
    return abs(number) < 2**63 and number == value if is_int else math.isfinite(number)
