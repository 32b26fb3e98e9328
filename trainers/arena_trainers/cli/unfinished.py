"""What commands print of evaluations that were stopped, or lost episodes."""

from collections.abc import Callable, Sequence
from pathlib import Path

import typer

from arena_studio.report.episodes import count_lines


def kept_episodes(out: Path | None) -> Callable[[], str]:
    """Says of a stopped evaluation, which is about to begin, which episodes were kept."""
    num_before = _num_lines(out)

    def clause() -> str:
        num_episodes = _num_lines(out) - num_before
        if num_episodes:
            return (
                f"nothing was measured; episodes played so far are in {out}: {num_episodes}; "
                "the same command goes on"
            )
        if out is None:
            return "nothing was measured or kept; --out FILE keeps episodes as they end"
        return f"nothing was measured; no episode was added to {out}"

    return clause


def _num_lines(path: Path | None) -> int:
    return count_lines(path) if path is not None and path.is_file() else 0


def exit_if_lost(lost: Sequence[str], out: Path | None) -> None:
    """Ends with status 1 if episodes are lost."""
    for text in lost:
        typer.echo(f"error: {text}", err=True)
    if lost:
        again = "the same command plays them again"
        if out is None:
            again = "--out FILE keeps the others, and then the same command plays them again"
        typer.echo(f"error: no figure includes the lost episodes; {again}", err=True)
        raise typer.Exit(1)
