"""The knobs of a game: values of its parameters from easy to hard."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any


def fitting(game: Any, **values: Sequence[Any]) -> dict[str, tuple[Any, ...]]:
    """The values with which the game can be built, all other parameters as they are.

    Args:
        game: a frozen dataclass of its parameters.
        **values: from easy to hard, by parameter.

    Returns:
        The values that fit, by parameter; without parameters of which no value fits.
    """
    found = {
        name: tuple(value for value in given if _fits(game, name, value))
        for name, given in values.items()
    }
    return {name: given for name, given in found.items() if given}


def _fits(game: Any, name: str, value: Any) -> bool:
    try:
        replace(game, **{name: value})
    except ValueError:
        return False
    return True
