"""Values of arguments and options: games, parameters, lists, files to write."""

import http.client
import json
import re
import urllib.request
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer

import arena_envs
from arena_envs import GameEnv, yaml_text
from arena_envs.registry import split
from arena_wrappers.policies import check_names_game
from arena_wrappers.policies.by_name import policies

MAX_LISTING = 1_000_000  # bytes of an endpoint's list of models


def as_policy_string(text: str) -> str:
    """The string of a policy; a folder or an id of the hub means `lm:`, a URL `api:`.

    Raises:
        ValueError: a URL serves no model or several, or does not answer.

    >>> as_policy_string("Qwen/Qwen3-0.6B"), as_policy_string("mcts:100")
    ('lm:Qwen/Qwen3-0.6B', 'mcts:100')
    """
    if re.match("https?://", text):
        url = text.rstrip("/")
        return f"api:{_only_model(url)}@{url}"
    if Path(text).is_dir() and not policies.knows(text):
        model = Path(text, "model")  # of a run
        return f"lm:{model if model.is_dir() else text}"
    if re.fullmatch(r"[\w.-]+/[\w.-]+", text):
        return f"lm:{text}"
    return text


def _only_model(url: str) -> str:
    """The name of the only model behind an endpoint."""
    advice = f"write api:MODEL@{url}"
    try:
        with urllib.request.urlopen(f"{url}/models", timeout=10) as answer:
            listing = json.loads(answer.read(MAX_LISTING))
        models = [str(model["id"]) for model in listing["data"]]
    except (
        http.client.HTTPException,
        OSError,
        ValueError,
        KeyError,
        TypeError,
        RecursionError,
    ) as error:
        raise ValueError(
            f"want the name of a model, and {url}/models does not list any ({error}); {advice}"
        ) from error
    if len(models) != 1:
        raise ValueError(
            f"want the name of a model, and {url} serves {len(models)}: "
            f"{', '.join(models):.200}; {advice}"
        )
    if not re.fullmatch(r"[\w.:/+-]{1,200}", models[0]):  # "@" and "#" would redirect
        raise ValueError(
            f"want a model with a plain name, and {url} serves {models[0]!r:.200}; {advice}"
        )
    return models[0]


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
    content = out.read_bytes()
    is_ours = content.startswith(marks[0]) and all(mark in content for mark in marks)
    if content and not is_ours:
        raise ValueError(
            f"{out} exists and was not written by {command}; give another OUT"
        )


def split_commas(values: list[str] | None) -> list[str] | None:
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
    options = read_params(params)
    if max_turns is not None:
        options["max_turns"] = max_turns
    return arena_envs.make(game, **options)


def required_folder(out: Path | None) -> Path:
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
    params_of: dict[str, list[str]] = {game: [] for game in games}
    for param in params or []:
        name, _, value = param.partition("=")
        game, dot, name = name.rpartition(".")
        if not dot:
            for game_params in params_of.values():
                game_params.append(param)
        elif game in params_of:
            params_of[game].append(f"{name}={value}")
        else:
            raise ValueError(
                f"want GAME.NAME=VALUE with a game among {', '.join(games)}, got "
                f"{param!r}"
            )
    try:
        envs = [read_env(game, params_of[game], max_turns) for game in games]
    except ValueError as error:
        if not params or len(games) == 1:
            raise
        raise ValueError(f"{error}; GAME.NAME=VALUE sets it in one game") from error
    for number, env in enumerate(envs):
        if any(env.id == e.id and env.game == e.game for e in envs[:number]):
            raise ValueError(f"want each game once, got {env.id} twice; leave one out")
    return envs


def read_params(params: list[str] | None) -> dict[str, Any]:
    """Parameters of a game; values are read as YAML.

    Raises:
        ValueError: one is not NAME=VALUE.

    >>> read_params(["num_players=3", "preset=chicken"])
    {'num_players': 3, 'preset': 'chicken'}
    """
    values = {}
    for param in params or []:
        name, equals, value = param.partition("=")
        if not equals or name == "id":  # `arena_envs.make` has a parameter `id`
            raise ValueError(f"want a parameter as NAME=VALUE, got {param!r}")
        try:
            values[name] = yaml_text.read(value)
        except ValueError as error:
            raise ValueError(
                f"want YAML as value of {name!r}, got {value!r:.200}: {error}"
            ) from error
    return values
