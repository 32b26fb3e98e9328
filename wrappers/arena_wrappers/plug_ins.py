"""Makers by name: those of a package, and those that other distributions name as entry points."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points
from typing import Any, Generic, TypeVar

from arena_envs.checks import did_you_mean

T = TypeVar("T")


@dataclass(frozen=True)
class PlugIns(Generic[T]):
    """The makers of one kind of object.

    Attributes:
        kind: what is made, for messages.
        group: of the entry points.
        built_in: the makers of this project, by name; they hide plug-ins of their names.
    """

    kind: str
    group: str
    built_in: Mapping[str, Callable[..., T]]

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
                hint = "it has none"
                if parameters:
                    hint = did_you_mean(str(option), parameters)
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
                return self._load(point)
        hint = did_you_mean(name, self.names())
        raise ValueError(f"no {self.kind} {name!r}; {hint}")

    def _load(self, point: EntryPoint) -> Callable[..., T]:
        plugin = point.dist.name if point.dist else "?"
        try:
            maker: Callable[..., T] = point.load()
        except Exception as error:  # a plug-in may raise anything
            raise ImportError(
                f"{self.kind} {point.name!r} of plug-in {plugin!r} cannot be loaded from "
                f"{point.value!r}: {error!r}"
            ) from error
        return maker
