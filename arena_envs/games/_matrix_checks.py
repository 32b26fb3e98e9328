"""Checks of the parameters of matrix games."""

import math
import re
from collections.abc import Sequence
from typing import Any

from arena_envs.game import fold

MAX_PLAYERS, MAX_CELLS, MAX_NAME, MAX_PAYOFF = 8, 256, 20, 1e9
NAME = re.compile(r"[\w'+%&-]+(?: [\w'+%&-]+)*", re.ASCII)


def checked_shape(payoffs: Any) -> tuple[int, ...]:
    """Number of actions of each seat, after checks of the table."""
    sizes, level = [], payoffs
    while isinstance(level, tuple) and level:
        sizes.append(len(level))
        level = level[0]
    *shape, num_payoffs = sizes or [0]
    num_players = len(shape)
    if not (2 <= num_players == num_payoffs <= MAX_PLAYERS) or not _fits(
        payoffs, sizes
    ):
        raise ValueError(
            "want payoffs[action of player_0][action of player_1]... as a number for each "
            f"of 2 to {MAX_PLAYERS} players, from {-MAX_PAYOFF:g} to {MAX_PAYOFF:g}, "
            f"got {payoffs!r:.200}"
        )
    if math.prod(shape) > MAX_CELLS:  # the rules text has a line for each cell
        raise ValueError(
            f"want payoffs of at most {MAX_CELLS} cells, got {math.prod(shape)}"
        )
    return tuple(shape)


def _fits(level: Any, sizes: Sequence[int]) -> bool:
    if not sizes:
        return type(level) in (int, float) and -MAX_PAYOFF <= level <= MAX_PAYOFF
    if not isinstance(level, tuple) or len(level) != sizes[0]:
        return False
    return all(_fits(part, sizes[1:]) for part in level)


def check_names(actions: Any, shape: Sequence[int]) -> None:
    """Refuses names that do not fit the table or cannot be told apart.

    Raises:
        ValueError: says which names are wanted.
    """
    shared = isinstance(actions, tuple) and all(
        isinstance(name, str) for name in actions
    )
    by_seat = [actions] * len(shape) if shared else actions
    if not isinstance(by_seat, list | tuple) or len(by_seat) != len(shape):
        raise ValueError(
            f"want actions as names, for all players or for each of {len(shape)}, "
            f"got {actions!r:.200}"
        )
    for seat, (names, num_names) in enumerate(zip(by_seat, shape, strict=True)):
        if (
            not isinstance(names, tuple)
            or len(names) != num_names
            or not all(map(_is_name, names))
            or len(set(map(fold, names))) != num_names
        ):
            raise ValueError(
                f"want {num_names} different names of at most {MAX_NAME} characters "
                "(letters, digits, single blanks and _'+%&-) as actions of "
                f"player_{seat}, got {names!r:.200}"
            )


def _is_name(name: Any) -> bool:
    return (
        isinstance(name, str)
        and len(name) <= MAX_NAME
        and NAME.fullmatch(name) is not None
    )
