"""`Patience`: ends a run whose score has not improved for so many evaluations."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accelerate.utils import gather_object
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_trainers.job.best import is_better, score_of


class Patience(TrainerCallback):
    """Counts evaluations since the best score; a log with a score is an evaluation.

    All processes call it; the main one counts. The run ends between generation batches, with
    a checkpoint. A run that was ended so and is resumed counts anew.

    Args:
        metric: of `score_metric`.
        patience: evaluations without a better score after which the run ends.
        window: optimizer steps that share a generation batch.
        say: takes the line that tells why the run ends, in the main process.
        before: the logs before the checkpoint that a run resumes from.
    """

    def __init__(
        self,
        metric: str,
        patience: int,
        window: int,
        say: Callable[[str], object],
        before: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        self.metric, self.patience, self.window = metric, patience, window
        self.say = say
        self.waited = 0
        self._best: float | None = None
        self._is_over = False
        for logs in before:
            self._count(logs)
        if self.waited >= patience:
            self.waited = 0

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> TrainerControl:
        if "loss" not in (logs or {}):
            return control  # the summary at the end
        self._count(logs or {})
        waited = gather_object([self.waited])[0]
        if waited >= self.patience and not self._is_over:
            self._is_over = True
            if state.is_world_process_zero and state.global_step < state.max_steps:
                self.say(
                    f"training ends at step {state.global_step} of {state.max_steps}: "
                    f"{self.metric} has not improved for {waited} evaluations (patience)"
                )
        return self.on_step_end(args, state, control)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> TrainerControl:
        """Ends the run once it is over and no generation batch is in use."""
        if self._is_over and state.global_step % self.window == 0:
            control.should_save = control.should_training_stop = True
        return control

    def _count(self, logs: Mapping[str, Any]) -> None:
        score = score_of(logs, self.metric) if "loss" in logs else None
        if score is None:
            return
        self.waited += 1
        if is_better(self.metric, score, self._best):
            self._best, self.waited = score, 0
