"""The command `arena bench`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from arena_trainers.cli.credit import chosen, kept_runs, tell_outdated
from arena_trainers.cli.options import NumJobs, NumSeeds, OnlySettings, OnlyVariants
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
    num_seeds: NumSeeds = 3,
    only: OnlyVariants = None,
    game: OnlySettings = None,
    num_jobs: NumJobs = 1,
) -> None:
    """Compare opponents: self-play, mixture, past selves, PSRO, optimal and random play.

    The tiny model learns Kuhn poker (kuhn) and tic-tac-toe (tic_tac_toe) against each of
    them. Exact measures: NashConv, and returns against optimal and against random play. Runs
    that are already in DIRECTORY/bench.json are not repeated, so run the command again after
    an interruption. It then writes README.md and learning.png. All runs take about 20 CPU
    minutes. The same code gives the same numbers.

    Example: arena bench opponents --game kuhn --only self-play --only past_selves
    """
    from arena_trainers.bench import opponent_page as page
    from arena_trainers.bench import opponents as bench

    _compare(bench, page, directory, num_seeds, only, game, num_jobs)


@bench_app.command("methods")
def methods(
    directory: Annotated[Path, typer.Option(help="Folder of the files.")] = Path(
        "docs", "methods"
    ),
    num_seeds: NumSeeds = 3,
    only: OnlyVariants = None,
    game: OnlySettings = None,
    num_jobs: NumJobs = 1,
) -> None:
    """Compare methods: SFT on wins, ETO, Agent Q, GRPO, and kickstart followed by GRPO.

    The tiny model learns Kuhn poker (kuhn) and Mini Hanabi (mini_hanabi) by each of them, from
    the same start and equally many episodes. Measures: exact NashConv, and the mean score of
    fixed deals. Runs that are already in DIRECTORY/bench.json are not repeated, so run the
    command again after an interruption. It then writes README.md and learning.png. All runs
    take about 20 CPU minutes. The same code gives the same numbers.

    Example: arena bench methods --game kuhn --only grpo --only kickstart
    """
    from arena_trainers.bench import method_page as page
    from arena_trainers.bench import methods as bench

    _compare(bench, page, directory, num_seeds, only, game, num_jobs)


def _compare(
    bench: Any,
    page: Any,
    directory: Path,
    num_seeds: int,
    only: list[str] | None,
    game: list[str] | None,
    num_jobs: int,
) -> None:
    """Does the missing runs of a comparison, and writes its page.

    Args:
        bench: its module, with `SETTINGS`, `VARIANTS`, `made_with` and `train`.
        page: the module of its page, with `write`.
        directory: of the files.
        num_seeds: number of seeds.
        only: names of variants; None for all.
        game: keys of settings; None for all.
        num_jobs: number of processes.
    """
    from arena_trainers.bench import run_file
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
    path, made_with = directory / "bench.json", bench.made_with()
    with usage_errors():
        found = run_file.read(path, made_with)
        directory.mkdir(parents=True, exist_ok=True)
    tell_outdated(path, made_with)
    todo = run_file.missing(found, names, settings, num_seeds)
    with kept_runs(path):
        runs = run_file.run_missing(
            path, made_with, todo, bench.train, num_jobs, typer.echo
        )
    for written in page.write(directory, runs):
        typer.echo(f"wrote {written}")
