"""Ids of games: registered as strings, imported when they are made."""

import inspect
import re
import sys
import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, cast

from arena_envs.catalogue import GAMES, CatalogueFacts, Split
from arena_envs.checks import did_you_mean, install_advice
from arena_envs.game import AnyGame, Information, Kind
from arena_envs.nodes import Content
from arena_envs.registry import (
    Expression,
    Registry,
    expression,
    imported,
    installed,
)
from arena_envs.trust import require_operator_of_code

if TYPE_CHECKING:
    from arena_envs.env import GameEnv

# rules play without them
_gymnasium, _pettingzoo = (
    import_module(name) if find_spec(name) else cast(Any, None)
    for name in ("gymnasium", "pettingzoo")
)
METHODS = ("initial_state", "current_player", "legal_actions", "apply", "observe")


@dataclass(frozen=True)
class Entry:
    """A game in the registry.

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
    facts: CatalogueFacts | None = None
    plugin: str | None = None
    has_id: bool = True

    def game_class(self) -> Any:
        """The class of the game.

        A class without an id is not called here, because its name may come from a file that a
        stranger wrote.

        Raises:
            ValueError: a game without an id has no such module or class.
            ImportError: the class cannot be imported; says what to install.
        """
        if not self.has_id:
            requirement = "a game as 'module:Class'"
            game_class = imported(self.id, requirement, "game")
            if isinstance(game_class, type) and all(
                hasattr(game_class, m) for m in METHODS
            ):
                return game_class
            raise ValueError(
                f"want {requirement}, got {self.id!r}: {game_class!r:.80}, no game"
            )
        module, _, attribute = self.entry_point.partition(":")
        try:
            return getattr(import_module(module), attribute)
        except Exception as error:  # a stranger's module may raise anything at import
            todo = ""
            if self.extra:
                todo = f"; {install_advice(self.extra)}"
            elif self.plugin is None:
                raise
            origin = f" of plug-in {self.plugin!r}" if self.plugin else ""
            raise ImportError(
                f"game {self.id!r}{origin} cannot be loaded from {self.entry_point!r}: "
                f"{type(error).__name__}: {error}{todo}"
            ) from error


@dataclass(frozen=True)
class GameInfo:
    """The facts of a registered game, as `game_infos()` lists them.

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


# warnings about plug-ins that were given; each is given once
_warned: dict[str | tuple[str, type[Warning], int], int] = {}
_entries: dict[str, Entry] = {}


def register(
    id: str,
    entry_point: str,
    *,
    split: Split = "train",
    extra: str | None = None,
    facts: CatalogueFacts | None = None,
    plugin: str | None = None,
    **params: Any,
) -> None:
    """Makes a game known here, to PettingZoo and (one seat of it) to Gymnasium.

    Both registries, where they are installed, get two spellings: `arena/kuhn_poker-v0` and `arena/KuhnPoker-v0`.

    Args:
        id: `"snake_name-vN"`.
        entry_point: `"module:attribute"` of the game's class, imported when first made.
        split: whether the game is for training or held out for evaluation.
        extra: the extra of this distribution that the game needs.
        facts: kind, number of players and information, such as `("mixed", 2, "perfect")`.
            `game_infos()` lists them if the game's extra is not installed.
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
    _entries[id] = Entry(id, entry_point, params, split, extra, facts, plugin)
    base, version = id.rsplit("-", 1)
    in_camel_case = "".join(word.capitalize() for word in base.split("_"))
    for name in (id, f"{in_camel_case}-{version}"):
        if hasattr(_pettingzoo, "register"):  # since 1.27
            for kind, maker in (("aec", "make"), ("parallel", "make_parallel")):
                _pettingzoo.register(
                    kind,
                    f"arena/{name}",
                    f"arena_envs.registration:{maker}",
                    kwargs={"id": id},
                )
        if _gymnasium is not None:
            _gymnasium.register(
                f"arena/{name}",
                "arena_wrappers.play:make_seat_env",
                kwargs={"game": id},  # `make_vec` has an argument `id` of its own
            )


def make_parallel(id: str, **options: Any) -> Any:
    """PettingZoo's parallel environment of a game in which all agents choose at once.

    Args:
        id: as for `make`.
        **options: those of `make`.

    Raises:
        ValueError: agents move one after the other, or as for `make`.
    """
    env = make(id, **options)
    if not env.metadata.get("is_parallelizable"):
        raise ValueError(
            f"want a game in which all agents choose at once, got {id}, in which they move one "
            f'after the other; write pettingzoo.make("aec", "arena/{id}")'
        )
    from pettingzoo.utils import aec_to_parallel

    return aec_to_parallel(env)


def register_plugins() -> None:
    """Registers the games of other distributions (entry-point group `arena.games`)."""
    for point in installed("arena.games", tuple(sys.path)):
        plugin = point.dist.name if point.dist else "?"
        id = point.name if "-v" in point.name else f"{point.name}-v0"
        try:
            register(id, point.value, plugin=plugin)
        except ValueError as error:
            _warn(plugin, f"game {point.name!r} of {plugin} is skipped: {error}")


_HERE = "arena_envs.transforms"
transforms: Registry[AnyGame] = Registry(
    "transform",
    "arena.transforms",
    {
        "disguise": f"{_HERE}.built_in:Disguise",
        "goal": f"{_HERE}.built_in:Goal",
        "match": f"{_HERE}.match:MatchOfGames",
        "labels": f"{_HERE}.labels:Labels",
        "misere": f"{_HERE}.built_in:Misere",
        "start": f"{_HERE}.built_in:StartFromPositions",
        "vanish": f"{_HERE}.built_in:Vanish",
    },
    reserved=("game",),
    kit="arena_envs.testing:check_game",
    trusted={"goal": "import a function", "start": "open a file"},
)


class _Games(Registry[AnyGame]):
    """The registry of games, whose ids have versions.

    A transform of a game has an id, too: the string without the parameters of the inner game.
    """

    def names(self) -> list[str]:
        return sorted(_entries)

    def read(self, spec: str | Mapping[str, Any]) -> Expression:
        parts = expression(spec)
        if parts.inner and not self._is_name(parts.name):
            (game, *more), outer = parts.inner, transforms.read(_outer(parts))
            if more:
                raise ValueError(f"want one game in {spec!r:.200}, got {parts.inner}")
            inner = self.read(game)
            options = [f"{key}={value}" for key, value in outer.options.items()]
            argument = "" if outer.argument is None else f":{outer.argument}"
            inside = ", ".join([inner.name, *options])
            return Expression(
                f"{outer.name}{argument}({inside})", None, (), inner.options
            )
        path = (
            parts.name if parts.argument is None else f"{parts.name}:{parts.argument}"
        )
        entry = _find(path)
        if not entry.has_id:
            require_operator_of_code("game", entry.id)
        return Expression(entry.id, None, parts.inner, parts.options)

    def make(self, spec: str | Mapping[str, Any], /, **params: Any) -> AnyGame:
        parts = self.read(spec)
        params = {**parts.options, **params}
        transform = expression(parts.name)
        if not transform.inner:
            if parts.inner:
                raise ValueError(
                    f"want {parts.name} without a game inside, got {spec!r:.200}"
                )
            return super().make({parts.name: params})
        inner = self.make(transform.inner[0], **params)
        return transforms.make(_outer(transform), game=inner)

    def _is_name(self, name: str) -> bool:
        try:
            return _find(name).has_id
        except ValueError:
            return False

    def find(self, name: str) -> Any:
        entry = _find(name)
        return partial(entry.game_class(), **entry.params)


def _outer(parts: Expression) -> dict[str, Any]:
    """A transform without its game."""
    argument = "" if parts.argument is None else f":{parts.argument}"
    return {f"{parts.name}{argument}": parts.options}


games = _Games(
    "game", "arena.games", {}, kit="arena_envs.testing:check_game", noun="parameter"
)


def make_game(id: str, **params: Any) -> AnyGame:
    """The rules of a game.

    Args:
        id: `"kuhn_poker-v0"`, `"kuhn_poker"` (the newest version) or either with
            `"arena/"` before it; or `"module:Class"` of a game that has no id. Parameters may
            follow, as in `"kuhn_poker(num_players=3)"`.
        **params: parameters of the game; its page lists them.

    Raises:
        ValueError: unknown id, class or parameter, or a parameter out of range.
        ImportError: the game cannot be imported; says what to install.
    """
    if not isinstance(id, str):
        raise ValueError(f"want the id of a game as a string, got {id!r}")
    return games.make(id, **params)


def make(
    id: str,
    *,
    max_turns: int | None = None,
    render_mode: str | None = None,
    observation: Content = "all",
    **params: Any,
) -> "GameEnv":
    """A PettingZoo AEC environment of a game.

    Args:
        id: as for `make_game`.
        max_turns: truncates episodes after so many turns of all agents together.
        render_mode: None, `"ansi"`, `"human"` or `"rgb_array"`; see `GameEnv`.
        observation: `"all"`, `"features"` or `"text"`; see `GameEnv`.
        **params: parameters of the game.

    Raises:
        ValueError: as for `make_game` and `GameEnv`.
        ImportError: as for `make_game`.

    >>> env = make("kuhn_poker", num_players=3)
    >>> env.reset(seed=0)
    >>> env.observe("player_0")["text"]
    'You are player_0 and hold K. Actions: none. Your turn.'
    """
    from arena_envs.env import GameEnv  # rules do without PettingZoo

    game = make_game(id, **params)
    return GameEnv(
        game,
        id=games.read(id).name,
        max_turns=max_turns,
        render_mode=render_mode,
        observation=observation,
    )


def game_infos(ids: Iterable[str] | None = None) -> list[GameInfo]:
    """The facts of registered games, sorted by id.

    Leaves out a game of a plug-in that cannot be loaded, with a warning.

    Args:
        ids: of the games, by default of all.
    """
    infos = []
    for id in sorted(_entries if ids is None else ids):
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


def missing_games() -> dict[str, str]:
    """The extra of each registered game that cannot be imported without it, by id."""
    return {
        id: entry.extra
        for id, entry in sorted(_entries.items())
        if entry.extra and not _is_importable(entry)
    }


def _is_importable(entry: Entry) -> bool:
    """Whether the game can be imported; if its extra is named as its package, imports neither."""
    module = entry.entry_point.partition(":")[0]
    if entry.extra and find_spec(entry.extra) and find_spec(module):
        return True
    try:
        entry.game_class()
    except ImportError:
        return False
    return True


def _info(entry: Entry) -> GameInfo:
    facts = entry.facts
    if not facts:
        game = games.make(entry.id)
        facts = game.kind, game.num_players, game.information
    return GameInfo(entry.id, *facts, entry.split, entry.extra)


def _find(id: str) -> Entry:
    name = id.removeprefix("arena/")
    if ":" in name:
        return Entry(name, name, has_id=False)
    if name in _entries:
        return _entries[name]
    base = re.sub(r"-v\d+$", "", name)
    versions = [
        entry_id for entry_id in _entries if entry_id.rsplit("-v", 1)[0] == base
    ]
    newest = max(versions, key=lambda known: int(known.rsplit("-v", 1)[1]), default="")
    if newest and base == name:
        return _entries[newest]
    if newest:
        raise ValueError(
            f"unknown game {id!r}; did you mean {newest!r}? Each version has its own rules or "
            "texts; the page of the game tells their history"
        )
    if name.endswith(".py"):
        module = name.removesuffix(".py").replace("/", ".").lstrip(".")
        raise ValueError(
            f"want the id of a game or module:Class, got the file {name!r}; write "
            f"{module}:CLASS with the name of its class"
        )
    hint = did_you_mean(name, sorted(_entries))
    module_hint = "" if hint.endswith("?") else "; a class of your own is module:Class"
    raise ValueError(f"unknown game {id!r}; {hint}{module_hint}")


def game_parameters(id: str) -> list[str] | None:
    """The names of a game's parameters; None if it takes any.

    Args:
        id: as for `make_game`.

    Raises:
        ValueError: unknown id or class.
        ImportError: the game cannot be imported; says what to install.
    """
    if inner := expression(id).inner:
        return game_parameters(inner[0])
    parameters = inspect.signature(_find(id).game_class()).parameters
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    return None if takes_any else list(parameters)


def _warn(plugin: str, message: str) -> None:
    """Warns of a plug-in in one line, without a line of our code, which is not at fault."""
    warnings.warn_explicit(
        message, UserWarning, f"<plug-in {plugin}>", 1, registry=_warned
    )


for _id, (_game, _params, _split, _extra, _facts, _) in GAMES.items():
    _options: Any = {"split": _split, "extra": _extra, "facts": _facts, **_params}
    register(_id, f"arena_envs.games.{_game}", **_options)
register_plugins()
