"""Ctrl-C and SIGTERM: the first signal stops a run at a checkpoint, the second at once."""

import os
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

from accelerate import PartialState
from accelerate.utils import gather_object
from transformers import TrainerControl, TrainerState

from arena_trainers.runs.callbacks.callback import Callback

Handler = Callable[[int, FrameType | None], object] | int | None  # as `signal` has it
SIGNALS = (signal.SIGINT, signal.SIGTERM)
_NOTE = (
    b"\nstopping: after the current batch a checkpoint is saved; press Ctrl-C again to stop "
    b"at once\n"
)


class Stopped(KeyboardInterrupt):
    """A signal ended the run.

    Args:
        signum: number of the signal.
    """

    def __init__(self, signum: int) -> None:
        super().__init__(signum)
        self.signum = signum

    @property
    def status(self) -> int:
        """The exit status by the convention of shells: 128 + the signal's number."""
        return 128 + self.signum


class Stopper:
    """Handles the signals, as a context manager.

    Within `waiting`, the first signal is stored, and `StopCallback` ends training. Every
    other signal raises `Stopped`. A signal that was ignored before stays ignored, as in
    background jobs of a shell.

    Args:
        speaks: whether to print on stderr that the run stops at the next checkpoint.

    Attributes:
        first_signal: number of the first signal; None before it.
    """

    def __init__(self, speaks: bool = True) -> None:
        self.first_signal: int | None = None
        self.speaks, self._waits = speaks, False
        self._before: dict[int, Handler] = {}

    def __enter__(self) -> "Stopper":
        if threading.current_thread() is threading.main_thread():
            for signum in SIGNALS:
                handler = signal.getsignal(signum)
                if handler is not signal.SIG_IGN:
                    self._before[signum] = handler
                    signal.signal(signum, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        for signum, handler in self._before.items():
            signal.signal(signum, handler)
        self._before.clear()

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Within this context, the first signal waits for a checkpoint."""
        self._waits = True
        try:
            yield
        finally:
            self._waits = False

    def raise_if_stopped(self, step: int, max_steps: int) -> None:
        """Raises `Stopped` if a signal ended training before its last step."""
        if self.first_signal is not None and step < max_steps:
            # torchrun ends all processes when one ends; another may still be writing
            PartialState().wait_for_everyone()
            raise Stopped(self.first_signal)

    def _handle(self, signum: int, frame: FrameType | None) -> None:
        if not self._waits or self.first_signal is not None:
            raise Stopped(signum)
        self.first_signal = signum
        if self.speaks:
            os.write(2, _NOTE)  # print may not be called from a handler


class StopCallback(Callback):
    """Saves a checkpoint and ends training after a signal to any process.

    A run resumes exactly only between generation batches. So the callback waits until the
    batch has been used for all its optimizer steps. Then all processes agree on whether to
    stop.

    Args:
        stopper: stores the signal.
        window: optimizer steps that share a generation batch.
    """

    def __init__(self, stopper: Stopper, window: int) -> None:
        self.stopper, self.window = stopper, window

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        if state.global_step % self.window:
            return
        signum = max(gather_object([self.stopper.first_signal or 0]))
        if signum:
            self.stopper.first_signal = signum
            control.should_save = control.should_training_stop = True
            control.should_log = True  # else metrics since the last log are lost
