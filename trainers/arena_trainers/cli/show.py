"""The command `arena show`."""

import typer

import arena_envs
from arena_trainers.cli.arguments import read_params
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import GameArgument, ParamOption


def show_game(
    game: GameArgument,
    params: ParamOption = None,
) -> None:
    """Print the page of a game and a prompt of every player.

    Example: arena show kuhn_poker -p num_players=3
    """
    from arena_wrappers.prompts.pages import page_text

    with usage_errors():
        env = arena_envs.make(game, **read_params(params))
    typer.echo(page_text(env.game, [str(env.id)]))
