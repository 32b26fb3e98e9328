"""Entries of the registry of games, and the classes that they name."""

import importlib
import os
import re
import sys
import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from arena_envs.checks import did_you_mean
from arena_envs.game import Information, Kind

Split = Literal["train", "held_out"]
Facts = tuple[Kind, int, Information]  # kind, number of players and information

METHODS = ("initial_state", "current_player", "legal_actions", "apply", "observe")


@dataclass(frozen=True)
class Entry:
    """What the registry holds of a game.

    Attributes:
        id: the id of the game, or `"module:Class"` of a game without an id.
        entry_point: `"module:attribute"` of the class.
        params: parameters of the class.
        split: whether the game is for training or held out for evaluation.
        extra: the extra of this distribution that the game needs, or None.
        facts: what `game_infos()` tells of the game if its class cannot be imported.
        plugin: the distribution of the game; None for games of this distribution.
        has_id: whether the game is registered under an id.
    """

    id: str
    entry_point: str
    params: Mapping[str, Any] = field(default_factory=dict)
    split: Split = "train"
    extra: str | None = None
    facts: Facts | None = None
    plugin: str | None = None
    has_id: bool = True

    def game_class(self) -> Any:
        """The class of the game.

        Raises:
            ValueError: a game without an id has no such module or class.
            ImportError: the class cannot be imported; says what to install.
        """
        return registered_class(self) if self.has_id else class_named(self.id)


def class_named(name: str) -> Any:
    """The class of a game that `"module:Class"` names.

    Nothing is called here, because the name may come from a file that a stranger wrote.

    Raises:
        ValueError: there is no such module, or no such game in it.
        ImportError: the module fails; names the exception and its place.
    """
    module, _, attribute = name.partition(":")
    wanted = f"want a game as 'module:Class', got {name!r}"
    if not re.fullmatch(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*", name):
        raise ValueError(wanted)
    try:
        found = getattr(importlib.import_module(module), attribute, None)
    except ModuleNotFoundError as error:
        if error.name and f"{module}.".startswith(f"{error.name}."):
            raise ValueError(
                f"{wanted}: there is no module {error.name!r} in the working directory "
                "or among the installed packages"
            ) from error
        raise ImportError(f"game {name!r} cannot be loaded: {error}") from error
    except Exception as error:  # a stranger's module may raise anything at import
        what = f"{type(error).__name__}: {error}{place_of(error)}"
        raise ImportError(f"game {name!r} cannot be loaded: {what}") from error
    if not isinstance(found, type) or not all(hasattr(found, m) for m in METHODS):
        known = [n for n, v in vars(sys.modules[module]).items() if hasattr(v, "apply")]
        got = "nothing of that name" if found is None else f"{found!r:.80}, no game"
        hint = f"; {did_you_mean(attribute, known)}" if known else ""
        raise ValueError(f"{wanted}: the module has {got}{hint}")
    return found


def place_of(error: BaseException) -> str:
    """Where an exception was raised, such as `" (pig.py:98)"`; "" if that is unknown.

    >>> place_of(ValueError())
    ''
    """
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:
        return ""  # the message of a SyntaxError names its line
    return f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"


def registered_class(entry: Entry) -> Any:
    """The class of a registered game.

    Raises:
        ImportError: the class cannot be imported; says what to install.
    """
    module, _, attribute = entry.entry_point.partition(":")
    try:
        return getattr(importlib.import_module(module), attribute)
    except Exception as error:  # a stranger's module may raise anything at import
        advice = ""
        if entry.extra:
            advice = f"; install it with: pip install 'arena-envs[{entry.extra}]'"
        elif entry.plugin is None:
            raise
        origin = f" of plug-in {entry.plugin!r}" if entry.plugin else ""
        raise ImportError(
            f"game {entry.id!r}{origin} cannot be loaded from {entry.entry_point!r}: "
            f"{type(error).__name__}: {error}{advice}"
        ) from error
