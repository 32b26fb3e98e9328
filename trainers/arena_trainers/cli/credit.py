"""The commands `arena credit check`, `report`, `bench` and `suggest`."""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from arena_envs import make_game
from arena_trainers.cli.options import NumJobs, NumSeeds, OnlySettings, OnlyVariants
from arena_trainers.cli.usage import (
    interruptions,
    print_tables,
    running,
    usage_errors,
)

if TYPE_CHECKING:
    from arena_trainers.credit.proofs.expectation import Verdict
    from arena_trainers.credit.testing import Evidence

credit_app = typer.Typer(
    name="credit",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Check, report and compare credit estimators.",
)


def add_commands(app: typer.Typer) -> None:
    """Adds the commands to the `arena` command."""
    app.add_typer(credit_app)


Directory = Annotated[Path, typer.Option(help="Folder of the files.")]
DOCS = Path("docs", "credit")
COSTS = "cost.json"  # written by benchmarks/credit_speed.py


@credit_app.command("check")
def check(
    name: Annotated[str, typer.Argument(metavar="ESTIMATOR")],
    num_batches: Annotated[
        int, typer.Option(min=1, help="Number of random batches.")
    ] = 40,
) -> None:
    """Check the claims of an estimator.

    ESTIMATOR is a name, or module:function for your own. Prints the claims, the findings,
    and the bias on the diagnostic games. If a claim is wrong, it prints the first wrong
    claim and exits with status 1.

    Example: arena credit check my_package.credit:my_estimator
    """
    from arena_trainers.credit.by_name import find_estimator
    from arena_trainers.credit.proofs.report import undefined
    from arena_trainers.credit.testing import BrokenPromise, check_estimator

    with usage_errors():
        found = find_estimator(name) if ":" in name else name
        find_estimator(found)
    try:
        evidence = check_estimator(found, num_batches=num_batches)
    except BrokenPromise as error:
        typer.echo(str(error), err=True)
        raise typer.Exit(1) from None
    print_tables(_tables(evidence))
    if missing := undefined(found):
        columns = ", ".join(missing)
        typer.echo(f"bias not measured: the diagnostic games have no column {columns}")
    kept = f"the claims of {evidence.name} hold on {num_batches} random batches"
    typer.echo(kept if missing else f"{kept} and on the diagnostic games")


def _tables(evidence: "Evidence") -> Iterable[Table]:
    from arena_trainers.credit.proofs.report import has_chance

    found = asdict(evidence.found)
    if not evidence.findings:
        found |= dict.fromkeys(
            ("bias_two", "bias_infinite", "bias_shared_chance", "bootstraps")
        )
    table = Table("property", "claimed", "found")
    for field, claimed in asdict(evidence.claimed).items():
        table.add_row(field, _word(claimed), _word(found[field]))
    yield table
    if evidence.findings:
        sizes = ("of two", "cosine", "factor", "large", "cosine", "factor")
        table = Table("game", *sizes)
        shared = Table("game with chance", "shared by a group", "cosine", "factor")
        for game, finding in evidence.findings.items():
            table.add_row(
                game, *_words(finding.bias_two), *_words(finding.bias_infinite)
            )
            if has_chance(game):
                shared.add_row(game, *_words(finding.bias_shared_chance))
        yield table
        yield shared


def _word(value: object) -> str:
    if isinstance(value, bool) or value is None:
        return "yes" if value else "-"
    return ", ".join(value) if isinstance(value, tuple) else str(value)


def _words(verdict: "Verdict") -> tuple[str, str, str]:
    return verdict.kind, f"{verdict.cosine:.3f}", f"{verdict.factor:.3f}"


@credit_app.command("report")
def report(
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "--directory",
            help="Folder of the files; default: docs/credit, else this folder.",
        ),
    ] = None,
) -> None:
    """Write report.md and estimators.md.

    They hold the bias of every estimator on small games, and a page of each estimator.
    Takes about a minute. The same code writes the same files.
    """
    from arena_trainers.credit.proofs.pages import estimators_page
    from arena_trainers.credit.proofs.report import report as build

    directory = (DOCS if DOCS.is_dir() else Path()) if out is None else out
    with usage_errors():
        directory.mkdir(parents=True, exist_ok=True)
    costs = directory / COSTS
    measured = json.loads(costs.read_text()) if costs.exists() else {}
    with running("nothing was written", "examining") as bar:
        pages = {
            "report.md": build(bar),
            "estimators.md": estimators_page({n: r["ms"] for n, r in measured.items()}),
        }
    for name, text in pages.items():
        (directory / name).write_text(text)
        typer.echo(f"wrote {directory / name}")


@credit_app.command("bench")
def bench(
    directory: Directory = DOCS,
    num_seeds: NumSeeds = 10,
    only: OnlyVariants = None,
    game: OnlySettings = None,
    num_jobs: NumJobs = 2,
) -> None:
    """Compare all estimators by training on small games.

    All train a tabular policy by self-play on the same number of episodes: each estimator
    in its published form, and some with other pools and scales. Runs that are already in
    DIRECTORY/bench.json are not repeated, so run the command again after an interruption.
    It then writes README.md, choose.md and learning.png. All 3,760 runs with ten seeds take
    about 55 CPU minutes, a CPU second each. The same code gives the same numbers.

    --game kuhn_model, tic_tac_toe_model and mini_hanabi_model train the tiny language model
    with `mars` and `episode` over equal pools, five seeds. They take hours and run only if
    you name them.

    Example: arena credit bench --game kuhn --only mars --only "mars (group, seat)"
    """
    from arena_trainers.bench import page, runs
    from arena_trainers.bench.models import MODELS
    from arena_trainers.bench.settings import SETTINGS
    from arena_trainers.bench.variants import variants
    from arena_trainers.extras import import_extra

    with usage_errors():
        names = chosen(only, list(variants()))
        settings = chosen(game, [*SETTINGS, *MODELS]) if game else list(SETTINGS)
    for module in ("matplotlib.figure", "scipy.stats"):
        import_extra(module, "eval")  # fails before the long play
    path = directory / "bench.json"
    with usage_errors():
        found = runs.read_runs(path)
        directory.mkdir(parents=True, exist_ok=True)
    tell_outdated(path, runs.made_with())
    todo = runs.missing(found, names, settings, num_seeds)
    if any(setting in MODELS for setting, _, _ in todo):
        import_extra("trl", "train")
    with kept_runs(path):
        found = runs.run_missing(path, todo, num_jobs, typer.echo)
    for written in page.write(directory, found):
        typer.echo(f"wrote {written}")


@credit_app.command("suggest")
def suggest(
    games: Annotated[
        list[str] | None,
        typer.Option(metavar="GAME,GAME", help="Ids of games, by commas; repeatable."),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Take the games of a recipe, name or file."),
    ] = None,
    directory: Annotated[
        Path | None,
        typer.Option(help="Folder with your own bench.json; default: this package's."),
    ] = None,
) -> None:
    """Suggest the credit for some games, with the figures of the comparison.

    Finds the kind of each game by 40 random episodes: players, the most turns of a seat in
    these, rewards on the way, and whether play decides the length. A recipe also tells the
    size of its groups. Prints the results on that game or on the most similar ones, and
    lists what was not measured.

    Example: arena credit suggest --games tic_tac_toe,mini_hanabi
    """
    from arena_trainers.bench import guide, runs

    with usage_errors():
        specs, used, group = _games_to_advise(games, recipe)
        path = runs.SHIPPED if directory is None else directory / "bench.json"
        if not path.exists():
            raise ValueError(
                f"want results in {path}, found no file; run arena credit bench with this "
                "--directory, or leave the option out for the results of this package"
            )
        rules = [(name, make_game(name, **params)) for name, params in specs]
        found = runs.read_runs(path)
    for line in guide.suggest(rules, found, used, group):
        typer.echo(line)


def _games_to_advise(
    games: Sequence[str] | None, recipe: str | None
) -> tuple[list[tuple[str, dict[str, Any]]], str | None, int | None]:
    """The id and parameters of each game, and the variant and group size of the recipe."""
    from arena_trainers.bench.settings import NUM_SAMPLES
    from arena_trainers.bench.variants import Variant
    from arena_trainers.job.settings import load_recipe

    names = [name.strip() for one in games or () for name in one.split(",")]
    if bool(names) == (recipe is not None):
        got = "both" if names else "neither"
        raise ValueError(
            f"want either --games or --recipe, got {got}; give the ids of games, as in "
            "--games kuhn_poker, or the name of a recipe"
        )
    if recipe is None:
        return [(name, {}) for name in names], None, None
    settings = load_recipe(recipe)
    specs = [
        (one, {}) if isinstance(one, str) else (one["id"], one.get("params", {}))
        for one in settings.get("games", ["kuhn_poker"])
    ]
    options = dict(settings.get("credit_args", {}))
    if "pool" in options:
        options["pool"] = tuple(options["pool"])
    used = Variant(settings.get("credit", "mars"), options).name
    return specs, used, settings.get("num_generations", NUM_SAMPLES)


def chosen(wanted: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """The wanted names, or all; ValueError if one is unknown."""
    for name in wanted or ():
        if name not in known:
            raise ValueError(f"want one of {', '.join(known)}, got {name!r}")
    return list(wanted or known)


def tell_outdated(path: Path, made_with: Mapping[str, Any]) -> None:
    """Says how many runs of a comparison's file do not count any more."""
    from arena_trainers.bench import run_file

    if num := run_file.num_outdated(path, made_with):
        typer.echo(
            f"{num} runs in {path} were made with other settings or options; they are left "
            "out, and deleted when a run ends: copy the file to keep them"
        )


def kept_runs(path: Path) -> AbstractContextManager[None]:
    """Says at an interruption that a comparison's file keeps the runs that have ended."""
    return interruptions(
        f"runs that have ended are in {path}; the same command does the others"
    )
