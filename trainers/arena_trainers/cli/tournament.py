"""The command `arena bench tournament`."""

import json
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from arena_envs.registration import games as known_games
from arena_trainers.cli.arguments import read_envs, required_folder, split_commas
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import (
    CsvOption,
    LatexOption,
    ParamOption,
    PolicyOptions,
    SeedOption,
    TimeoutOption,
    ValuesOption,
    with_policy_options,
)
from arena_trainers.cli.output import JsonOption, one_form, show, show_warnings
from arena_trainers.cli.progress import running

if TYPE_CHECKING:
    from arena_eval.tournament import Tournament


RESULTS, SUMMARY, PICTURE = "results.jsonl", "summary.json", "matrix.png"


@with_policy_options
def tournament(
    policies: Annotated[list[str], typer.Argument(metavar="POLICY POLICY...")],
    games: Annotated[
        list[str],
        typer.Option(
            "--games",
            "-g",
            metavar="GAME,GAME",
            help="Games to play, by commas; repeatable.",
            callback=split_commas,
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Folder of the results; required."),
    ] = None,
    num_episodes: Annotated[
        int,
        typer.Option("--episodes", "-n", help="Episodes of each pair in each seat."),
    ] = 50,
    seed: SeedOption = 0,
    self_pairs: Annotated[
        bool,
        typer.Option(
            "--self", help="Include self-play (always on in cooperative games)."
        ),
    ] = False,
    *,
    policy_options: PolicyOptions,
    timeout: TimeoutOption = None,
    params: ParamOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    as_latex: LatexOption = False,
    values: ValuesOption = "auto",
) -> None:
    """Rate policies that play against each other.

    They meet in every seat of every game.
    DIR gets results.jsonl (each episode as soon as it ends), summary.json and matrix.png.
    The same command resumes after a stop. Policies are named, prompted and sampled as in
    `arena eval`. Status 0: played; 1: files not written, or a policy gave
    no reply in some episodes, which the same command plays again; 2: refused; 130: stopped.

    For example:

    arena bench tournament random cfr -g kuhn_poker -g leduc_poker --out runs/a

    arena bench tournament random cfr -g kuhn_poker -g nim -p kuhn_poker.num_players=3 --out runs/p

    arena bench tournament lm:a lm:b -g mini_hanabi -n 500 --out runs/b

    arena bench tournament human cfr -g kuhn_poker -n 5 --out runs/c
    """
    from arena_envs.extras import import_extra
    from arena_eval.tournament import TournamentPlan, round_robin

    import_extra("matplotlib", "eval")  # fails before hours of play
    with usage_errors():
        out = required_folder(out)
        form = one_form(json=as_json, csv=as_csv, latex=as_latex)
        plan = TournamentPlan(
            policy_options.policies(_in_order(policies, games)),
            read_envs(games, params),
            num_episodes,
            seed=seed,
            self_pairs=self_pairs,
            prompt=policy_options.wrapper,
            timeout=timeout,
            out=out / RESULTS,
            values=None if values == "none" else values,
        )
    advice = "finished episodes are kept; the same command resumes"
    with running(advice, policies=policies) as bar:
        results = plan.run(bar)
        (out / SUMMARY).write_text(_summary_text(results) + "\n")
        round_robin.draw_matrix(results, out / PICTURE)
    show_warnings(results.warnings)
    tables = partial(round_robin.tournament_tables, results)
    show(form, results.to_dict(), round_robin.records_of(results), tables)


def _in_order(policies: list[str], games: Sequence[str]) -> list[str]:
    """The policies; raises ValueError if games stand where policies should, and the other way round."""
    if all(map(known_games.knows, policies)) and not any(map(known_games.knows, games)):
        raise ValueError(
            f"want policies first and games after --games, got the games {', '.join(policies)} "
            f"first; write: arena bench tournament {' '.join(games)} --games {','.join(policies)}"
        )
    return policies


def _summary_text(results: "Tournament") -> str:
    return json.dumps(results.to_dict(), indent=1, allow_nan=False)
