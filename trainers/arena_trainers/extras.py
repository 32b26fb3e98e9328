"""Packages that only some parts need, and what installs them."""

import importlib
import os
import sys
from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any


def missing_extra(
    error: ModuleNotFoundError, extra: str = "train"
) -> ModuleNotFoundError:
    """The error for a missing package, which says what to install."""
    return ModuleNotFoundError(
        f"this needs the package {error.name!r}; install it with: "
        f"pip install 'arena-envs[{extra}]'",
        name=error.name,
    )


def import_extra(module: str, extra: str) -> Any:
    """A module of a package that an extra brings.

    Raises:
        ModuleNotFoundError: it is missing; says which extra to install.
    """
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError as error:
        raise missing_extra(error, extra) from error


def is_installed(module: str) -> bool:
    """Whether a module can be found; imports at most its parent packages.

    A folder without `__init__.py` is none: W&B leaves one called `wandb` behind its runs.
    """
    try:
        spec = find_spec(module)
        return spec is not None and spec.origin is not None
    except (ImportError, ValueError):  # no parent, or one that is no package
        return False


def require(modules: Iterable[str], extra: str) -> None:
    """Finds out whether packages are installed, without importing them.

    Raises:
        ModuleNotFoundError: one is missing; says which extra to install.
    """
    for name in modules:
        if not is_installed(name):
            raise missing_extra(ModuleNotFoundError(name=name), extra)


def find_modules_here() -> None:
    """Lets modules of the working directory be imported, as `python -m` does.

    They come last, so that no file of the user's hides an installed package.
    """
    if os.getcwd() not in sys.path:
        sys.path.append(os.getcwd())


def imported(name: str, wanted: str) -> Any:
    """What `module:attribute` names, in the working directory, too.

    Raises:
        ValueError: there is no such module or attribute; says what was wanted.
    """
    module, _, attribute = name.partition(":")
    sys.path.insert(0, os.getcwd())  # as `python -m` does
    try:
        return getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ValueError(f"want {wanted}, got {name!r}: {error}") from error
