"""Checks of what a game declares for training."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

from arena_envs.checks import short
from arena_envs.doors import BrokenPromise
from arena_envs.game import AnyGame
from arena_envs.testing.sample import demand


def check_knobs(game: AnyGame) -> None:
    """Knobs are parameters, and every value builds the game."""
    given: Any = game
    params = [f.name for f in fields(given) if f.init] if is_dataclass(given) else []
    for name, values in getattr(game, "knobs", {}).items():  # the fact is optional
        rule = "a knob is a parameter of the game, which is a dataclass"
        demand(name in params, rule, name, fix="Name a parameter in knobs.")
        rule = f"the knob {name!r} has a tuple of different values"
        is_tuple = type(values) is tuple and bool(values)
        demand(is_tuple and len(set(values)) == len(values), rule, values)
        for value in values:
            try:
                replace(given, **{name: value})
            except ValueError as error:
                raise BrokenPromise(
                    f"every value of the knob {name!r} builds the game; got "
                    f"{short(value)}: {error}. Remove this value from knobs."
                ) from error
