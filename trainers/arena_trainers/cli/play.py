"""The command `arena play`."""

import re
import secrets
import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Annotated

import typer

from arena_envs.game import AnyGame
from arena_envs.hostile import wrapped
from arena_trainers.cli.arguments import read_env
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import (
    AgainstOption,
    EpisodesOption,
    GameArgument,
    MaxTurnsOption,
    ParamOption,
    PolicyOptions,
    with_policy_options,
)
from arena_trainers.cli.output import show_warnings
from arena_wrappers import (
    Episode,
    EpisodePlan,
    HumanPolicy,
    NoReplyError,
    Policy,
    PromptOptions,
    PromptWrapper,
    play_plans,
)
from arena_wrappers.play import ending
from arena_wrappers.records import EpisodeLog

LOADED = re.compile(r"\b(lm|past|vllm|best_of):")  # in strings of policies


@with_policy_options
def play(
    game: GameArgument,
    against: AgainstOption = None,
    seat: Annotated[int, typer.Option(help="Your seat, from 0.")] = 0,
    hint: Annotated[
        str | None, typer.Option(metavar="POLICY", help="Policy that gives hints.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the episode; random by default.")
    ] = None,
    in_browser: Annotated[
        bool, typer.Option("--web", help="Play in a browser; see arena serve web.")
    ] = False,
    *,
    policy_options: PolicyOptions,
    params: ParamOption = None,
    max_turns: MaxTurnsOption = None,
    out: EpisodesOption = None,
) -> None:
    """Play a game yourself, in the terminal or with --web in a browser.

    Type an action or its number; ? for a hint, "rules" for the rules. One opponent plays
    all other seats, or name one for each in seat order. After a game you may play another,
    with the next seed.

    For example:

    arena play tic_tac_toe --against minimax --seat 1

    arena play kuhn_poker --against cfr --hint cfr

    arena play kuhn_poker --against lm:runs/seed1/model

    Opponents are prompted and sampled as in `arena eval`, with the same options.
    """
    from arena_eval.baselines import prepared
    from arena_eval.exploit import given_prompts

    if in_browser:
        ignored = {
            "--param": params,
            "--max-turns": max_turns is not None,
            "--out": out,
            "--seat": seat,
            "--hint": hint,
            "--seed": seed is not None,
            "--prompt": policy_options.prompt or policy_options.invalid,
            "--sampling": policy_options.sampling,
        }
        _play_in_browser(
            game, against or [], [name for name in ignored if ignored[name]]
        )
        return
    with usage_errors():
        env = read_env(game, params, max_turns)
        rules = env.game
        _check_seat_and_seed(rules, seat, seed)
        opponent_specs = against or ["random"]
        for spec in [*opponent_specs, hint or ""]:
            if LOADED.search(spec):
                typer.echo(f"loading {spec} ...", err=True)
        opponents = _opponents(policy_options.policies(opponent_specs), rules)
        wrapper = PromptWrapper(
            env, **policy_options.wrapper, seats={seat: PromptOptions("bare")}
        )
        person = HumanPolicy(None if hint is None else prepared(hint, rules))
        log = None if out is None else EpisodeLog(out)
        if log is not None:
            log.append([])  # fails before the game
    policies = [*opponents[:seat], person, *opponents[seat:]]
    prompts = given_prompts(policies, policy_options.prompt)
    start = secrets.randbits(32) if seed is None else seed
    while True:
        plan = EpisodePlan(lambda: wrapper, policies, start, prompts=prompts)
        episode = _play_episode(plan)
        if log is not None:
            log.append([episode])
        _print_end(episode, rules, seat, policies)
        if not _wants_another():
            return
        start += 1


def _play_in_browser(
    game: str,
    against: Sequence[str],
    ignored: Sequence[str],
) -> None:
    """Serves the page of a game to this machine; its games end with the command.

    Args:
        game: the game.
        against: policies that the page offers.
        ignored: names of options that the page has no use for.
    """
    from arena_trainers.cli.serve import serve_pages

    with usage_errors():
        if ignored:
            raise ValueError(
                f"want --web without {', '.join(ignored)}: the page plays the games of arena "
                "games, keeps no records, asks for the seat itself, and prompts and samples a policy as its "
                "string says, such as api:MODEL#temperature=0; leave these out"
            )
        id = read_env(game, None, None).id or game
    with TemporaryDirectory() as folder:
        serve_pages(against=against, file=Path(folder, "games.sqlite"), game=id)


def _play_episode(plan: EpisodePlan) -> Episode:
    try:
        (episode,) = play_plans([plan], on_error="raise")
    except KeyboardInterrupt:
        typer.echo("\nstopped")
        raise typer.Exit(130) from None
    except NoReplyError as error:
        typer.echo(f"error: {error}", err=True)
        raise typer.Exit(1) from None
    return episode


def _wants_another() -> bool:
    """Whether the person at the terminal wants another game; no without a terminal."""
    if not sys.stdin.isatty():
        return False
    try:
        return input("\nAnother game? [Y/n] ").strip().lower() in {"", "y", "yes"}
    except (EOFError, KeyboardInterrupt):
        return False


def _check_seat_and_seed(rules: AnyGame, seat: int, seed: int | None) -> None:
    if seat not in range(rules.num_players):
        raise ValueError(f"want --seat from 0 to {rules.num_players - 1}, got {seat}")
    if seed is not None and seed < 0:
        raise ValueError(f"want --seed of at least 0, got {seed}")


def _opponents(policies: list[Policy | str], rules: AnyGame) -> list[Policy]:
    """The policies of the other seats: one for all of them, or one for each."""
    from arena_eval.baselines import prepared

    opponents = [prepared(policy, rules) for policy in policies]
    num_others = rules.num_players - 1
    if len(opponents) == 1:
        opponents *= num_others
    if len(opponents) != num_others:
        raise ValueError(f"want {num_others} opponents (or one), got {len(opponents)}")
    return opponents


def _print_end(
    episode: Episode, rules: AnyGame, seat: int, policies: Sequence[Policy]
) -> None:
    """Prints how the episode ended, and warnings about replies."""
    from arena_eval.result_rows import ReplyCount

    text = ending(episode, rules, seat, policies, reveals=True)
    typer.echo(wrapped(text, sys.stdout))
    replies = ReplyCount()
    replies.add(episode)
    show_warnings(replies.warnings())
