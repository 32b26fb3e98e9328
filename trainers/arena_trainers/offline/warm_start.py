"""Supervised start, so that self-play begins with replies that parse: TRL's `SFTTrainer`.

Only the tokens of a reply are trained, and the token that ends it, as the policy would
sample them. Memory is bounded: a step's batch is cut into micro-batches of at most
`max_tokens_per_forward` tokens, in which equal rows run once.
"""

import math
import random
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from accelerate.data_loader import SeedableRandomSampler
from accelerate.state import AcceleratorState
from datasets import Dataset
from torch.utils.data import Sampler
from transformers import (
    PreTrainedModel,
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from trl import SFTConfig

from arena_trainers.data import Example
from arena_trainers.lm.backends.memory import default_max_tokens
from arena_trainers.lm.policy import NUM_CHECKED, LMPolicy
from arena_trainers.offline.batches import WholeSteps, left_batch
from arena_trainers.offline.protocol import Cut
from arena_trainers.offline.sft import SharingSFTTrainer
from arena_trainers.train.score.packing import IGNORED


class _ByLength(Sampler[int]):
    """The rows as accelerate orders them, those of a step by length, which saves padding."""

    def __init__(self, lengths: Sequence[int], step: int, seed: int) -> None:
        self.lengths, self.step = lengths, step
        generator = torch.Generator()
        self.inner = SeedableRandomSampler(lengths, generator=generator, data_seed=seed)

    def __iter__(self) -> Iterator[int]:
        order = list(self.inner)
        for start in range(0, len(order), self.step):
            rows = order[start : start + self.step]
            yield from sorted(rows, key=self.lengths.__getitem__)

    def __len__(self) -> int:
        return len(self.lengths)


class _WarmStart(WholeSteps, SharingSFTTrainer):
    """`SharingSFTTrainer` that runs rows of one length together where a step is cut."""

    advice = "a lower warm_start_learning_rate"

    def train(self, *args: Any, **kwargs: Any) -> Any:
        output = super().train(*args, **kwargs)
        self.check_weights()  # after the last update
        return output

    def _get_train_sampler(self, train_dataset: Any = None) -> Any:
        rows: Any = train_dataset or self.train_dataset
        if self.cut.at_once * self.args.world_size >= self.cut.batch_size:
            return super()._get_train_sampler(train_dataset)
        lengths = [len(ids) for ids in rows["input_ids"]]
        return _ByLength(lengths, self.cut.batch_size, self.args.seed)


class Steps(TrainerCallback):
    """Keeps the loss of each step, and calls a function with its number and its loss."""

    def __init__(self, on_step: Callable[[int, float], None]) -> None:
        self.on_step = on_step
        self.losses: list[float] = []

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        logs = kwargs["logs"]
        if "loss" in logs:
            self.losses.append(float(logs["loss"]))
            self.on_step(state.global_step, self.losses[-1])


def default_learning_rate(num_parameters: int) -> float:
    """3e-3 up to 100,000 parameters, from there on falling: 2.5e-5 at 135 million."""
    share: float = min(1.0, 1e5 / num_parameters)
    return 3e-3 * math.cbrt(share) ** 2


def warm_start(
    policy: LMPolicy,
    examples: Sequence[Example],
    *,
    num_steps: int,
    learning_rate: float | None = None,
    batch_size: int = 256,
    seed: int = 0,
    max_tokens: int | None = None,
    checkpointing: bool = False,
    on_step: Callable[[int, float], None] = lambda step, loss: None,
) -> list[float]:
    """Trains the policy's model to say the replies of `examples` to their prompts.

    In a distributed run every process calls it with the same examples.

    Args:
        policy: whose model is trained.
        examples: what is imitated; every example counts alike. Those beyond the model's
            context are left out, because play never asks for them.
        num_steps: optimizer steps (AdamW, linear decay to 0).
        learning_rate: at the start; by default from the model's size.
        batch_size: examples per step, all processes together.
        seed: of the order of the examples.
        max_tokens: most tokens that run at once; by default what memory allows.
        checkpointing: whether activations are computed again in the backward pass.
        on_step: called after each step with its number, from 1, and its loss.

    Returns:
        The loss of each step, in nats per token.

    Raises:
        ValueError: there are no examples, or all are longer than the model's context.
    """
    if not examples:
        raise ValueError("want examples to imitate, got none")
    model: Any = policy.model
    rows = _rows(policy, examples)
    longest = max(len(row["input_ids"]) for row in rows)
    cut = {"checkpointing": checkpointing}
    max_tokens = max_tokens or default_max_tokens(model, model.device, **cut)
    if learning_rate is None:
        learning_rate = default_learning_rate(model.num_parameters())
    steps = Steps(on_step)
    with tempfile.TemporaryDirectory() as folder, _restored(model):
        args = _arguments(folder, model, checkpointing)
        args.max_steps, args.learning_rate = num_steps, learning_rate
        args.seed = args.data_seed = seed
        trainer = _WarmStart(
            model,
            args,
            train_dataset=Dataset.from_list(rows),
            processing_class=policy.tokenizer,
            cut=_cut(batch_size, args.world_size, max_tokens // longest),
            data_collator=lambda rows: left_batch(rows, policy.pad_id),
            callbacks=[steps],
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
        if checkpointing:
            model.gradient_checkpointing_disable()
    return steps.losses


def _rows(policy: LMPolicy, examples: Sequence[Example]) -> list[dict[str, list[int]]]:
    """The rows of the examples that fit the model's context.

    Raises:
        ValueError: none does, or tokens are not those of whole texts.
    """
    for example in examples[:NUM_CHECKED]:
        policy.chat.check_reply(example.messages, example.reply)
    most = policy.max_context or math.inf
    every = (_row(policy, example) for example in examples)
    rows = [row for row in every if len(row["input_ids"]) <= most]
    if not rows:
        raise ValueError(
            f"want examples of at most {most} tokens, the model's context, got longer ones "
            "alone; give shorter prompts, or a model with a longer context"
        )
    return rows


def _row(policy: LMPolicy, example: Example) -> dict[str, list[int]]:
    """Token ids, and labels of the reply and of the token that ends it."""
    prompt = policy.encode(example.messages)
    reply = [*policy.chat.reply_ids(prompt, example.reply), policy.eos_ids[0]]
    return {
        "input_ids": prompt + reply,
        "labels": [IGNORED] * len(prompt) + reply,
    }


def _cut(batch_size: int, num_processes: int, most: int) -> Cut:
    """Steps of `batch_size` rows, of which each process runs at most `most` at once."""
    share = math.ceil(batch_size / num_processes)
    parts = math.ceil(share / max(most, 1))
    return Cut(batch_size, math.ceil(share / parts))


def _arguments(folder: str, model: PreTrainedModel, checkpointing: bool) -> SFTConfig:
    """Settings of a warm start, but for its length."""
    return SFTConfig(
        output_dir=folder,
        use_cpu=model.device.type == "cpu",
        bf16=False,
        gradient_checkpointing=checkpointing,
        lr_scheduler_type="linear",
        weight_decay=0.01,
        max_grad_norm=1.0,
        max_length=None,
        dataset_kwargs={"skip_prepare_dataset": True},
        remove_unused_columns=False,
        save_strategy="no",
        logging_steps=1,
        report_to="none",
        disable_tqdm=True,
        ddp_find_unused_parameters=False,
    )


@contextmanager
def _restored(model: PreTrainedModel) -> Iterator[None]:
    """Undoes what trainers change, except the weights: the mode, random states, precision."""
    training, own_forward = model.training, vars(model).get("forward")
    states = random.getstate(), np.random.get_state()
    try:
        with torch.random.fork_rng():
            yield
    finally:
        AcceleratorState._reset_state()  # else a trainer in bf16 is refused after this one
        random.setstate(states[0])
        np.random.set_state(states[1])
        model.train(training)
        vars(model).pop("forward", None)
        if own_forward is not None:
            model.forward = own_forward
