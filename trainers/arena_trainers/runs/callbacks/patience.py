"""The end of a run whose score no longer improves."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from accelerate.utils import gather_object
from transformers import TrainerControl, TrainerState, TrainingArguments

from arena_trainers.runs.callbacks.best import is_better, score_of
from arena_trainers.runs.callbacks.callback import Callback


class Patience(Callback):
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
        **kwargs: Any,
    ) -> None:
        if "loss" not in kwargs["logs"]:
            return  # the summary at the end
        self._count(kwargs["logs"])
        waited = gather_object([self.waited])[0]
        if waited >= self.patience and not self._is_over:
            self._is_over = True
            if state.is_world_process_zero and state.global_step < state.max_steps:
                self.say(
                    f"training ends at step {state.global_step} of {state.max_steps}: "
                    f"{self.metric} has not improved for {waited} evaluations (patience)"
                )
        self.stepped(state, control)  # ends the run at this step already

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        """Ends the run once it is over and no generation batch is in use."""
        if self._is_over and state.global_step % self.window == 0:
            control.should_save = control.should_training_stop = True

    def _count(self, logs: Mapping[str, Any]) -> None:
        score = score_of(logs, self.metric) if "loss" in logs else None
        if score is None:
            return
        self.waited += 1
        if is_better(self.metric, score, self._best):
            self._best, self.waited = score, 0
