"""The commands that play and measure: `arena eval` and `arena play`."""

import json
import secrets
from pathlib import Path
from typing import Annotated, Any

import typer

import arena_envs
from arena_envs.game import AnyGame
from arena_trainers.cli.games import Params, read_params
from arena_trainers.cli.policy_options import (
    PolicyOptions,
    show_warnings,
    takes_policy_options,
)
from arena_trainers.cli.usage import (
    print_tables,
    running,
    terminal_width,
    usage_errors,
)
from arena_wrappers import Policy

Opponents = Annotated[
    list[str] | None,
    typer.Option("--against", "-a", metavar="POLICY", help="Opponent; repeatable."),
]
MaxTurns = Annotated[
    int | None,
    typer.Option(min=1, help="Truncate episodes after so many turns of all seats."),
]
Timeout = Annotated[
    float | None, typer.Option(help="Seconds for one call of a policy.")
]


def add_commands(app: typer.Typer) -> None:
    """Adds the commands to the `arena` command."""
    app.command("eval")(takes_policy_options(evaluate))
    app.command("play")(takes_policy_options(play))


def evaluate(
    policy: Annotated[str, typer.Argument(metavar="POLICY")],
    game: Annotated[str | None, typer.Argument(metavar="GAME")] = None,
    against: Opponents = None,
    suite: Annotated[
        str | None, typer.Option(help="Instead of a game: mars, MARSHAL's protocol.")
    ] = None,
    num_episodes: Annotated[
        int | None,
        typer.Option(
            "--episodes",
            "-n",
            help="Episodes per opponent and seat (100; suites 1000).",
        ),
    ] = None,
    seed: Annotated[int, typer.Option(help="Seed of the first episode.")] = 0,
    *,
    how: PolicyOptions,
    baselines: Annotated[bool, typer.Option(help="Let baselines play, too.")] = True,
    timeout: Timeout = None,
    params: Params = None,
    max_turns: MaxTurns = None,
    out: Annotated[
        Path | None, typer.Option(help="Append the episodes to this file.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Play a policy in every seat against opponents, with intervals and baselines.

    A policy is a string: random, first, constant:0, minimax, cfr, mcts:1000, ismcts:100,
    tit_for_tat, hanabi_convention, lm:PATH, api:MODEL; an opponent may also be "self".

    A model that was saved here is prompted and sampled as it was trained: its folder's
    arena_prompt.json says how, and can be edited. Options of this command override it, for
    every policy.

    For example:

    arena eval mcts:100 tic_tac_toe --against minimax --against random

    arena eval lm:runs/seed1/model kuhn_poker --against cfr -n 1000 --json

    arena eval lm:runs/seed1/model --suite mars --out mars.jsonl
    """
    from arena_trainers.evaluate.matches import Evaluation, EvaluationPlan
    from arena_trainers.evaluate.suites import SuitePlan
    from arena_trainers.evaluate.tables import suite_table
    from arena_trainers.evaluate.terminal import evaluation_tables

    plan: EvaluationPlan | SuitePlan
    with usage_errors():
        options: dict[str, Any] = {
            "seed": seed,
            "prompt": how.wrapper,
            "baselines": baselines,
            "timeout": timeout,
            "out": out,
        }
        if (game is None) == (suite is None):
            raise ValueError("want either a GAME or --suite")
        if game is not None:
            env = arena_envs.make(game, **{**read_params(params), **_limit(max_turns)})
            count = 100 if num_episodes is None else num_episodes
            who, *others = how.policies([policy, *(against or ["random"])])
            plan = EvaluationPlan(who, env, others, count, **options)
        elif against or params:
            raise ValueError("want --suite without --against and --param: it has both")
        elif max_turns is not None:
            raise ValueError("want --max-turns with a GAME, got it with --suite")
        else:
            count = 1000 if num_episodes is None else num_episodes
            (who,) = how.policies([policy])
            plan = SuitePlan(suite or "", who, count, **options)
    with running("nothing was measured; episodes are in --out, if it was given") as bar:
        found = plan.run(bar)
    show_warnings(found.warnings)
    if as_json:
        typer.echo(json.dumps(found.to_dict(), indent=1))
    elif isinstance(found, Evaluation):
        print_tables(evaluation_tables(found, terminal_width()))
    else:
        print_tables([suite_table(found)])
        for one in found.evaluations:
            print_tables(evaluation_tables(one, terminal_width()))


def play(
    game: Annotated[str, typer.Argument(metavar="GAME")],
    against: Opponents = None,
    seat: Annotated[int, typer.Option(help="Your seat, from 0.")] = 0,
    hint: Annotated[
        str | None, typer.Option(metavar="POLICY", help="Who answers when you type ?")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(help="Seed of the episode; default: a random one.")
    ] = None,
    *,
    how: PolicyOptions,
    params: Params = None,
    max_turns: MaxTurns = None,
    out: Annotated[
        Path | None, typer.Option(help="Append the episode to this file.")
    ] = None,
) -> None:
    """Play a game yourself, in the terminal.

    Type an action or its number; ? for a hint, "rules" for the rules. One opponent plays
    all other seats, or name one for each in seat order.

    For example:

    arena play tic_tac_toe --against minimax --seat 1

    arena play kuhn_poker --against cfr --hint cfr

    arena play kuhn_poker --against lm:runs/seed1/model

    Opponents are prompted and sampled as in `arena eval`, with the same options.
    """
    from arena_trainers.evaluate.baselines import prepared
    from arena_trainers.evaluate.replies import ReplyCount, given_prompts
    from arena_wrappers import (
        EpisodePlan,
        HumanPolicy,
        PromptOptions,
        PromptWrapper,
        play_plans,
    )
    from arena_wrappers.episode_log import EpisodeLog
    from arena_wrappers.replay import final_state

    with usage_errors():
        env = arena_envs.make(game, **{**read_params(params), **_limit(max_turns)})
        rules = env.game
        if seat not in range(rules.num_players):
            raise ValueError(
                f"want --seat from 0 to {rules.num_players - 1}, got {seat}"
            )
        if seed is not None and seed < 0:
            raise ValueError(f"want --seed of at least 0, got {seed}")
        others = _opponents(how.policies(against or ["random"]), rules)
        wrapper = PromptWrapper(env, **how.wrapper, seats={seat: PromptOptions("bare")})
        person = HumanPolicy(None if hint is None else prepared(hint, rules))
        log = None if out is None else EpisodeLog(out)
    sitting = [*others[:seat], person, *others[seat:]]
    plan = EpisodePlan(
        lambda: wrapper,
        sitting,
        secrets.randbits(32) if seed is None else seed,
        prompts=given_prompts(sitting, how.prompt),
    )
    typer.echo(rules.rules(seat))
    try:
        (episode,) = play_plans([plan], on_error="raise")
    except (EOFError, KeyboardInterrupt):
        typer.echo("\nstopped")
        raise typer.Exit(130) from None
    if log is not None:
        log.append([episode])
    typer.echo(f"\n{rules.observe(final_state(episode, rules), seat)}")
    if episode.forfeited_by is not None:
        last = episode.turns[-1]
        typer.echo(
            f"player_{episode.forfeited_by} forfeits: {last.invalid}: {last.detail}"
        )
    for number, score in enumerate(episode.returns):
        who = "you" if number == seat else sitting[number].name
        typer.echo(f"player_{number} ({who}): {score:g}")
    replies = ReplyCount()
    replies.add(episode)
    show_warnings(replies.warnings())


def _opponents(named: list[Policy | str], rules: AnyGame) -> list[Policy]:
    """Who plays the other seats: one policy for all of them, or one for each."""
    from arena_trainers.evaluate.baselines import prepared

    others = [prepared(policy, rules) for policy in named]
    want = rules.num_players - 1
    if len(others) == 1:
        others *= want
    if len(others) != want:
        raise ValueError(f"want {want} opponents (or one), got {len(others)}")
    return others


def _limit(max_turns: int | None) -> dict[str, int]:
    return {} if max_turns is None else {"max_turns": max_turns}
