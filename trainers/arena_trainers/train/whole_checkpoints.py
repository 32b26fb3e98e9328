"""Whole checkpoints of any trainer: a manifest at the end of each, and the reference model that moves."""

import shutil
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol, cast

import torch
from accelerate import Accelerator
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_trainers.checkpoint import (
    checkpoint_of,
    fault,
    files_of,
    newest_checkpoint,
    rotate,
    write_manifest,
)
from arena_trainers.finite import ADVICE, weights_fault
from arena_trainers.processes import raised_everywhere
from arena_trainers.train.score.sharding import load_whole

REFERENCE = "reference_model.pt"


class SavingTrainer(Protocol):
    """A trainer of transformers."""

    accelerator: Accelerator

    @property
    def args(self) -> TrainingArguments:
        """Its settings."""
        ...


class ReferenceOwner(SavingTrainer, Protocol):
    """A trainer of TRL, with a reference model."""

    ref_model: Any


class WholeCheckpoints(TrainerCallback):
    """Ends each checkpoint with its manifest, and only then deletes older ones.

    It also saves a reference model that moves. It must be the last callback that writes into
    checkpoints. `Trainer` would delete older checkpoints before callbacks write. So
    `save_total_limit` is None while it trains.

    Args:
        trainer: any `transformers.Trainer`.
        others: lists files outside of the checkpoint that it needs.
    """

    def __init__(
        self, trainer: SavingTrainer, others: Callable[[], Iterable[Path]] = tuple
    ) -> None:
        self.trainer, self.others = trainer, others
        self.limit: int | None = None

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        self.limit, args.save_total_limit = args.save_total_limit, None

    def on_train_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        args.save_total_limit = self.limit

    def on_step_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        """Deletes the checkpoint of the step that begins: it was left by a run that ended."""
        folder = checkpoint_of(str(args.output_dir), state.global_step + 1)
        if args.should_save and folder.is_dir():
            shutil.rmtree(folder)

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        folder = checkpoint_of(str(args.output_dir), state.global_step)
        weights = None
        if moves_reference(args):  # every process takes part where it is sharded
            reference = cast(ReferenceOwner, self.trainer).ref_model
            weights = self.trainer.accelerator.get_state_dict(reference)
        self.trainer.accelerator.wait_for_everyone()  # each has written its random state
        with raised_everywhere():
            if args.should_save:
                if weights is not None:
                    torch.save(weights, folder / REFERENCE)
                files = [*files_of(folder), *self.others()]
                resumes = not args.save_only_model
                write_manifest(
                    folder, files, processes=args.world_size, resumes=resumes
                )
                rotate(folder, self.limit, state.best_model_checkpoint)


def moves_reference(args: TrainingArguments) -> bool:
    """Whether the reference model follows the model that is trained."""
    return bool(getattr(args, "sync_ref_model", False))


def load_reference(trainer: SavingTrainer, checkpoint: Path) -> None:
    """Gives a trainer the reference model of a checkpoint, if it moves.

    Raises:
        ValueError: the checkpoint has none.
    """
    if not moves_reference(trainer.args):
        return
    path = checkpoint / REFERENCE
    if not path.is_file():
        raise ValueError(
            "want reference_model.pt in a checkpoint of a run with sync_ref_model, got "
            f"none in {str(checkpoint)!r}; resume with the settings of that run"
        )
    weights = torch.load(path, map_location="cpu", weights_only=True)
    load_whole(cast(ReferenceOwner, trainer).ref_model, weights, trainer.accelerator)


def whole_checkpoint(folder: Path, checkpoint: Any) -> str | None:
    """The checkpoint that training resumes from, if any.

    Args:
        folder: the run folder.
        checkpoint: a checkpoint, True for the newest valid one, or None.

    Raises:
        ValueError: the checkpoint is not as it was written or has weights that are not finite, or
            there is none.
    """
    if checkpoint is True:
        newest = newest_checkpoint(folder)
        skipped = "; ".join(newest.skipped) or "none was written"
        if newest.checkpoint is None:
            raise ValueError(
                f"want a valid checkpoint in {str(folder)!r}: {skipped}; train without "
                "resume_from_checkpoint"
            )
        if (reason := weights_fault(newest.checkpoint)) is not None:
            raise ValueError(
                f"want finite weights in {str(newest.checkpoint)!r}, but {reason}; train from an "
                f"earlier checkpoint with {ADVICE}"
            )
        if newest.skipped:
            warnings.warn(f"skipped {skipped}", stacklevel=3)
        return str(newest.checkpoint)
    if not checkpoint:
        return None
    reason = fault(Path(checkpoint))
    if reason is not None:
        raise ValueError(
            f"want a whole checkpoint, got {checkpoint!r}: {reason}; resume from an "
            "earlier one"
        )
    return str(checkpoint)
