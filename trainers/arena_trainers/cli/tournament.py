"""The command `arena tournament`."""

import json
from typing import TYPE_CHECKING

import typer

from arena_trainers.cli.options import (
    AsCsv,
    AsJson,
    AsLatex,
    FirstSeed,
    Games,
    PairEpisodes,
    Params,
    PolicyNames,
    ResultsFolder,
    SelfPairs,
    Timeout,
    read_envs,
)
from arena_trainers.cli.policy_options import (
    PolicyOptions,
    show_warnings,
    takes_policy_options,
)
from arena_trainers.cli.usage import (
    latex,
    one_form,
    print_csv,
    print_tables,
    running,
    terminal_width,
    usage_errors,
)

if TYPE_CHECKING:
    from arena_trainers.tournament import Tournament

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
    params: Params = None,
    as_json: AsJson = False,
    as_csv: AsCsv = False,
    as_latex: AsLatex = False,
) -> None:
    """Rate policies that play against each other.

    They meet in every seat of every game.
    DIR gets results.jsonl (each episode as soon as it ends), summary.json and matrix.png.
    The same command resumes after a stop. Policies are named, prompted and sampled as in
    `arena eval`. Status 0: played; 1: files not written, or a policy gave
    no reply in some episodes, which the same command plays again; 2: refused; 130: stopped.

    For example:

    arena tournament random cfr -g kuhn_poker -g leduc_poker --out runs/a

    arena tournament random cfr -g kuhn_poker -g nim -p kuhn_poker.num_players=3 --out runs/p

    arena tournament lm:a lm:b -g mini_hanabi -n 500 --out runs/b

    arena tournament human cfr -g kuhn_poker -n 5 --out runs/c
    """
    from arena_trainers.extras import import_extra
    from arena_trainers.tournament import TournamentPlan
    from arena_trainers.tournament.picture import draw_matrix

    import_extra("matplotlib", "eval")  # fails before hours of play
    with usage_errors():
        form = one_form(json=as_json, csv=as_csv, latex=as_latex)
        plan = TournamentPlan(
            how.policies(policies),
            read_envs(games, params),
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
        (out / SUMMARY).write_text(_text(found) + "\n")
        draw_matrix(found, out / PICTURE)
    show_warnings(found.warnings)
    _show(found, form)


def _show(found: "Tournament", form: str) -> None:
    """Prints the results, as tables if `form` is empty."""
    from arena_trainers.tournament.picture import records_of, tournament_tables

    if form == "json":
        typer.echo(_text(found))
    elif form == "csv":
        print_csv(records_of(found))
    elif form == "latex":
        typer.echo("\n\n".join(map(latex, tournament_tables(found))))
    else:
        print_tables(tournament_tables(found, terminal_width()))


def _text(found: "Tournament") -> str:
    return json.dumps(found.to_dict(), indent=1, allow_nan=False)
