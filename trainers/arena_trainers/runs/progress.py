"""Progress of training: a bar or lines, the profile, and a watchdog that says what a late stage waits for.

The watchdog's thread looks at the stack of the training thread, and only when a stage is late, so
that nothing has to report to it.
"""

import asyncio
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import Any

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from transformers import (
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_trainers.terminal import Console
from arena_trainers.train.clock import TIMES, Clock
from arena_wrappers.play import ask, ask_async


class Callback(TrainerCallback):
    """A callback whose events take what they read: the state, and the figures of a log."""

    def begun(self, state: TrainerState) -> None:
        """Training begins or goes on."""

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        """An optimizer step ended."""

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        """Figures were logged; more can be added."""

    def on_train_begin(
        self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.begun(state)

    def on_step_end(
        self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.stepped(state, control)

    def on_log(
        self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any
    ) -> None:
        self.logged(state, kwargs["logs"])


_SHOWN_RATES = ("generation", "training")
_SHOWN_PARTS = {
    "generation": "generation",
    "environment": "env",
    "training": "training",
}


@contextmanager
def shown_progress(
    trainer: Trainer, console: Console, is_main: bool, look: "ShownFigures"
) -> Iterator[None]:
    """Shows a bar in a terminal during training, else a line at each logging step.

    Args:
        trainer: gets a callback.
        console: where progress is shown.
        is_main: whether this is the main process; the others show nothing.
        look: what is shown.
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
            trainer.add_callback(ProgressBar(bar, look))
        elif is_main:
            trainer.add_callback(ProgressLines(console, look))
        yield


@dataclass(frozen=True)
class ShownFigures:
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
        look: what is shown.
    """

    def __init__(self, progress: Progress, look: ShownFigures) -> None:
        self.progress, self.look = progress, look
        self._shown = -1

    def begun(self, state: TrainerState) -> None:
        self.task = self.progress.add_task(
            self.look.title, total=state.max_steps, completed=state.global_step
        )

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        self.progress.update(self.task, completed=state.global_step)

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        figures = self.look.figures(logs)
        if figures and state.global_step != self._shown:  # not the summary at the end
            self._shown = state.global_step
            text = "  ".join([self.look.title, *figures[:2]])  # more would not fit
            self.progress.update(self.task, description=text)


class ProgressLines(Callback):
    """Prints a line at each logging step, for a file or a pipe.

    Args:
        console: where the lines go.
        look: what is shown.
    """

    def __init__(self, console: Console, look: ShownFigures) -> None:
        self.console, self.look = console, look

    def begun(self, state: TrainerState) -> None:
        self._began, self._first = time.monotonic(), state.global_step
        self._shown = -1

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        figures = self.look.figures(logs)
        if not figures or state.global_step == self._shown:
            return  # the summary at the end
        self._shown = state.global_step
        steps = state.global_step - self._first
        seconds = max(time.monotonic() - self._began, 1e-9)
        parts = [f"step {state.global_step}/{state.max_steps}", *figures]
        if steps > 0:
            left = (state.max_steps - state.global_step) * seconds / steps
            speed = steps * self.look.per_step / seconds
            parts += [f"{speed:.0f} {self.look.unit}/s", f"{clock(left)} left"]
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
    found = [m for m in (re.fullmatch(split, name) for name in logs) if m]
    times = Counter(match[1] for match in found)
    alone = {match[1]: match for match in found if times[match[1]] == 1}
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
    made, trained = (f"{rate / 1000:.1f}k" for rate in rates if rate is not None)
    shares = [
        f"{name} {100 * logs[f'arena/time/{part}']:.0f} %"
        for part, name in _SHOWN_PARTS.items()
    ]
    return f"tokens/s: {made} made, {trained} trained; {', '.join(shares)}"


def clock(seconds: float) -> str:
    """A duration as minutes and seconds, or hours, minutes and seconds.

    >>> clock(75.4), clock(3675)
    ('1:15', '1:01:15')
    """
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


def profile_of(clock: Clock) -> dict[str, Any]:
    """Turns and seconds since training began or resumed, of the main process.

    Returns:
        `turns`, `cpu_microseconds_per_turn` by part, and wall `seconds` by part; see
        `arena_trainers.train.metrics` for the parts.
    """
    spent, turns = clock.spent, clock.counts["turns"]
    return {
        "turns": turns,
        "cpu_microseconds_per_turn": {
            name: round(1e6 * spent[name].cpu / max(turns, 1), 1) for name in TIMES
        },
        "seconds": {name: round(spent[name].wall, 3) for name in TIMES},
    }


def profile_lines(profile: dict[str, Any]) -> list[str]:
    r"""The profile as two lines of at most 80 columns.

    >>> cpu = dict(zip(TIMES, (800.0, 90.0, 40.0, 600.0, 500.0)))
    >>> print("\n".join(profile_lines({"turns": 10733, "cpu_microseconds_per_turn": cpu})))
    CPU microseconds per turn (10,733 turns): environment 90, credit 40,
      generation 800, training 600, rest 500
    """
    cpu = profile["cpu_microseconds_per_turn"]
    order = ("environment", "credit", "generation", "training", "rest")
    words = [f"{name} {cpu[name]:.0f}" for name in order]
    head = f"CPU microseconds per turn ({profile['turns']:,} turns)"
    return [f"{head}: {words[0]}, {words[1]},", f"  {', '.join(words[2:])}"]


_BETWEEN_PROCESSES = ("torch.distributed", "deepspeed.comm")
_OURS = ("arena_trainers", "arena_wrappers", "arena_envs")


@contextmanager
def watched_stages(trainer: Trainer, seconds: float) -> Iterator["Watchdog"]:
    """Within this context a late stage of a run prints a line on stderr.

    The first stage is the start of training, which sends a server its weights. Each step of
    training is a stage. `Watchdog.begin` begins others. After training each episode of the
    evaluation is one.

    A line comes after every `seconds` that pass without the end of a stage. Every process
    prints its own: the one that the others wait for names what it waits for.

    Args:
        trainer: gets a callback.
        seconds: 0 for no lines.
    """
    watchdog = Watchdog(seconds, threading.get_ident(), trainer.args)
    watchdog.begin("start of training")
    if seconds == 0:
        yield watchdog
        return
    trainer.add_callback(watchdog)
    thread = threading.Thread(target=watchdog.watch, daemon=True)
    thread.start()
    try:
        yield watchdog
    finally:
        watchdog.ended = True
        watchdog.beat.set()
        thread.join()


class Watchdog(Callback):
    """Waits for the ends of stages.

    Args:
        seconds: that a stage may take.
        thread: number of the thread that trains.
        args: of the trainer.

    Attributes:
        beat: is set when a stage begins.
        ended: whether to stop watching at the next beat.
    """

    def __init__(self, seconds: float, thread: int, args: TrainingArguments) -> None:
        self.seconds, self.thread = seconds, thread
        self.beat, self.ended = threading.Event(), False
        self._process = f"process {args.process_index} of {args.world_size}"
        self._where = ""

    def begin(self, stage: str) -> None:
        """The stage before is over, and another one begins."""
        self._where = f"{stage}, {self._process}"
        self.beat.set()

    def begun(self, state: TrainerState) -> None:
        self.begin(f"step {state.global_step + 1}")

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        self.begin(f"step {state.global_step + 1}")

    def watch(self) -> None:
        """Prints the lines, until `ended`."""
        waited = 0.0
        while not self.ended:
            if self.beat.wait(self.seconds):
                self.beat.clear()
                waited = 0.0
                continue
            waited += self.seconds
            frame = sys._current_frames().get(self.thread)
            if frame is not None:
                line = f"{self._where}: no end after {waited:g} s; {waits_for(frame)}"
                print(line, file=sys.stderr, flush=True)


def waits_for(frame: FrameType | None) -> str:
    """Names what a thread waits for, by the calls that it is in; the innermost one counts."""
    own = url = ""
    while frame is not None:
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        itself = frame.f_locals.get("self")
        if not url:
            url = str(getattr(itself, "url", "") or "")
        if frame.f_code is ask.__code__:
            num, policy = len(frame.f_locals["requests"]), frame.f_locals["policy"]
            return _waits_for_policy(policy, num, url)
        if isinstance(itself, asyncio.AbstractEventLoop) and name == "run_forever":
            asked = _asked_in(itself)
            if asked:
                most = max(asked, key=len)
                return _waits_for_policy(most[0], len(most))
        if module.startswith(_BETWEEN_PROCESSES):
            return (
                "waits for the other processes: the one that prints another line than "
                "this, or none, holds them up"
            )
        if not own and module.startswith(_OURS):
            own = f"{module}.{name}"
        frame = frame.f_back
    asks = f", which asks {url}" if url else ""
    return f"is in {own}{asks}" if own else "is in no code of arena"


def _waits_for_policy(policy: Any, num: int, url: str = "") -> str:
    url = url or getattr(policy, "url", "")
    at = f" at {url}" if url else ""
    requests = "1 request" if num == 1 else f"{num} requests"
    return f"waits for policy {policy.name!r}{at}, {requests}"


def _asked_in(loop: asyncio.AbstractEventLoop) -> list[list[Any]]:
    """The policies that tasks of an event loop wait for, each as often as it is asked."""
    asked: dict[int, list[Any]] = {}
    for task in asyncio.all_tasks(loop):
        inner: Any = task.get_coro()
        while (frame := getattr(inner, "cr_frame", None)) is not None:
            if frame.f_code is ask_async.__code__:
                policy = frame.f_locals["policy"]
                asked.setdefault(id(policy), []).append(policy)
            inner = inner.cr_await
    return list(asked.values())
