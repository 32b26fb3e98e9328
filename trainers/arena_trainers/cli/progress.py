"""Progress bars of commands, and what they print when they are stopped."""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager

import typer
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from arena_trainers.finite import Diverged
from arena_trainers.terminal import Console
from arena_wrappers import NoReplyError
from arena_wrappers.policies import names_person


@contextmanager
def running(
    advice: str | Callable[[], str],
    doing: str = "playing",
    *,
    policies: Iterable[str] = (),
) -> Iterator[Callable[[int, int], None]]:
    """Shows a progress bar on stderr, if it is a terminal, and reports interruptions.

    Ctrl-C prints the advice and exits with status 130; an OSError, such as a full disk,
    a NoReplyError or a model that has diverged with status 1.

    Args:
        advice: a clause that says what was kept, and what to do, or a function that gives it.
        doing: label of the bar.
        policies: strings of those who play; a person types, so that there is no bar.

    Yields:
        A function that takes the numbers of steps done and in all.
    """
    columns = (BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    is_hidden = not console.is_terminal or any(map(names_person, policies))
    with (
        interruptions(advice),
        Progress(*columns, console=console, transient=True, disable=is_hidden) as bar,
    ):
        task = bar.add_task(doing, total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def interruptions(advice: str | Callable[[], str]) -> Iterator[None]:
    """Reports interruptions as `running` does, without a progress bar."""
    clause = (lambda: advice) if isinstance(advice, str) else advice
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(f"\nstopped; {clause()}", err=True)
        raise typer.Exit(130) from None
    except (OSError, NoReplyError, Diverged) as error:
        typer.echo(f"error: {error}; {clause()}", err=True)
        raise typer.Exit(1) from error
