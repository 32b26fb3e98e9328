"""The weights that are trained: their precision, and the share of them that moves.

An update of AdamW is about the learning rate for each weight. Half the distance between two numbers of
bfloat16 near 0.02 is 6e-5, so that an update of 1e-6 is rounded away. Weights that are trained
directly are therefore float32; forward passes run them in half precision by autocast.
"""

import math
import warnings
from typing import Any

import torch
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_trainers.train.checks import half_precision_error

NUM_COMPARED = 65_536  # weights, spread over all that are trained
LEAST_SHARE = 0.1  # of the weights with a gradient, below which a log warns
MOVED = "arena/moved_weights"


def prepare_weights(model: torch.nn.Module, learning_rate: float) -> None:
    """Makes the weights of adapters float32, and refuses others in half precision.

    TRL makes adapters of quantized models bfloat16.

    Raises:
        ValueError: the model's own weights are trained in half precision.
    """
    for name, weight in model.named_parameters():
        if not weight.requires_grad or weight.dtype in (torch.float32, torch.float64):
            continue
        if "lora_" not in name:
            dtype = str(weight.dtype).removeprefix("torch.")
            raise ValueError(half_precision_error(dtype, learning_rate))
        weight.data = weight.data.float()


class MovedWeights(TrainerCallback):
    """Measures which share of the trained weights moved since the last log.

    Where processes share the weights, each measures its own part.

    Args:
        model: that is trained.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self.model = model
        self._trained: list[torch.Tensor] = []
        self._sample: list[torch.Tensor] = []
        self._have_gradient: set[int] = set()

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **_: Any,
    ) -> None:
        self._trained = [w for w in self.model.parameters() if w.requires_grad]
        self._sample, self._have_gradient = self._read_sample(), set()

    def on_optimizer_step(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        """Notes which weights had a gradient and a learning rate above 0."""
        if any(group["lr"] > 0 for group in kwargs["optimizer"].param_groups):
            weights = enumerate(self._trained)
            self._have_gradient |= {i for i, w in weights if w.grad is not None}

    def figures(self, grad_norm: float | None = None) -> dict[str, float]:
        """The metric since the last call; nothing if no weight had a gradient.

        Warns of a low share unless `grad_norm`, that of the last step, is 0.
        """
        before, self._sample = self._sample, self._read_sample()
        moved, total = [], 0
        for i in sorted(self._have_gradient):
            moved.append((self._sample[i] != before[i]).sum())
            total += len(before[i])
        self._have_gradient = set()
        if not total:
            return {}
        share = int(torch.stack(moved).sum()) / total
        if share < LEAST_SHARE and grad_norm != 0:
            warnings.warn(
                f"{share:.2%} of the trained weights have moved since the last log: their "
                "updates are rounded away, or most gradients are 0; train float32 weights "
                "(--model_init_kwargs '{dtype: float32}'), with a higher --learning_rate",
                stacklevel=3,
            )
        return {MOVED: share}

    def _read_sample(self) -> list[torch.Tensor]:
        """Equally spaced numbers of each trained weight, of this process's part."""
        parts = []
        for weight in self._trained:
            local = getattr(weight, "to_local", lambda weight=weight: weight)()
            parts.append(local.detach().reshape(-1))
        stride = max(1, math.ceil(sum(map(len, parts)) / NUM_COMPARED))
        return [part[::stride].clone() for part in parts]
