"""The commands `arena credit check` and `arena credit suggest`."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from arena_envs import make_game
from arena_envs.trust import no_code
from arena_trainers.cli.arguments import split_commas
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import AllowCodeOption
from arena_trainers.cli.output import print_tables

if TYPE_CHECKING:
    from arena_credit.proofs.findings import Verdict
    from arena_credit.testing import EstimatorFindings


NUM_SAMPLES = 8  # of a start in `arena train`, by default


def check(
    name: Annotated[str, typer.Argument(metavar="ESTIMATOR")],
    num_batches: Annotated[
        int, typer.Option(help="Number of random batches.", min=1)
    ] = 40,
    variance: Annotated[
        bool, typer.Option(help="Enumerate the variance, too, and check its claim.")
    ] = False,
) -> None:
    """Check the claims of an estimator.

    ESTIMATOR is a name, or module:function for your own. Prints the claims, the findings,
    and the bias on the diagnostic games. If a claim is wrong, it prints the first wrong
    claim and exits with status 1. With --variance also the exact variance of the gradient on
    the diagnostic games, of two groups of two episodes that share chance, relative to
    `rloo`: the credit of whole episodes.

    Example: arena credit check my_package.credit:my_estimator
    """
    from arena_credit.by_name import find_estimator
    from arena_credit.proofs.findings import undefined
    from arena_credit.testing import BrokenPromise, check_estimator

    with usage_errors():
        estimator = find_estimator(name) if ":" in name else name
        find_estimator(estimator)
    try:
        with usage_errors():
            evidence = check_estimator(
                estimator, num_batches=num_batches, variance=variance
            )
    except BrokenPromise as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    print_tables(_tables(evidence))
    if missing_columns := undefined(estimator):
        columns = ", ".join(missing_columns)
        typer.echo(f"bias not measured: the diagnostic games have no column {columns}")
    message = f"the claims of {evidence.name} hold on {num_batches} random batches"
    typer.echo(message if missing_columns else f"{message} and on the diagnostic games")


def _tables(evidence: "EstimatorFindings") -> Iterable[Table]:
    from arena_credit.proofs.findings import has_chance

    findings = asdict(evidence.found)
    if not evidence.findings:
        findings |= dict.fromkeys(
            ("bias_two", "bias_infinite", "bias_shared_chance", "bootstraps")
        )
    table = Table("property", "claimed", "found")
    for field, claimed in asdict(evidence.claimed).items():
        table.add_row(field, _cell(claimed), _cell(findings[field]))
    yield table
    if evidence.findings:
        sizes = ("of two", "cosine", "factor", "large", "cosine", "factor")
        table = Table("game", *sizes)
        shared = Table("game with chance", "shared by a group", "cosine", "factor")
        for game, finding in evidence.findings.items():
            table.add_row(
                game,
                *_verdict_cells(finding.bias_two),
                *_verdict_cells(finding.bias_infinite),
            )
            if has_chance(game):
                shared.add_row(game, *_verdict_cells(finding.bias_shared_chance))
        yield table
        yield shared
    if evidence.noises:
        table = Table("game", "variance, relative to rloo")
        for game, noise in evidence.noises.items():
            table.add_row(game, f"{noise:.3f}")
        yield table


def _cell(value: object) -> str:
    if isinstance(value, bool) or value in (None, math.inf):
        return "yes" if value is True else "-"
    if isinstance(value, float):
        return f"{value:.3g}"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _verdict_cells(verdict: "Verdict") -> tuple[str, str, str]:
    return verdict.kind, f"{verdict.cosine:.3f}", f"{verdict.factor:.3f}"


def suggest(
    games: Annotated[
        list[str] | None,
        typer.Option(
            "--games",
            "-g",
            metavar="GAME,GAME",
            help="Ids of games, by commas; repeatable.",
            callback=split_commas,
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Take the games of a recipe, name or file."),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(help="Folder with your own advice.json; default: this package's."),
    ] = None,
    allow_code: AllowCodeOption = False,
) -> None:
    """Suggest the credit for some games, with the figures of the comparison.

    Finds the kind of each game by 40 random episodes: players, the most turns of a seat in
    these, rewards on the way, and whether play decides the length. A recipe also tells the
    size of its groups. Prints the results on that game or on the most similar ones, the
    estimators whose declarations fit, and what was not measured.

    Example: arena credit suggest --games tic_tac_toe,mini_hanabi
    """
    from arena_trainers.cli.suggest import FILE, SHIPPED, read_advice
    from arena_trainers.cli.suggest import suggest as suggestions

    with usage_errors():
        is_file = recipe is not None
        with no_code(active=is_file and not allow_code):
            specs, used, group = _advised_games(games, recipe)
            rules = [(name, make_game(name, **params)) for name, params in specs]
        advice = read_advice(SHIPPED if directory is None else directory / FILE)
        lines = suggestions(rules, advice, used, group)
    for line in lines:
        typer.echo(line)


def _advised_games(
    games: Sequence[str] | None, recipe: str | None
) -> tuple[list[tuple[str, dict[str, Any]]], str | None, int | None]:
    """The id and parameters of each game, and the variant and group size of the recipe."""
    from arena_credit.by_name import with_options
    from arena_trainers.cli.game_facts import DEFAULT
    from arena_trainers.cli.suggest import variant_name
    from arena_trainers.runs.recipe import load_recipe

    names = games or []
    if bool(names) == (recipe is not None):
        got = "both" if names else "neither"
        raise ValueError(
            f"want either --games or --recipe, got {got}; give the ids of games, as in "
            "--games kuhn_poker, or the name of a recipe"
        )
    if recipe is None:
        return [(name, {}) for name in names], None, None
    settings = load_recipe(recipe)
    specs: list[tuple[str, dict[str, Any]]] = []
    for entry in settings.get("games", ["kuhn_poker"]):
        if isinstance(entry, str):
            specs.append((entry, {}))
        else:
            specs.append((entry["id"], entry.get("params", {})))
    name, options = with_options(
        settings.get("credit", DEFAULT), settings.get("credit_args", {})
    )
    if "pool" in options:
        options["pool"] = tuple(options["pool"])
    used = variant_name(name, options)
    return specs, used, settings.get("num_generations", NUM_SAMPLES)
