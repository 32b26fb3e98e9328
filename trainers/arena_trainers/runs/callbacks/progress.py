"""Progress of training: a bar in a terminal, else a line at each log."""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from transformers import Trainer, TrainerControl, TrainerState

from arena_trainers.runs.callbacks.callback import Callback
from arena_trainers.runs.callbacks.step_clock import StepClock
from arena_trainers.terminal import Console

_SHOWN_RATES = ("generation", "training")
_SHOWN_PARTS = {
    "generation": "generation",
    "environment": "env",
    "training": "training",
}


@contextmanager
def show_progress(
    trainer: Trainer, console: Console, is_main: bool, progress_format: "ProgressFormat"
) -> Iterator[None]:
    """Shows a bar in a terminal during training, else a line at each logging step.

    Args:
        trainer: gets a callback.
        console: where progress is shown.
        is_main: whether this is the main process; the others show nothing.
        progress_format: what is shown.
    """
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
    )
    has_bar = is_main and console.is_terminal
    with Progress(*columns, console=console, disable=not has_bar) as bar:
        if has_bar:
            trainer.add_callback(ProgressBar(bar, progress_format))
        elif is_main:
            trainer.add_callback(ProgressLines(console, progress_format))
        yield


@dataclass(frozen=True)
class ProgressFormat:
    """The figures that a run shows of its progress.

    Attributes:
        title: of the bar.
        unit: what is counted for the speed.
        per_step: units per optimizer step.
        figures: the figures of a log that are shown; a log without any is not shown.
    """

    title: str
    unit: str
    per_step: int
    figures: Callable[[Mapping[str, Any]], list[str]]


class ProgressBar(Callback):
    """A progress bar, followed by the latest figures.

    Args:
        progress: where the bar is drawn.
        progress_format: what is shown.
    """

    def __init__(self, progress: Progress, progress_format: ProgressFormat) -> None:
        self.progress, self.progress_format = progress, progress_format
        self._shown = -1

    def begun(self, state: TrainerState) -> None:
        self.task = self.progress.add_task(
            self.progress_format.title,
            total=state.max_steps,
            completed=state.global_step,
        )

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        self.progress.update(self.task, completed=state.global_step)

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        figures = self.progress_format.figures(logs)
        if figures and state.global_step != self._shown:  # not the summary at the end
            self._shown = state.global_step
            text = "  ".join(
                [self.progress_format.title, *figures[:2]]
            )  # more would not fit
            self.progress.update(self.task, description=text)


class ProgressLines(Callback):
    """Prints a line at each logging step, for a file or a pipe.

    Args:
        console: where the lines go.
        progress_format: what is shown.
    """

    def __init__(self, console: Console, progress_format: ProgressFormat) -> None:
        self.console, self.progress_format = console, progress_format

    def begun(self, state: TrainerState) -> None:
        self._clock, self._shown = StepClock(state), -1

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        figures = self.progress_format.figures(logs)
        if not figures or state.global_step == self._shown:
            return  # the summary at the end
        self._shown = state.global_step
        parts = [f"step {state.global_step}/{state.max_steps}", *figures]
        pace = self._clock.seconds_per_step(state)
        if pace is not None:
            left = (state.max_steps - state.global_step) * pace
            speed = self.progress_format.per_step / pace
            parts += [
                f"{speed:.0f} {self.progress_format.unit}/s",
                f"{clock(left)} left",
            ]
        self.console.print("  ".join(parts), soft_wrap=True, highlight=False)
        speed_line = speed_of(logs)
        if speed_line:
            self.console.print(f"  {speed_line}", soft_wrap=True, highlight=False)


def figures_of(logs: Mapping[str, Any]) -> list[str]:
    """The figures of a log that are shown: legal rate, NashConv and returns by seat.

    Against one opponent, the return of the seats that learn comes first, in place of those by
    seat. The split by several opponents is not shown.

    >>> logs = {"arena/legal_rate": 0.5, "arena/kuhn_poker/player_0/return": -0.1}
    >>> figures_of(logs)
    ['legal 0.500', 'return -0.100']
    >>> figures_of(logs | {"arena/kuhn_poker/against/random/return": 0.2})
    ['return 0.200 against random', 'legal 0.500']
    """
    split = r"arena/(.+)/against/(.+)/return"
    matches = [match for name in logs if (match := re.fullmatch(split, name))]
    times = Counter(match[1] for match in matches)
    alone = {match[1]: match for match in matches if times[match[1]] == 1}
    parts = [
        f"{game + ' ' if len(alone) > 1 else ''}return {logs[m[0]]:.3f} against {m[2]}"
        for game, m in alone.items()
    ]
    if logs.get("arena/legal_rate") is not None:
        parts.append(f"legal {logs['arena/legal_rate']:.3f}")
    if logs.get("arena/nash_conv") is not None:
        parts.append(f"NashConv {logs['arena/nash_conv']:.3f}")
    games: dict[str, list[str]] = {}
    for key in logs:
        is_return = key.startswith("arena/") and key.endswith("/return")
        if is_return and "/against/" not in key:
            game = key.removeprefix("arena/").rpartition("/player_")[0]
            if game not in alone:
                games.setdefault(game, []).append(f"{logs[key]:.3f}")
    for game, returns in games.items():
        name = f"{game} return" if len(games) > 1 else "return"
        parts.append(f"{name} {'/'.join(returns)}")
    return parts


def speed_of(logs: Mapping[str, Any]) -> str:
    """The tokens per second of a log and its split of time; "" if it has none.

    Shown are the largest parts. All are in the metrics.
    """
    rates = [logs.get(f"arena/tokens_per_second/{p}") for p in _SHOWN_RATES]
    if None in rates:
        return ""
    generated, trained = (f"{rate / 1000:.1f}k" for rate in rates if rate is not None)
    shares = [
        f"{name} {100 * logs[f'arena/time/{part}']:.0f} %"
        for part, name in _SHOWN_PARTS.items()
    ]
    return f"tokens/s: {generated} made, {trained} trained; {', '.join(shares)}"


def clock(seconds: float) -> str:
    """A duration as minutes and seconds, or hours, minutes and seconds.

    >>> clock(75.4), clock(3675)
    ('1:15', '1:01:15')
    """
    minutes, left_over = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return (
        f"{hours}:{minutes:02}:{left_over:02}" if hours else f"{minutes}:{left_over:02}"
    )
