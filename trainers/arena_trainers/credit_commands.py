"""The commands about credit: `arena credit report`."""

from pathlib import Path
from typing import Annotated

import typer

credit_app = typer.Typer(
    name="credit",
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Estimators of credit: what they do to the gradient, and to learning.",
)
Directory = Annotated[Path, typer.Option(help="Where the files go.")]
DOCS = Path("docs", "credit")


@credit_app.command("report")
def report(directory: Directory = DOCS) -> None:
    """Write what every estimator does to the gradient of small games, and their pages.

    Takes about a minute; the same code writes the same files.
    """
    from arena_trainers.credit.report import report as build

    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "report.md"
    path.write_text(build())
    typer.echo(f"wrote {path}")
