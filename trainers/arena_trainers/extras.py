"""Imports of optional packages and of plug-ins; errors name what to install or mend."""

import importlib
import inspect
import os
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from importlib.util import find_spec
from typing import Any, Generic, TypeVar

from arena_envs.checks import did_you_mean

T = TypeVar("T")


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
    find_modules_here()
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


@dataclass(frozen=True)
class PlugIns(Generic[T]):
    """The makers of one kind of object.

    Attributes:
        kind: what is made, for messages.
        group: of the entry points.
        built_in: the makers of this project, by name; they hide plug-ins of their names.
        given: arguments of makers that are no options of a user.
    """

    kind: str
    group: str
    built_in: Mapping[str, Callable[..., T]]
    given: tuple[str, ...] = ()

    def names(self) -> list[str]:
        """All names, sorted."""
        found = (point.name for point in entry_points(group=self.group))
        return sorted({*self.built_in, *found})

    def make(self, name: str, options: Mapping[str, Any]) -> T:
        """Makes an object.

        Raises:
            ValueError: an unknown name or option, or an option that is missing.
            ImportError: the plug-in cannot be imported.
        """
        maker = self.maker(name)
        parameters = inspect.signature(maker).parameters
        takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
        for option in () if takes_any else options:
            if option not in parameters:
                known = [name for name in parameters if name not in self.given]
                hint = did_you_mean(str(option), known) if known else "it has none"
                raise ValueError(
                    f"{self.kind} {name!r} has no option {option!r}; {hint}"
                )
        for parameter in parameters.values():
            is_named = parameter.kind in (
                parameter.KEYWORD_ONLY,
                parameter.POSITIONAL_OR_KEYWORD,
            )
            lacks = is_named and parameter.default is parameter.empty
            if lacks and parameter.name not in options:
                raise ValueError(
                    f"{self.kind} {name!r} needs the option {parameter.name!r}; give it"
                )
        return maker(**options)

    def maker(self, name: str) -> Callable[..., T]:
        """The function of a name.

        Raises:
            ValueError: there is none.
            ImportError: the plug-in cannot be imported.
        """
        if name in self.built_in:
            return self.built_in[name]
        for point in entry_points(group=self.group):
            if point.name == name:
                found: Callable[..., T] = loaded_plugin(point, self.kind)
                return found
        hint = did_you_mean(name, self.names())
        raise ValueError(f"no {self.kind} {name!r}; {hint}")
