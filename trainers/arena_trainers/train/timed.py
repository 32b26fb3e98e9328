"""`TimedTrainer`: the part of `TurnGRPOTrainer` that measures where the time goes."""

from typing import Any

import torch
from trl import GRPOTrainer

from arena_trainers.train.clock import Clock, Meter


class TimedTrainer(GRPOTrainer):
    """Times forward and backward passes, and logs the speed and the split of time.

    Attributes:
        clock: counts from the start of `train`.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.clock = Clock()
        self._meter = Meter(self.clock)
        super().__init__(*args, **kwargs)

    def train(self, *args: Any, **kwargs: Any) -> Any:
        self.clock.restart()
        self._meter = Meter(self.clock)
        return super().train(*args, **kwargs)

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        with self.clock.part("training"):
            loss: torch.Tensor = super().training_step(*args, **kwargs)
            if self.args.device.type == "cuda":
                torch.cuda.synchronize()  # else its time would count where others wait
        return loss

    def _compute_loss(self, model: Any, inputs: dict[str, Any]) -> torch.Tensor:
        own = inputs["completion_mask"].bool()
        if "tool_mask" in inputs:
            own = own & inputs["tool_mask"].bool()
        lengths = inputs["prompt_mask"].sum(dim=1) + inputs["completion_mask"].sum(
            dim=1
        )
        real = own.any(dim=1)  # all but placeholder rows
        self.clock.counts["trained"] += int((lengths * real).sum())
        loss: torch.Tensor = super()._compute_loss(model, inputs)
        return loss

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs:  # not the summary at the end
            logs.update(self._meter.read())
        super().log(logs, start_time)
