"""Warnings of collapse while a run trains; `arena_studio.report.collapse` has the limits."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from transformers import TrainerState

from arena_studio.report.collapse import CollapseLimits
from arena_trainers.runs.callbacks.callback import Callback


class CollapseWarnings(Callback):
    """Warns of figures in the logs that crossed their limits; for the main process.

    Args:
        say: takes a warning.
        before: the logs before the checkpoint that a run resumes from.
    """

    def __init__(
        self, say: Callable[[str], object], before: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self.say, self.limits = say, CollapseLimits()
        for logs in before:
            self.limits.new_warnings(logs)

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        for text in self.limits.new_warnings(logs):
            self.say(f"warning: step {state.global_step}: {text}")
