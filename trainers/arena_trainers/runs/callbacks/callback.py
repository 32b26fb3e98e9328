"""The base of our callbacks."""

from typing import Any

from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)


class Callback(TrainerCallback):
    """A callback whose events take what they read: the state, and the figures of a log."""

    def begun(self, state: TrainerState) -> None:
        """Training begins or goes on."""

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        """An optimizer step ended."""

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        """Figures were logged; more can be added."""

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        self.begun(state)

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        self.stepped(state, control)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        self.logged(state, kwargs["logs"])
