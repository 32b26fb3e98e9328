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
    num_jobs: Annotated[int, typer.Option("--jobs", help="Processes.")] = 2,
) -> None:
    """Compare all estimators at equal samples, by tabular self-play on small games.

    `episode`, `mars` and `mars_released` train the tiny language model, too (setting
    tiny_model, three seeds at most). Does the runs that DIRECTORY/bench.json lacks, draws
    them, and writes what is significant. The same code gives the same numbers.
    """
    from arena_trainers.bench import experiment, page
    from arena_trainers.credit import estimators

    with usage_errors():
        names = chosen(only, estimators())
        settings = chosen(game, [*experiment.SETTINGS, experiment.TINY])
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "bench.json"
    todo = experiment.missing(experiment.read_runs(path), names, settings, num_seeds)
    runs = experiment.run_missing(path, todo, num_jobs, typer.echo)
    for written in page.write(directory, runs):
        typer.echo(f"wrote {written}")


def chosen(wanted: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """Those wanted, or all; ValueError if one is unknown."""
    for name in wanted or ():
        if name not in known:
            raise ValueError(f"want one of {', '.join(known)}, got {name!r}")
    return list(wanted or known)
