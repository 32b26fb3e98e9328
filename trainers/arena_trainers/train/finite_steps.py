"""`FiniteSteps`: a trainer whose updates are finite, and reach its weights."""

from typing import Any

import torch
from transformers import (
    Trainer,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_trainers.finite import ADVICE, Diverged, check_finite_weights
from arena_trainers.train.trained_weights import MovedWeights, prepare_weights


class FiniteSteps(Trainer):
    """Stops at the first loss or gradient that is not finite; a mixin of trainers.

    The weights do not get such an update, and no file gets weights that are not finite. A scaler
    of gradients in half precision skips such updates itself; then the loss alone counts. Weights
    that are trained are float32, and the share of them that moves is logged; DeepSpeed keeps
    float32 copies itself.

    Attributes:
        advice: what to train with instead.
    """

    advice = ADVICE

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.losses: list[torch.Tensor] = []  # since the last update
        self.add_callback(_BeforeUpdate(self))
        self._moved: MovedWeights | None = None
        if not self.is_deepspeed_enabled:
            model: Any = self.model
            prepare_weights(model, self.args.learning_rate)
            self._moved = MovedWeights(model)
            self.add_callback(self._moved)

    def log(self, logs: dict[str, float], start_time: float | None = None) -> None:
        if "loss" in logs and self._moved is not None:  # not the summary at the end
            logs.update(self._moved.figures(logs.get("grad_norm")))
        super().log(logs, start_time)

    def training_step(self, *args: Any, **kwargs: Any) -> torch.Tensor:
        loss = super().training_step(*args, **kwargs)
        self.losses.append(loss.detach())
        return loss

    def check_update(self) -> None:
        """Raises Diverged if a loss since the last update, or the gradient, is not finite."""
        losses, self.losses = self.losses, []
        numbers = {"the loss": torch.stack(losses).sum()} if losses else {}
        weights: Any = self.model.parameters()  # type: ignore[union-attr] # there is one
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        if gradients and getattr(self.accelerator, "scaler", None) is None:
            norm: Any = torch.nn.utils.get_total_norm(gradients)
            whole = getattr(norm, "full_tensor", None)  # of weights that are sharded
            numbers["the norm of the gradient"] = norm if whole is None else whole()
        faults = [f"{n} {float(x)}" for n, x in numbers.items() if not x.isfinite()]
        if faults:
            raise Diverged(
                f"training has diverged at step {self.state.global_step + 1}: got "
                f"{' and '.join(faults)}; nothing of this step is saved; train with "
                f"{self.advice}"
            )

    def save_model(
        self, output_dir: str | None = None, _internal_call: bool = False
    ) -> None:
        self.check_weights()
        super().save_model(output_dir, _internal_call)

    def check_weights(self) -> None:
        """Raises Diverged if a weight is not finite."""
        parameters: Any = self.model.named_parameters()  # type: ignore[union-attr] # there is one
        check_finite_weights(
            parameters, f"the model after step {self.state.global_step}"
        )


class _BeforeUpdate(TrainerCallback):
    def __init__(self, trainer: FiniteSteps) -> None:
        self.trainer = trainer

    def on_pre_optimizer_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        self.trainer.check_update()
