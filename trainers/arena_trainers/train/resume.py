"""How a resumed run goes on: its learning rate, and what is said of it."""

from typing import Any

from torch.optim.lr_scheduler import LambdaLR


def keep_to_schedule(scheduler: Any) -> None:
    """Sets the learning rate to what the schedule says of the step that was reached.

    A checkpoint brings the rate of its own schedule: 0 at the end of a linear one, where a
    run goes on to more steps. Where the schedule is the same, nothing changes.
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


def describe(step: int, args: Any, extended: bool) -> str:
    """What is printed when a run goes on from a step."""
    text = f"going on after step {step} of {args.max_steps}"
    if extended:
        text += (
            f", from the last weights and optimizer state; the learning rate now follows "
            f"the {getattr(args.lr_scheduler_type, 'value', args.lr_scheduler_type)} "
            f"schedule of {args.max_steps} steps, from step {step} of it"
        )
    return text
