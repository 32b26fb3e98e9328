"""The mean time of a step, from which the time left is computed."""

import time

from transformers import TrainerState


class StepClock:
    """Counts from the moment when training begins or goes on.

    Args:
        state: at that moment.
    """

    def __init__(self, state: TrainerState) -> None:
        self._began, self._first = time.monotonic(), state.global_step

    def seconds_per_step(self, state: TrainerState) -> float | None:
        """The mean time of a step so far; None before the first."""
        steps = state.global_step - self._first
        seconds = max(time.monotonic() - self._began, 1e-9)
        return seconds / steps if steps > 0 else None
