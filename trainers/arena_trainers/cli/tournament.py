"""The command `arena tournament`."""

import json
from pathlib import Path
from typing import Annotated

import typer

from arena_trainers.cli.play import Timeout
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

RESULTS, SUMMARY, PICTURE = "results.jsonl", "summary.json", "matrix.png"


def add_commands(app: typer.Typer) -> None:
    """Adds the command to the `arena` command."""
    app.command("tournament")(takes_policy_options(tournament))


def tournament(
    policies: Annotated[list[str], typer.Argument(metavar="POLICY POLICY...")],
    games: Annotated[
        list[str], typer.Option("--game", "-g", metavar="GAME", help="Repeatable.")
    ],
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where the results go.")],
    num_episodes: Annotated[
        int,
        typer.Option("--episodes", "-n", help="Episodes of every pair in every seat."),
    ] = 50,
    seed: Annotated[int, typer.Option(help="Seed of the first episode.")] = 0,
    self_pairs: Annotated[
        bool,
        typer.Option(
            "--self", help="Include self-play (always on in cooperative games)."
        ),
    ] = False,
    *,
    how: PolicyOptions,
    timeout: Timeout = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON document.")] = False,
) -> None:
    """Let policies play each other in every seat of every game; rate them.

    DIR gets results.jsonl (every episode, as soon as it is over), summary.json and
    matrix.png. The same command goes on where it was stopped. Policies are named as in
    `arena eval`, and prompted and sampled likewise. Status 0: played; 1: could not be written; 2: refused; 130: stopped.

    For example:

    arena tournament random cfr -g kuhn_poker -g leduc_poker --out runs/a

    arena tournament lm:a lm:b -g mini_hanabi -n 500 --out runs/b
    """
    from arena_trainers.extras import import_extra
    from arena_trainers.tournament import TournamentPlan
    from arena_trainers.tournament.picture import draw_matrix, tournament_tables

    import_extra("matplotlib", "eval")  # before hours of play, not after
    with usage_errors():
        plan = TournamentPlan(
            how.policies(policies),
            games,
            num_episodes,
            seed=seed,
            self_pairs=self_pairs,
            prompt=how.wrapper,
            timeout=timeout,
            out=out / RESULTS,
        )
    with running("what was played is kept, and the same command goes on") as bar:
        found = plan.run(bar)
        text = json.dumps(found.to_dict(), indent=1, allow_nan=False)
        (out / SUMMARY).write_text(text + "\n")
        draw_matrix(found, out / PICTURE)
    show_warnings(found.warnings)
    if as_json:
        typer.echo(text)
    else:
        print_tables(tournament_tables(found, terminal_width()))
