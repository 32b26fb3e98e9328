"""Declarations of the arguments and options of commands, and how a game's are read."""

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer
import yaml

import arena_envs
from arena_envs import GameEnv
from arena_envs.doors import split

GameName = Annotated[str, typer.Argument(metavar="GAME")]
OptionalGame = Annotated[str | None, typer.Argument(metavar="GAME")]
PolicyName = Annotated[str, typer.Argument(metavar="POLICY")]
PolicyNames = Annotated[list[str], typer.Argument(metavar="POLICY POLICY...")]

Params = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "-p",
        metavar="NAME=VALUE",
        help="Game parameter; repeatable. With several games also GAME.NAME=VALUE.",
    ),
]
MaxTurns = Annotated[
    int | None,
    typer.Option(min=1, help="Truncate episodes after this many turns of all seats."),
]


def listed(values: list[str] | None) -> list[str] | None:
    """The items of a repeatable option, in which commas separate items, too."""
    try:
        return values and [item for value in values for item in split(value)]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from None


Games = Annotated[
    list[str],
    typer.Option(
        *("--games", "-g"),
        metavar="GAME,GAME",
        callback=listed,
        help="Games to play, by commas; repeatable.",
    ),
]
MoreGames = Annotated[
    list[str] | None,
    typer.Option(
        *("--games", "-g"),
        metavar="GAME,GAME",
        callback=listed,
        help="Games by commas, in place of GAME; repeatable.",
    ),
]

Opponents = Annotated[
    list[str] | None,
    typer.Option("--against", "-a", metavar="POLICY", help="Opponent; repeatable."),
]
Suite = Annotated[
    str | None,
    typer.Option(help="In place of GAME: mars, MARSHAL's protocol."),
]
Baselines = Annotated[bool, typer.Option(help="Also evaluate the game's baselines.")]
SelfPairs = Annotated[
    bool,
    typer.Option("--self", help="Include self-play (always on in cooperative games)."),
]
Timeout = Annotated[
    float | None, typer.Option(help="Longest call of a policy, in seconds.")
]
Hint = Annotated[
    str | None, typer.Option(metavar="POLICY", help="Policy that gives hints.")
]

EvalEpisodes = Annotated[
    int | None,
    typer.Option(
        "--episodes", "-n", help="Episodes per opponent and seat (100; suites 1000)."
    ),
]
PairEpisodes = Annotated[
    int,
    typer.Option("--episodes", "-n", help="Episodes of each pair in each seat."),
]
FirstSeed = Annotated[int, typer.Option(help="Seed of the first episode.")]
EpisodeSeed = Annotated[
    int | None, typer.Option(help="Seed of the episode; random by default.")
]
Seat = Annotated[int, typer.Option(help="Your seat, from 0.")]

EpisodesFile = Annotated[
    Path | None, typer.Option(help="Append the episodes to this file.")
]
PolicyFile = Annotated[
    Path | None, typer.Option(help="Write the policy to this JSON file.")
]
ResultsFolder = Annotated[
    Path, typer.Option(metavar="DIR", help="Folder of the results.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON document.")]
AsCsv = Annotated[bool, typer.Option("--csv", help="Print CSV, a line for each row.")]
AsLatex = Annotated[
    bool, typer.Option("--latex", help="Print tables for LaTeX, with booktabs.")
]

Solver = Annotated[str, typer.Option(help="auto, minimax, lp, cfr, cfr+ or joint.")]
Iterations = Annotated[int, typer.Option(min=1, help="Iterations of CFR.")]
MaxStates = Annotated[
    int, typer.Option(min=1, help="Refuse games with more states than this.")
]


def read_env(game: str, params: list[str] | None, max_turns: int | None) -> GameEnv:
    """The environment that a command's GAME, --param and --max-turns name.

    Raises:
        ValueError: there is no such game, or it does not take a parameter.
    """
    limit = {} if max_turns is None else {"max_turns": max_turns}
    return arena_envs.make(game, **{**read_params(params), **limit})


def read_envs(
    games: Sequence[str], params: list[str] | None, max_turns: int | None = None
) -> list[GameEnv]:
    """The environments of several games; NAME=VALUE is for all, GAME.NAME=VALUE for one.

    Raises:
        ValueError: as for `read_env`, or GAME is none of these.
    """
    own: dict[str, list[str]] = {game: [] for game in games}
    for param in params or []:
        name, _, value = param.partition("=")
        game, is_one, name = name.rpartition(".")
        if is_one and game not in own:
            raise ValueError(
                f"want GAME.NAME=VALUE with a game among {', '.join(games)}, got {param!r}"
            )
        for one in [game] if is_one else own:
            own[one].append(f"{name}={value}" if is_one else param)
    try:
        return [read_env(game, own[game], max_turns) for game in games]
    except ValueError as error:
        if not params or len(games) == 1:
            raise
        raise ValueError(f"{error}; GAME.NAME=VALUE sets it in one game") from error


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
