"""Values of arguments and options: games, parameters, lists, files to write."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
import yaml

import arena_envs
from arena_envs import GameEnv
from arena_envs.doors import split
from arena_wrappers.policies import check_names_game


def check_out(out: Path, marks: Sequence[bytes], command: str) -> None:
    """Refuses to overwrite anything but what an earlier call wrote.

    Args:
        out: the file to write.
        marks: what files of its kind that are ours hold, the first of them at their start.
        command: what writes such files, such as `arena replay`.

    Raises:
        ValueError: OUT cannot be written, or is a file of somebody else.
    """
    if not out.exists():
        if not out.parent.is_dir():
            raise ValueError(
                f"no folder {str(out.parent)!r}; make it, or give another OUT"
            )
        return
    if not out.is_file():
        raise ValueError(f"want a file to write, got {out}; give another OUT")
    old = out.read_bytes()
    if old and not (old.startswith(marks[0]) and all(mark in old for mark in marks)):
        raise ValueError(
            f"{out} exists and was not written by {command}; give another OUT"
        )


def listed(values: list[str] | None) -> list[str] | None:
    """The items of a repeatable option, in which commas separate items, too."""
    try:
        return values and [item for value in values for item in split(value)]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


def read_env(game: str, params: list[str] | None, max_turns: int | None) -> GameEnv:
    """The environment that a command's GAME, --param and --max-turns name.

    Raises:
        ValueError: there is no such game, or it does not take a parameter.
    """
    check_names_game(game)
    limit = {} if max_turns is None else {"max_turns": max_turns}
    return arena_envs.make(game, **{**read_params(params), **limit})


def wanted_folder(out: Path | None) -> Path:
    """The folder of `--out`; raises ValueError without one."""
    if out is None:
        raise ValueError("want --out DIR, the folder of the results; add --out runs/a")
    return out


def read_envs(
    games: Sequence[str], params: list[str] | None, max_turns: int | None = None
) -> list[GameEnv]:
    """The environments of several games; NAME=VALUE is for all, GAME.NAME=VALUE for one.

    Raises:
        ValueError: as for `read_env`, GAME is none of these, or a game is named twice.
    """
    own: dict[str, list[str]] = {game: [] for game in games}
    for param in params or []:
        name, _, value = param.partition("=")
        game, is_one, name = name.rpartition(".")
        if is_one and game not in own:
            raise ValueError(
                f"want GAME.NAME=VALUE with a game among {', '.join(games)}, got "
                f"{param!r}"
            )
        for one in [game] if is_one else own:
            own[one].append(f"{name}={value}" if is_one else param)
    try:
        found = [read_env(game, own[game], max_turns) for game in games]
    except ValueError as error:
        if not params or len(games) == 1:
            raise
        raise ValueError(f"{error}; GAME.NAME=VALUE sets it in one game") from error
    for number, env in enumerate(found):
        if (env.id, env.game) in [(one.id, one.game) for one in found[:number]]:
            raise ValueError(f"want each game once, got {env.id} twice; leave one out")
    return found


def read_params(params: list[str] | None) -> dict[str, Any]:
    """Parameters of a game; values are read as YAML.

    Raises:
        ValueError: one is not NAME=VALUE.

    >>> read_params(["num_players=3", "preset=chicken"])
    {'num_players': 3, 'preset': 'chicken'}
    """
    named = {}
    for param in params or []:
        name, found, value = param.partition("=")
        if not found or name == "id":  # `arena_envs.make` has a parameter `id`
            raise ValueError(f"want a parameter as NAME=VALUE, got {param!r}")
        try:
            named[name] = yaml.safe_load(value)
        except yaml.YAMLError as error:
            raise ValueError(
                f"want YAML as value of {name!r}, got {value!r}"
            ) from error
    return named
