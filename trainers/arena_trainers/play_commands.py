"""The commands that play and measure: `arena eval` and `arena play`."""

import json
import secrets
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

import arena_envs
from arena_trainers.game_commands import Params, read_params
from arena_trainers.usage import usage_errors

MIN_WIDTH = 120  # columns of a table that goes to a file

Opponents = Annotated[
    list[str] | None,
    typer.Option("--against", "-a", metavar="POLICY", help="Opponent; repeatable."),
]


def add_commands(app: typer.Typer) -> None:
    """Adds the commands to the `arena` command."""
    app.command("eval")(evaluate)
    app.command("play")(play)


def evaluate(
    policy: Annotated[str, typer.Argument(metavar="POLICY")],
    game: Annotated[str, typer.Argument(metavar="GAME")],
    against: Opponents = None,
    num_episodes: Annotated[
        int, typer.Option("--episodes", "-n", help="Per opponent and seat.")
    ] = 100,
    seed: Annotated[int, typer.Option(help="Of the first episode.")] = 0,
    reply_format: Annotated[str, typer.Option(help="Of the prompts.")] = "answer",
    baselines: Annotated[bool, typer.Option(help="Let baselines play, too.")] = True,
    timeout: Annotated[
        float | None, typer.Option(help="Seconds for one call of a policy.")
    ] = None,
    params: Params = None,
    out: Annotated[
        Path | None, typer.Option(help="Append the episodes to this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Play a policy in every seat against opponents, with intervals and baselines.

    A policy is a string: random, first, constant:0, minimax, cfr, mcts:1000, ismcts:100,
    tit_for_tat, hanabi_convention, lm:PATH, api:MODEL; an opponent may also be "self".

    Examples:
      arena eval mcts:100 tic_tac_toe --against minimax --against random
      arena eval lm:runs/seed1/model kuhn_poker --against cfr -n 1000 --json
    """
    from arena_trainers import evaluate as evaluation
    from arena_trainers.evaluate.tables import as_table

    with usage_errors():
        rules: Any = game
        if params:
            rules = arena_envs.make_game(game, **read_params(params))
        found = evaluation.evaluate(
            policy,
            rules,
            against or ["random"],
            num_episodes,
            seed=seed,
            prompt={"reply_format": reply_format},
            baselines=baselines,
            timeout=timeout,
            out=out,
        )
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=1))
    else:
        console = Console()
        wide = console.is_terminal or console.width > MIN_WIDTH
        (console if wide else Console(width=MIN_WIDTH)).print(as_table(found))


def play(
    game: Annotated[str, typer.Argument(metavar="GAME")],
    against: Opponents = None,
    seat: Annotated[int, typer.Option(help="Yours.")] = 0,
    hint: Annotated[
        str | None, typer.Option(metavar="POLICY", help="Who answers when you type ?")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the episode.")] = None,
    params: Params = None,
    out: Annotated[
        Path | None, typer.Option(help="Append the episode to this file.")
    ] = None,
) -> None:
    """Play a game yourself, in the terminal.

    Type an action or its number; ? for a hint, "rules" for the rules. One opponent plays
    all other seats, or name one for each in seat order.

    Examples:
      arena play tic_tac_toe --against minimax --seat 1
      arena play kuhn_poker --against cfr --hint cfr
    """
    from arena_trainers.evaluate.baselines import prepared
    from arena_wrappers import HumanPolicy, PromptWrapper
    from arena_wrappers import play as play_episodes
    from arena_wrappers.episode_log import EpisodeLog
    from arena_wrappers.replay import final_state

    with usage_errors():
        env = arena_envs.make(game, **read_params(params))
        rules = env.game
        if seat not in range(rules.num_players):
            raise ValueError(
                f"want --seat from 0 to {rules.num_players - 1}, got {seat}"
            )
        named = against or ["random"]
        others = [prepared(name, rules) for name in named]
        if len(others) == 1:
            others *= rules.num_players - 1
        if len(others) != rules.num_players - 1:
            want = rules.num_players - 1
            raise ValueError(f"want {want} opponents (or one), got {len(others)}")
        person = HumanPolicy(None if hint is None else prepared(hint, rules))
        log = None if out is None else EpisodeLog(out)
    sitting = [*others[:seat], person, *others[seat:]]
    wrapper = PromptWrapper(env, reply_format="bare")
    typer.echo(rules.rules(seat))
    try:
        (episode,) = play_episodes(
            lambda: wrapper,
            sitting,
            [secrets.randbits(32) if seed is None else seed],
            on_error="raise",
        )
    except (EOFError, KeyboardInterrupt):
        typer.echo("\nstopped")
        raise typer.Exit(130) from None
    if log is not None:
        log.append([episode])
    typer.echo(f"\n{rules.observe(final_state(episode, rules), seat)}")
    for number, score in enumerate(episode.returns):
        who = "you" if number == seat else sitting[number].name
        typer.echo(f"player_{number} ({who}): {score:g}")
