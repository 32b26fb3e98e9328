"""The file of JSON lines that has every log."""

import json
import math
from pathlib import Path
from typing import Any

from transformers import TrainerState

from arena_trainers.runs.callbacks.callback import Callback
from arena_trainers.runs.callbacks.step_clock import StepClock


class MetricsFile(Callback):
    """Appends every log to a file of JSON lines.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._clock: StepClock | None = None

    def begun(self, state: TrainerState) -> None:
        self._clock = StepClock(state)

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        if not state.is_world_process_zero:
            return
        pace = self._clock.seconds_per_step(state) if self._clock else None
        seconds_left = (
            None if pace is None else (state.max_steps - state.global_step) * pace
        )
        # `arena watch` shows it
        self.append({"step": state.global_step, "seconds_left": seconds_left, **logs})

    def append(self, record: dict[str, Any]) -> None:
        """Adds a record; NaN and infinity become null, because JSON has neither."""
        finite = {
            key: None
            if isinstance(value, float) and not math.isfinite(value)
            else value
            for key, value in record.items()
        }
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(finite) + "\n")
