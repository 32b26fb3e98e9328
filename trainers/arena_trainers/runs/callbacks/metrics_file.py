"""The file of JSON lines that has every log."""

import json
import math
from pathlib import Path
from typing import Any

from transformers import TrainerState

from arena_trainers.runs.callbacks.callback import Callback


class MetricsFile(Callback):
    """Appends every log to a file of JSON lines.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        if not state.is_world_process_zero:
            return
        self.append({"step": state.global_step, **logs})

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
