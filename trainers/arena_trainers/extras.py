"""Imports of optional packages and of plug-ins; errors name what to install or mend."""

import importlib
import os
import sys
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from importlib.util import find_spec
from typing import Any


def missing_extra(
    error: ModuleNotFoundError, extra: str = "train"
) -> ModuleNotFoundError:
    """The error for a missing package; it names the extra to install."""
    return ModuleNotFoundError(
        f"this needs the package {error.name!r}; install it with: "
        f"pip install 'arena-envs[{extra}]'",
        name=error.name,
    )


def import_extra(module: str, extra: str) -> Any:
    """A module of a package that an extra installs.

    Raises:
        ModuleNotFoundError: it is missing; names the extra to install.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise missing_extra(error, extra) from error


def is_installed(module: str) -> bool:
    """Whether a module can be found; imports its parent packages only.

    A folder without `__init__.py` does not count: W&B leaves a folder `wandb` beside runs.
    """
    try:
        spec = find_spec(module)
        return spec is not None and spec.origin is not None
    except (ImportError, ValueError):  # the parent is missing or no package
        return False


def require(modules: Iterable[str], extra: str) -> None:
    """Checks that packages are installed, without importing them.

    Raises:
        ModuleNotFoundError: one is missing; names the extra to install.
    """
    for name in modules:
        if not is_installed(name):
            raise missing_extra(ModuleNotFoundError(name=name), extra)


def find_modules_here() -> None:
    """Makes modules of the working directory importable, as `python -m` does.

    The directory is last in the path, so its files hide no installed package.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def imported(name: str, wanted: str) -> Any:
    """The object named by `module:attribute`; the working directory is searched, too.

    Raises:
        ValueError: there is no such module or attribute; the message starts with `wanted`.
    """
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"want {wanted}, got {name!r}: {error}") from error


def loaded_plugin(point: EntryPoint, kind: str) -> Any:
    """What an entry point of another distribution names.

    Args:
        point: the entry point.
        kind: what it should name, for the message.

    Raises:
        ImportError: it cannot be loaded; names the distribution.
    """
    plugin = point.dist.name if point.dist else "?"
    try:
        return point.load()
    except Exception as error:  # a plug-in may raise anything
        raise ImportError(
            f"{kind} {point.name!r} of plug-in {plugin!r} cannot be loaded from "
            f"{point.value!r}: {error!r}"
        ) from error
