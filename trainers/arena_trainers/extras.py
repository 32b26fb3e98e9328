"""Packages that only some parts need, and what installs them."""

import importlib
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
