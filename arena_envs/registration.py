"""Ids of games: registered as strings, imported when they are made."""

import difflib
import importlib
import inspect
import os
import re
import sys
import traceback
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from typing import Any, Literal

import gymnasium
import pettingzoo

from arena_envs.env import GameEnv
from arena_envs.game import AnyGame, Information, Kind

Split = Literal["train", "held_out"]
Facts = tuple[Kind, int, Information]  # kind, number of players and information


@dataclass(frozen=True)
class GameInfo:
    """What `games()` tells about a registered game.

    Attributes:
        id: such as `"kuhn_poker-v0"`.
        kind: `"competitive"`, `"cooperative"` or `"mixed"`.
        num_players: seats with default parameters.
        information: `"perfect"` or `"imperfect"`.
        split: `"train"` or `"held_out"`.
        extra: the extra of this distribution that the game needs, or None.
    """

    id: str
    kind: Kind
    num_players: int
    information: Information
    split: Split
    extra: str | None


@dataclass(frozen=True)
class _Entry:
    id: str
    entry_point: str  # "module:attribute"
    params: Mapping[str, Any] = field(default_factory=dict)
    split: Split = "train"
    extra: str | None = None
    facts: Facts | None = None  # where the game may be impossible to import
    plugin: str | None = None  # the distribution that brought it, if not ours
    is_class: bool = False  # named as "module:Class", without an id


# what was said of plug-ins, so that it is said once
_warned: dict[str | tuple[str, type[Warning], int], int] = {}
_entries: dict[str, _Entry] = {}


def register(
    id: str,
    entry_point: str,
    *,
    split: Split = "train",
    extra: str | None = None,
    facts: Facts | None = None,
    plugin: str | None = None,
    **params: Any,
) -> None:
    """Makes a game known here, to PettingZoo and (one seat of it) to Gymnasium.

    Args:
        id: `"snake_name-vN"`.
        entry_point: `"module:attribute"` of the game's class, imported when first made.
        split: whether the game is for training or held out for evaluation.
        extra: the extra of this distribution that the game needs.
        facts: kind, number of players and information, such as `("mixed", 2, "perfect")`,
            with which `games()` lists a game whose extra is not installed.
        plugin: the distribution that the game comes from, if not this one.
        **params: parameters of the class, where the id is a preset.

    Raises:
        ValueError: the id is malformed or taken, or `extra` comes without `facts`.
    """
    if not re.fullmatch(r"[a-z][a-z0-9_]*-v\d+", id):
        raise ValueError(f"want a game id such as 'my_game-v0', got {id!r}")
    if id in _entries:
        raise ValueError(f"game id {id!r} is taken by {_entries[id].entry_point}")
    if extra and not facts:
        raise ValueError(
            f"want facts of game {id!r}, which has an extra, got {facts!r}"
        )
    _entries[id] = _Entry(id, entry_point, params, split, extra, facts, plugin)
    if hasattr(pettingzoo, "register"):  # since 1.27
        pettingzoo.register(
            "aec", f"arena/{id}", "arena_envs.registration:make", kwargs={"id": id}
        )
    name, version = id.rsplit("-", 1)
    camel = "".join(word.capitalize() for word in name.split("_"))
    gymnasium.register(
        f"arena/{camel}-{version}",
        "arena_wrappers.seat_env:make_seat_env",
        kwargs={"game": id},  # `make_vec` has an argument `id` of its own
    )


def register_plugins() -> None:
    """Registers the games of other distributions (entry-point group `arena.games`)."""
    for point in entry_points(group="arena.games"):
        plugin = point.dist.name if point.dist else "?"
        id = point.name if "-v" in point.name else f"{point.name}-v0"
        try:
            register(id, point.value, plugin=plugin)
        except ValueError as error:
            _warn(plugin, f"game {point.name!r} of {plugin} is skipped: {error}")


def make_game(id: str, **params: Any) -> AnyGame:
    """The rules of a game.

    Args:
        id: `"kuhn_poker-v0"`, `"kuhn_poker"` (the newest version) or either with
            `"arena/"` before it; or `"module:Class"` of a game that has no id.
        **params: parameters of the game; its page lists them.

    Raises:
        ValueError: unknown id, class or parameter, or a parameter out of range.
        ImportError: the game cannot be imported; says what to install.
    """
    entry = _find(id)
    return _build(entry, {**entry.params, **params})


def make(
    id: str,
    *,
    max_turns: int | None = None,
    render_mode: str | None = None,
    **params: Any,
) -> GameEnv:
    """A PettingZoo AEC environment of a game.

    Args:
        id: as for `make_game`.
        max_turns: truncates episodes after so many turns of all agents together.
        render_mode: None, `"ansi"` or `"human"`.
        **params: parameters of the game.

    Raises:
        ValueError: as for `make_game` and `GameEnv`.
        ImportError: as for `make_game`.

    >>> env = make("kuhn_poker", num_players=3)
    >>> env.reset(seed=0)
    >>> env.observe("player_0")["text"]
    'You are player_0 and hold K. Actions: none. Your turn.'
    """
    game = make_game(id, **params)
    return GameEnv(game, id=_find(id).id, max_turns=max_turns, render_mode=render_mode)


def games() -> list[GameInfo]:
    """All registered games by id; a plug-in that cannot be loaded is warned about."""
    infos = []
    for id in sorted(_entries):
        entry = _entries[id]
        try:
            infos.append(_info(entry))
        except Exception as error:  # whatever a stranger's module does
            if entry.plugin is None:
                raise
            _warn(
                entry.plugin,
                f"game {id!r} of plug-in {entry.plugin!r} is left out: "
                f"{error.__cause__ or error!r}",
            )
    return infos


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A sentence that names the nearest known word, or all of them.

    >>> did_you_mean("khun", ["kuhn", "leduc"])
    "did you mean 'kuhn'?"
    """
    known = list(known)
    near = difflib.get_close_matches(word, known, n=1)
    return f"did you mean {near[0]!r}?" if near else f"known are {', '.join(known)}"


def _info(entry: _Entry) -> GameInfo:
    if entry.facts:
        kind, num_players, information = entry.facts
    else:
        game = _build(entry, dict(entry.params))
        kind, num_players, information = game.kind, game.num_players, game.information
    return GameInfo(
        id=entry.id,
        kind=kind,
        num_players=num_players,
        information=information,
        split=entry.split,
        extra=entry.extra,
    )


def _find(id: str) -> _Entry:
    if not isinstance(id, str):
        raise ValueError(f"want the id of a game as a string, got {id!r}")
    name = id.removeprefix("arena/")
    if ":" in name:
        return _Entry(name, name, is_class=True)
    if name in _entries:
        return _entries[name]
    versions = [known for known in _entries if known.rsplit("-v", 1)[0] == name]
    if versions:
        return _entries[max(versions, key=lambda known: int(known.rsplit("-v", 1)[1]))]
    raise ValueError(f"unknown game {id!r}; {did_you_mean(name, sorted(_entries))}")


def _build(entry: _Entry, params: dict[str, Any]) -> AnyGame:
    constructor = class_named(entry.id) if entry.is_class else _constructor(entry)
    known = inspect.signature(constructor).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in known.values())
    for name in params:
        if name not in known and not takes_any:
            raise ValueError(
                f"game {entry.id!r} has no parameter {name!r}; "
                f"{did_you_mean(name, known)}"
            )
    missing = [p.name for p in known.values() if _is_required(p)]
    if lacking := [name for name in missing if name not in params]:
        raise ValueError(f"game {entry.id!r} needs the parameter {lacking[0]!r}")
    game: AnyGame = constructor(**params)
    return game


def _is_required(parameter: inspect.Parameter) -> bool:
    variadic = (parameter.VAR_KEYWORD, parameter.VAR_POSITIONAL)
    return parameter.default is parameter.empty and parameter.kind not in variadic


def class_named(name: str) -> Any:
    """The class of a game that `"module:Class"` names.

    Files may hold such a name, so that nothing is called here: neither what is no class nor
    a class that lacks the methods of a game.

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
    methods = ("initial_state", "current_player", "legal_actions", "apply", "observe")
    if not isinstance(found, type) or not all(hasattr(found, m) for m in methods):
        known = [n for n, v in vars(sys.modules[module]).items() if hasattr(v, "apply")]
        got = "nothing of that name" if found is None else f"{found!r:.80}, no game"
        hint = f"; {did_you_mean(attribute, known)}" if known else ""
        raise ValueError(f"{wanted}: the module has {got}{hint}")
    return found


def place_of(error: BaseException) -> str:
    """Where an exception was raised, such as `" (pig.py:98)"`; "" if nothing tells.

    >>> place_of(ValueError())
    ''
    """
    frames = traceback.extract_tb(error.__traceback__)
    if isinstance(error, SyntaxError) or not frames:
        return ""  # whose message has its line
    return f" ({os.path.basename(frames[-1].filename)}:{frames[-1].lineno})"


def _warn(plugin: str, message: str) -> None:
    """Warns of a plug-in, in one line: no line of ours is at fault that it could show."""
    warnings.warn_explicit(
        message, UserWarning, f"<plug-in {plugin}>", 1, registry=_warned
    )


def _constructor(entry: _Entry) -> Any:
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
