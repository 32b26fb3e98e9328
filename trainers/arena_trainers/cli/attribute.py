"""The command `arena bench attribute`."""

from typing import Annotated

import typer

from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import (
    CsvOption,
    GameArgument,
    LatexOption,
    PolicyArgument,
    PolicyOptions,
    SeedOption,
    TimeoutOption,
    with_policy_options,
)
from arena_trainers.cli.output import JsonOption, one_form, show
from arena_trainers.cli.progress import running


@with_policy_options
def attribute(
    policy: PolicyArgument,
    game: GameArgument,
    base: Annotated[
        str, typer.Option(metavar="POLICY", help="Who plays instead.")
    ] = "random",
    against: Annotated[
        str,
        typer.Option(
            "--against",
            "-a",
            metavar="POLICY",
            help="Who plays the seats that are not of the team.",
        ),
    ] = "random",
    seats: Annotated[
        list[int] | None,
        typer.Option(
            "--seat", help="Seat of the team; repeatable. [default: the team of seat 0]"
        ),
    ] = None,
    permutations: Annotated[
        int | None, typer.Option(help="Sample so many orders for each seed.", min=1)
    ] = None,
    num_episodes: Annotated[int, typer.Option("--episodes", "-n", help="Seeds.")] = 100,
    seed: SeedOption = 0,
    *,
    policy_options: PolicyOptions,
    timeout: TimeoutOption = None,
    as_json: JsonOption = False,
    as_csv: CsvOption = False,
    as_latex: LatexOption = False,
) -> None:
    """Attribute the difference of two policies to seats, by Shapley values.

    The values sum to the return of a team of POLICY less that of a team of the base, on the same
    seeds. Up to 8 seats all coalitions play; with more, --permutations samples orders of seats.
    Seeds with a lost episode are left out, and the status is 1.

    For example:

    arena bench attribute lm:runs/a/model "questions(protocol=debate)" --base lm:runs/a/start
    """
    from arena_eval.comparison import attributed, seats_table
    from arena_eval.matches import seeds_of

    specs = [policy, base, against]
    with usage_errors(), running("nothing was kept", policies=specs) as bar:
        form = one_form(json=as_json, csv=as_csv, latex=as_latex)
        rows, num_lost = attributed(
            policies=policy_options.policies(specs),
            game=game,
            seeds=seeds_of(seed, num_episodes),
            seats=seats,
            num_permutations=permutations,
            prompt=policy_options.wrapper,
            timeout=timeout,
            progress=bar,
        )
    method = f"sampled: {permutations} orders a seed" if permutations else "exact"
    title = f"{policy} in place of {base} in {game}: Shapley values, {method}"
    document = {"method": method, "lost": num_lost, "seats": rows}
    show(form, document, rows, lambda _: [seats_table(rows, title)])
    if num_lost:
        typer.echo(f"error: {num_lost} episodes are lost; play them again", err=True)
        raise typer.Exit(1)
