"""The command `arena tournament`."""

import json

import typer

from arena_trainers.cli.options import (
    AsJson,
    FirstSeed,
    Games,
    PairEpisodes,
    PolicyNames,
    ResultsFolder,
    SelfPairs,
    Timeout,
)
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
    policies: PolicyNames,
    games: Games,
    out: ResultsFolder,
    num_episodes: PairEpisodes = 50,
    seed: FirstSeed = 0,
    self_pairs: SelfPairs = False,
    *,
    how: PolicyOptions,
    timeout: Timeout = None,
    as_json: AsJson = False,
) -> None:
    """Rate policies that play against each other.

    They meet in every seat of every game.
    DIR gets results.jsonl (each episode as soon as it ends), summary.json and matrix.png.
    The same command resumes after a stop. Policies are named, prompted and sampled as in
    `arena eval`. Status 0: played; 1: files not written, or a policy gave
    no reply in some episodes, which the same command plays again; 2: refused; 130: stopped.

    For example:

    arena tournament random cfr -g kuhn_poker -g leduc_poker --out runs/a

    arena tournament lm:a lm:b -g mini_hanabi -n 500 --out runs/b

    arena tournament human cfr -g kuhn_poker -n 5 --out runs/c
    """
    from arena_trainers.extras import import_extra
    from arena_trainers.tournament import TournamentPlan
    from arena_trainers.tournament.picture import draw_matrix, tournament_tables

    import_extra("matplotlib", "eval")  # fails before hours of play
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
    advice = "finished episodes are kept; the same command resumes"
    with running(advice, policies=policies) as bar:
        found = plan.run(bar)
        text = json.dumps(found.to_dict(), indent=1, allow_nan=False)
        (out / SUMMARY).write_text(text + "\n")
        draw_matrix(found, out / PICTURE)
    show_warnings(found.warnings)
    if as_json:
        typer.echo(text)
    else:
        print_tables(tournament_tables(found, terminal_width()))
