"""Resumed runs: one that has made its last step, and one that goes on to more steps."""

from pathlib import Path
from typing import Any

from transformers import TrainerCallback, TrainerState

from arena_trainers.train.saved import keep_to_schedule


def at_the_end(trainer: Any, checkpoint: Path) -> bool:
    """Whether a checkpoint is of the last step; then the trainer takes its weights and state.

    `Trainer.train` would make one more step if the last one is not the last of its epoch.

    Args:
        trainer: a `transformers.Trainer`.
        checkpoint: folder of the newest checkpoint.
    """
    state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    last = trainer.args.max_steps if trainer.args.max_steps > 0 else state.max_steps
    if state.global_step < last:
        return False
    trainer._load_from_checkpoint(str(checkpoint))
    trainer.state = state
    return True


class OwnSchedule(TrainerCallback):
    """Begins with the learning rate of this run's schedule, not with that of the checkpoint."""

    def on_train_begin(
        self, args: Any, state: Any, control: Any, lr_scheduler: Any = None, **_: Any
    ) -> None:
        keep_to_schedule(lr_scheduler)
