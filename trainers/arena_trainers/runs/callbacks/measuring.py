"""A callback that measures the policy every so many steps."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

from transformers import TrainerControl, TrainerState

from arena_trainers.runs.callbacks.callback import Callback


class Measuring(Callback):
    """Measures the policy every so many steps, and adds the figures to the log of the step.

    Args:
        every: steps between measurements.
        weights: makes a context in which the main process can use the policy by itself;
            every process enters it.
    """

    def __init__(
        self, every: int, weights: Callable[[], AbstractContextManager[None]]
    ) -> None:
        self.every, self.weights = every, weights
        self._found: tuple[int, dict[str, float]] = (-1, {})

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        if state.global_step % self.every == 0:
            with self.weights():
                if state.is_world_process_zero:  # the others only log when it does
                    self._found = state.global_step, self.measure(state)
            control.should_log = True

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        step, found = self._found
        if step == state.global_step:
            logs.update(found)

    def measure(self, state: TrainerState) -> dict[str, float]:
        """The figures at this step, by their names in the log."""
        raise NotImplementedError
