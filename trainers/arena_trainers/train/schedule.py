"""The learning rate of a run that goes on: it follows the schedule of the new settings."""

from typing import Any

from torch.optim.lr_scheduler import LambdaLR
from transformers import TrainingArguments


def keep_to_schedule(scheduler: Any) -> None:
    """Sets the learning rate to that of the new schedule at the current step.

    A checkpoint holds the rate of its own schedule, such as 0 at the end of a linear one,
    which would be wrong if the run goes on to more steps. Nothing changes if the schedule is
    the same.
    """
    schedule = getattr(scheduler, "scheduler", scheduler)  # accelerate may wrap it
    if isinstance(schedule, LambdaLR):
        parts = zip(
            schedule.optimizer.param_groups,
            schedule.base_lrs,
            schedule.lr_lambdas,
            strict=True,
        )
        rates = [base * factor(schedule.last_epoch) for _, base, factor in parts]
        for group, rate in zip(schedule.optimizer.param_groups, rates, strict=True):
            group["lr"] = rate
        schedule._last_lr = rates


def describe(step: int, args: TrainingArguments, extended: bool) -> str:
    """The line that is printed when a run goes on from a step."""
    text = f"going on after step {step} of {args.max_steps}"
    if extended:
        text += (
            f", from the last weights and optimizer state; the learning rate now follows "
            f"the {getattr(args.lr_scheduler_type, 'value', args.lr_scheduler_type)} "
            f"schedule of {args.max_steps} steps, from step {step} of it"
        )
    return text
