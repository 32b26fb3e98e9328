"""The file `arena_prompt.json` in every checkpoint."""

from typing import Any

from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_trainers.checkpoint import checkpoint_of
from arena_trainers.lm.prompt_file import PROMPT_FILE
from arena_trainers.train.schedule import keep_to_schedule


class PromptFiles(TrainerCallback):
    """Writes `arena_prompt.json` into every checkpoint, so that it plays or scores.

    Training begins with the learning rate of this run's schedule, not of the checkpoint's.

    Args:
        content: of the file.
    """

    def __init__(self, content: str) -> None:
        self.content = content

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        keep_to_schedule(kwargs["lr_scheduler"])

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        folder = checkpoint_of(str(args.output_dir), state.global_step)
        if state.is_world_process_zero and folder.is_dir():
            (folder / PROMPT_FILE).write_text(self.content)
