"""A callback that measures the policy every so many steps."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from transformers import TrainerControl, TrainerState

from arena_trainers.processes import raised_everywhere
from arena_trainers.runs.callbacks.callback import Callback


class Measuring(Callback):
    """Measures the policy every so many steps, and adds the figures to the log of the step.

    All processes measure; what one of them does alone, the others wait for.

    Args:
        every: steps between measurements.
        weights: makes a context in which each process can use the policy by itself;
            every process enters it.
    """

    def __init__(
        self, every: int, weights: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.every, self.weights = every, weights
        self._measured_step = -1
        self._figures: dict[str, float] = {}

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        if state.global_step % self.every == 0:
            with self.weights(), raised_everywhere():
                figures = self.measure(state)
            if state.is_world_process_zero:  # the others only log when it does
                self._measured_step, self._figures = state.global_step, figures
            control.should_log = True

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        if self._measured_step == state.global_step:
            logs.update(self._figures)

    def measure(self, state: TrainerState) -> dict[str, float]:
        """The figures at this step, by their names in the log; those of the main process count."""
        raise NotImplementedError
