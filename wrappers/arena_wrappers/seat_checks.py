"""Checks of the arguments of a `SeatEnv`."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena_envs.checks import checked_action, did_you_mean, short
from arena_wrappers.formats import InvalidReply
from arena_wrappers.policies import Policy
from arena_wrappers.policy_strings import make_policy

OPTIONS = ("chance", "sample")  # of `reset`


def checked_seat(seat: Any, num_players: int) -> int:
    """The seat as an `int`; raises ValueError unless the game has it."""
    is_integer = isinstance(seat, int | np.integer) and not isinstance(seat, bool)
    if not is_integer or seat not in range(num_players):
        raise ValueError(
            f"want seat from 0 to {num_players - 1}, got {seat!r:.80}; 'random' draws one "
            "for each episode"
        )
    return int(seat)


def checked_sample(options: Any, seed: int | None) -> int:
    """The number `sample` among the options of `reset`; 0 without one.

    Raises:
        ValueError: an option is unknown, or `sample` is no integer of at least 0 or comes
            without a seed.
    """
    if not isinstance(options, Mapping):
        return 0  # `GameEnv.reset` refuses what is no mapping
    for name in options:
        if name not in OPTIONS:
            hint = did_you_mean(str(name), OPTIONS)
            raise ValueError(f"unknown option {short(name)} of reset; {hint}")
    if "sample" not in options:
        return 0
    sample = options["sample"]
    if isinstance(sample, bool) or not isinstance(sample, int) or sample < 0:
        raise ValueError(
            f"want options['sample'] as an integer of at least 0, got {short(sample)}"
        )
    if seed is None:
        raise ValueError(
            "options['sample'] selects one of the episodes of a seed: pass seed, too"
        )
    return sample


def is_legal(action: Any, legal: Sequence[int], agent: str) -> bool:
    """Whether an action is legal.

    Raises:
        TypeError: it is a text, which no agent samples of a space of integers.
    """
    if isinstance(action, str):
        raise TypeError(
            f"want an action as an integer, got {short(action)}; make the environment with "
            "reply='text' to play texts"
        )
    if isinstance(action, InvalidReply):
        return False
    try:
        checked_action(action, legal, agent)
    except ValueError:
        return False
    return True


def checked_opponent(opponent: str | Policy) -> Policy:
    """The policy of another seat; raises ValueError for a string that names none here."""
    if not isinstance(opponent, str):
        return opponent
    if opponent == "self":
        raise ValueError(
            "opponent 'self' is the model that trains, which an environment of one seat "
            "does not know; give a policy such as 'random', or let your trainer play "
            "every seat of arena_envs.make(...)"
        )
    return make_policy(opponent)
