"""The commands about credit: `arena credit report` and `arena credit bench`."""

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from arena_trainers.usage import usage_errors

credit_app = typer.Typer(
    name="credit",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Estimators of credit: what they do to the gradient, and to learning.",
)


def add_commands(app: typer.Typer) -> None:
    """Adds the commands to the `arena` command."""
    app.add_typer(credit_app)


Directory = Annotated[Path, typer.Option(help="Where the files go.")]
DOCS = Path("docs", "credit")
COSTS = "cost.json"  # what benchmarks/credit_speed.py measured


@credit_app.command("report")
def report(directory: Directory = DOCS) -> None:
    """Write what every estimator does to the gradient of small games, and their pages.

    Takes about a minute; the same code writes the same files.
    """
    from arena_trainers.credit.pages import estimators_page
    from arena_trainers.credit.report import report as build

    directory.mkdir(parents=True, exist_ok=True)
    costs = directory / COSTS
    measured = json.loads(costs.read_text()) if costs.exists() else {}
    pages = {
        "report.md": build(),
        "estimators.md": estimators_page({n: row["ms"] for n, row in measured.items()}),
    }
    for name, text in pages.items():
        (directory / name).write_text(text)
        typer.echo(f"wrote {directory / name}")


@credit_app.command("bench")
def bench(
    directory: Directory = DOCS,
    num_seeds: Annotated[int, typer.Option("--seeds", help="0 to N - 1.")] = 10,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="ESTIMATOR", help="Not all of them; repeatable."),
    ] = None,
    game: Annotated[
        list[str] | None, typer.Option(metavar="SETTING", help="Likewise.")
    ] = None,
    tiny_model: Annotated[
        bool, typer.Option("--tiny-model", help="Train the tiny language model, too.")
    ] = False,
    num_jobs: Annotated[int, typer.Option("--jobs", help="Processes.")] = 2,
) -> None:
    """Compare all estimators at equal samples, by tabular self-play on small games.

    Does the runs that DIRECTORY/bench.json lacks, draws them, and writes what is
    significant. Tables take about 40 minutes on two cores, the tiny model as long again;
    the same code gives the same numbers.
    """
    from arena_trainers.bench import experiment, page
    from arena_trainers.bench import tiny_model as tiny

    with usage_errors():
        names = chosen(only, experiment.runnable())
        settings = chosen(game, experiment.SETTINGS)
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "bench.json"
    todo = experiment.missing(experiment.read_runs(path), names, settings, num_seeds)
    runs = experiment.run_missing(path, todo, num_jobs, typer.echo)
    if tiny_model:
        runs = tiny.run_missing(path, typer.echo)
    for written in page.write(directory, runs):
        typer.echo(f"wrote {written}")


def chosen(wanted: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """Those wanted, or all; ValueError if one is unknown."""
    for name in wanted or ():
        if name not in known:
            raise ValueError(f"want one of {', '.join(known)}, got {name!r}")
    return list(wanted or known)
