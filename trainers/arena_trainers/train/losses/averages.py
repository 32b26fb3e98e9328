"""Means of a loss over trained rows: as TRL takes them, without placeholder rows."""

from collections.abc import Mapping
from typing import Any

from arena_trainers.train.parts import NormalisedLoop
from arena_trainers.train.rows import PER_TOKEN_LOSSES
from arena_trainers.train.score.tensors import loss_mask


def rows_factor(trainer: NormalisedLoop, inputs: Mapping[str, Any]) -> Any:
    """What TRL's loss of a micro-batch is multiplied by, so that placeholder rows do not count.

    TRL takes the mean over the rows of each micro-batch, or over their tokens (`bnpo`), and then the
    mean over micro-batches and processes. The numbers of placeholder rows differ between them. With
    R trained rows in all, and M micro-batches of all processes, the factor of a micro-batch is

        bnpo     M r / R for r trained rows in it
        others   M n / R for n rows in it, placeholder rows included

    Then all rows of a batch weigh alike, whatever the number of processes; with `bnpo` up to the
    tokens of the micro-batch that they share. It is 1 without placeholder rows, and for losses that
    divide by all tokens of the batch.
    """
    if trainer.loss_type in PER_TOKEN_LOSSES:
        return 1.0
    args, mask = trainer.args, loss_mask(dict(inputs))
    parts = (args.steps_per_generation or 1) if trainer.model.training else 1
    num_parts = parts * trainer.accelerator.num_processes
    is_local = trainer.loss_type == "bnpo"
    num_rows = mask.any(dim=1).sum() if is_local else len(mask)
    return num_parts * num_rows / inputs["num_rows_in_batch"].clamp(min=1)


def averaged(
    per_token: Any, mask: Any, trainer: NormalisedLoop, inputs: Mapping[str, Any]
) -> Any:
    """The mean of a loss per token over trained rows, as TRL takes it for the `loss_type`."""
    mean = _averaged(per_token, mask, trainer, inputs)
    return rows_factor(trainer, inputs) * mean


def _averaged(
    per_token: Any, mask: Any, trainer: NormalisedLoop, inputs: Mapping[str, Any]
) -> Any:
    kind, args, total = trainer.loss_type, trainer.args, (per_token * mask).sum()
    trains = trainer.model.training
    parts = trainer.current_gradient_accumulation_steps if trains else 1.0
    if kind in PER_TOKEN_LOSSES:
        share = parts / (args.steps_per_generation or 1) if trains else 1.0
        count = inputs["num_items_in_batch"].clamp(min=1.0)
        return total / (count / trainer.accelerator.num_processes * share)
    if kind == "bnpo":
        return total / mask.sum().clamp(min=1.0) / parts
    if kind == "dr_grpo":
        return total / (len(mask) * (trainer.max_completion_length or 1)) / parts
    rows = (per_token * mask).sum(-1)
    if kind != "luspo":
        rows = rows / mask.sum(-1).clamp(min=1.0)
    return rows.mean() / parts
