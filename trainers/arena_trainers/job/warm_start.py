"""Supervised start: imitation before self-play, by TRL's `SFTTrainer`."""

import random
import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

from arena_trainers.data import Example, supervised_rows
from arena_trainers.lm.policy import LMPolicy

TOKENS_PER_FORWARD = 16_384  # of a micro-batch, where the caller gives no bound
# Learning rates by the number of parameters: what the tiny model and a chat model of 135
# million parameters were measured to bear, and a cautious one for larger models.
RATES = ((10e6, 3e-3), (1e9, 3e-5))
LARGEST_RATE = 1e-5


def default_learning_rate(num_parameters: int) -> float:
    """The learning rate of the supervised start for a model of this size."""
    for limit, rate in RATES:
        if num_parameters < limit:
            return rate
    return LARGEST_RATE


def warm_start(
    policy: LMPolicy,
    examples: Sequence[Example],
    *,
    num_steps: int,
    learning_rate: float | None = None,
    batch_size: int = 256,
    seed: int = 0,
    max_tokens: int = TOKENS_PER_FORWARD,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> list[float]:
    """Trains the policy's model to give the replies of `examples` to their prompts.

    AdamW, linear decay to 0, gradients clipped at norm 1. All processes train together.

    Args:
        policy: whose model is trained.
        examples: what is imitated; every example counts alike.
        num_steps: optimizer steps.
        learning_rate: at the start; default by the model's size.
        batch_size: examples per step, all processes together.
        seed: of the order of the examples.
        max_tokens: most tokens of a micro-batch, padding included.
        on_step: called after each step with its number, from 1, and its loss.

    Returns:
        The loss of each step, in nats per trained token.

    Raises:
        ValueError: there are no examples.
    """
    if not examples:
        raise ValueError("want examples to imitate, got none")
    model = policy.model
    rows = supervised_rows(policy, examples)
    longest = max(len(row["input_ids"]) for row in rows)
    if learning_rate is None:
        learning_rate = default_learning_rate(model.num_parameters())
    losses = _Losses(on_step)
    training = model.training
    with tempfile.TemporaryDirectory() as folder, _own_random_state():
        args = SFTConfig(
            output_dir=folder,
            max_steps=num_steps,
            learning_rate=learning_rate,
            lr_scheduler_type="linear",
            max_grad_norm=1.0,
            seed=seed,
            max_length=None,
            **_sizes(batch_size, max(1, max_tokens // longest)),
            **_quiet(model.device),
        )
        trainer = SFTTrainer(
            model,
            args,
            train_dataset=Dataset.from_list([dict(row) for row in rows]),
            processing_class=policy.tokenizer,
            callbacks=[losses],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    model.train(training)
    return losses.found


def _sizes(batch_size: int, most: int) -> dict[str, int]:
    """Micro-batches of at most `most` rows a process, which make up the batch."""
    from accelerate import PartialState

    own = max(1, batch_size // PartialState().num_processes)
    steps = -(-own // most)
    return {
        "per_device_train_batch_size": -(-own // steps),
        "gradient_accumulation_steps": steps,
    }


def _quiet(device: torch.device) -> dict[str, Any]:
    """Settings that leave files, printing and precision alone."""
    return {
        "use_cpu": device.type == "cpu",
        "bf16": False,
        "gradient_checkpointing": False,
        "logging_steps": 1,
        "save_strategy": "no",
        "report_to": "none",
        "disable_tqdm": True,
        "dataloader_pin_memory": False,
    }


class _Losses(TrainerCallback):
    """Keeps the loss of each step, and tells it on."""

    def __init__(self, on_step: Callable[[int, float], None]) -> None:
        self.found: list[float] = []
        self._on_step = on_step

    def on_log(
        self, args: Any, state: Any, control: Any, logs: Any = None, **kwargs: Any
    ) -> None:
        if logs and "loss" in logs:
            self.found.append(float(logs["loss"]))
            self._on_step(state.global_step, self.found[-1])


@contextmanager
def _own_random_state() -> Iterator[None]:
    """Undoes what the trainer does to the global random generators."""
    before = random.getstate(), np.random.get_state()
    with torch.random.fork_rng(), warnings.catch_warnings():
        yield
    random.setstate(before[0])
    np.random.set_state(before[1])
