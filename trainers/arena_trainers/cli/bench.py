"""The command `arena bench`."""

from pathlib import Path
from typing import Annotated

import typer

from arena_trainers.cli.credit import chosen
from arena_trainers.cli.usage import usage_errors

bench_app = typer.Typer(
    name="bench",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Compare choices of training by runs of the tiny model.",
)


def add_commands(app: typer.Typer) -> None:
    """Adds the command to the `arena` command."""
    app.add_typer(bench_app)


@bench_app.command("opponents")
def opponents(
    directory: Annotated[Path, typer.Option(help="Folder of the files.")] = Path(
        "docs", "opponents"
    ),
    num_seeds: Annotated[
        int, typer.Option("--seeds", min=1, help="Number of seeds, from 0.")
    ] = 3,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="VARIANT", help="Only this one; repeatable."),
    ] = None,
    game: Annotated[
        list[str] | None,
        typer.Option(metavar="SETTING", help="Only this setting; repeatable."),
    ] = None,
    num_jobs: Annotated[
        int, typer.Option("--jobs", min=1, help="Number of processes.")
    ] = 1,
) -> None:
    """Compare opponents: self-play, mixture, past selves, PSRO, optimal and random play.

    The tiny model learns Kuhn poker (kuhn) and tic-tac-toe (tic_tac_toe) against each of
    them. Exact measures: NashConv, and returns against optimal and against random play. Runs
    that are already in DIRECTORY/bench.json are not repeated, so run the command again after
    an interruption. It then writes README.md and learning.png. All runs take about 20 CPU
    minutes. The same code gives the same numbers.

    Example: arena bench opponents --game kuhn --only self-play --only past_selves
    """
    from arena_trainers.bench import opponent_page, run_file
    from arena_trainers.bench import opponents as bench
    from arena_trainers.extras import import_extra

    with usage_errors():
        names = chosen(only, bench.VARIANTS)
        settings = chosen(game, bench.SETTINGS)
    for module, extra in (
        ("matplotlib.figure", "eval"),
        ("scipy.stats", "eval"),
        ("trl", "train"),
    ):
        import_extra(module, extra)  # fails before the long runs
    path = directory / "bench.json"
    known = run_file.read(path, bench.made_with())
    todo = bench.missing(known, names, settings, num_seeds)
    directory.mkdir(parents=True, exist_ok=True)
    found = bench.run_missing(path, todo, num_jobs, typer.echo)
    for written in opponent_page.write(directory, found):
        typer.echo(f"wrote {written}")
