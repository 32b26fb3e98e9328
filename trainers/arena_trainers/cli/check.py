"""The command `arena check`."""

import warnings
from typing import Annotated

import typer

import arena_envs
from arena_trainers.cli.arguments import read_params
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import GameArgument, ParamOption


def check(
    game: GameArgument,
    params: ParamOption = None,
    num_episodes: Annotated[
        int, typer.Option("--episodes", "-n", help="Most random episodes.", min=1)
    ] = 40,
) -> None:
    """Check that a game obeys the contract of games.

    GAME is an id, or module:Class for a game of your own. If the game breaks a rule, it
    prints the first broken rule and exits with status 1. It warns if the docstring of your
    module is not a page.

    Example: arena check my_package.my_game:MyGame -p size=3
    """
    from arena_envs.testing import OPT_OUT, BrokenPromise, check_game

    with usage_errors():
        rules = arena_envs.make_game(game, **read_params(params))
    with warnings.catch_warnings(record=True) as caught:
        try:
            check_game(rules, num_episodes=num_episodes)
        except BrokenPromise as error:
            typer.echo(str(error), err=True)
            raise typer.Exit(1) from None
    for warning in caught:
        text = str(warning.message).removesuffix(OPT_OUT)  # advice for Python only
        typer.echo(f"warning: {text}", err=True)
    typer.echo(f"{rules!r} keeps the contract")
