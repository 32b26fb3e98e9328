"""Adapters to other frameworks: one module each, which imports its framework.

A module whose framework is missing raises an ImportError that says what to install. Frameworks
that take PettingZoo's or Gymnasium's interface have no module; `docs/adapters.md` shows how to
use them.
"""

import re
import warnings
from importlib.metadata import PackageNotFoundError, version

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
        found = version(package)
    except PackageNotFoundError:
        raise ImportError(
            f"{package} is not installed; {install_advice(extra)}"
        ) from None
    if not _parts(low) <= _parts(found) < _parts(high):
        warnings.warn(
            f"{package} {found} is untested here: tested are versions from {low} to below "
            f"{high}; install one of these if something fails",
            stacklevel=3,
        )


def _parts(version: str) -> tuple[int, ...]:
    """The leading numbers of a version.

    >>> _parts("2.60.0rc1")
    (2, 60, 0)
    """
    return tuple(int(part) for part in re.findall(r"(?:^|\.)(\d+)", version))
