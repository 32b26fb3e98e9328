"""Says what a step that takes too long waits for.

The thread looks at the stack of the training thread, and only when a step is late, so that
nothing has to report to it.
"""

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from transformers import (
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_wrappers import asking

_BETWEEN_PROCESSES = ("torch.distributed", "deepspeed.comm")
_OURS = ("arena_trainers", "arena_wrappers", "arena_envs")


@contextmanager
def watched_steps(trainer: Trainer, seconds: float) -> Iterator[None]:
    """Within this context a late step of training prints a line on stderr.

    A line comes after every `seconds` that pass without the end of a step. Every process
    prints its own: the one that the others wait for names what it waits for.

    Args:
        trainer: gets a callback.
        seconds: 0 for no lines.
    """
    if seconds == 0:
        yield
        return
    watchdog = Watchdog(seconds, threading.get_ident())
    trainer.add_callback(watchdog)
    thread = threading.Thread(target=watchdog.watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        watchdog.ended = True
        watchdog.beat.set()
        thread.join()


class Watchdog(TrainerCallback):
    """Waits for the ends of steps.

    Args:
        seconds: that a step may take.
        thread: number of the thread that trains.

    Attributes:
        beat: is set at the end of each step.
        ended: whether to stop watching at the next beat.
    """

    def __init__(self, seconds: float, thread: int) -> None:
        self.seconds, self.thread = seconds, thread
        self.beat, self.ended = threading.Event(), False
        self._where = ""

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        self._note(args, state)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        self._note(args, state)

    def _note(self, args: TrainingArguments, state: TrainerState) -> None:
        process = f"process {args.process_index} of {args.world_size}"
        self._where = f"step {state.global_step + 1}, {process}"
        self.beat.set()

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
            if self._where and frame is not None:
                line = f"{self._where}: no end after {waited:g} s; {waits_for(frame)}"
                print(line, file=sys.stderr, flush=True)


def waits_for(frame: FrameType | None) -> str:
    """What a thread waits for, by the calls that it is in; the innermost one counts.

    Args:
        frame: the thread's innermost call.
    """
    own = url = ""
    while frame is not None:
        module, name = frame.f_globals.get("__name__", ""), frame.f_code.co_name
        if not url:
            url = str(getattr(frame.f_locals.get("self"), "url", "") or "")
        if frame.f_code is asking.ask.__code__:
            at = f" at {url}" if url else ""
            num = len(frame.f_locals["requests"])
            requests = "1 request" if num == 1 else f"{num} requests"
            policy = frame.f_locals["policy"].name
            return f"waits for policy {policy!r}{at}, {requests}"
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
