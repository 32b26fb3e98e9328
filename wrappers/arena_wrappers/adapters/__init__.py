"""Adapters to other frameworks: one module each, which imports its framework.

A module whose framework is missing raises an ImportError that says what to install. Frameworks
that take PettingZoo's or Gymnasium's interface have no module; `docs/adapters.md` shows how to
use them. `OpenMasks` is for those of them that want no action masks of zeros.
"""

import re
import warnings
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from pettingzoo.utils import BaseWrapper

from arena_envs.checks import install_advice


def check_version(package: str, extra: str, low: str, high: str) -> None:
    """Raises if a package is not installed; warns if its version is untested.

    Args:
        package: name of the distribution.
        extra: the extra of this distribution that installs it.
        low: the first tested version.
        high: the first version that is not tested.

    Raises:
        ImportError: names the extra.
    """
    try:
        installed_version = version(package)
    except PackageNotFoundError:
        raise ImportError(
            f"{package} is not installed; {install_advice(extra)}"
        ) from None
    if not _parts(low) <= _parts(installed_version) < _parts(high):
        warnings.warn(
            f"{package} {installed_version} is untested here: tested are versions from {low} to below "
            f"{high}; install one of these if something fails",
            stacklevel=3,
        )


def _parts(version: str) -> tuple[int, ...]:
    """The leading numbers of a version.

    >>> _parts("2.60.0rc1")
    (2, 60, 0)
    """
    return tuple(int(part) for part in re.findall(r"(?:^|\.)(\d+)", version))


class UnsupportedGame(ValueError):
    """A framework's game lacks what a game needs here; the message says what."""


class OpenMasks(BaseWrapper[str, Any, Any]):
    """A `GameEnv` that observes masks, with masks of ones for agents that may not act.

    In a `GameEnv` such masks are all zeros. Frameworks that sample an action for every agent
    in every step, such as TorchRL, fail then. The actions sampled for these agents are never
    played.

    - Observation: `"action_mask"` is all ones where it was all zeros.
    - Actions, rewards and spaces pass through.

    >>> import arena_envs
    >>> env = OpenMasks(arena_envs.make("tic_tac_toe", observation="features"))
    >>> env.reset(seed=0)
    >>> env.observe("player_1")["action_mask"].tolist()
    [1, 1, 1, 1, 1, 1, 1, 1, 1]
    """

    def observe(self, agent: str) -> Any:
        observation: Any = super().observe(agent)
        if not observation["action_mask"].any():
            observation["action_mask"][:] = 1
        return observation
