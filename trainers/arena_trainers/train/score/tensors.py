"""Training rows as the tensors that TRL's loss reads."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from numpy.typing import NDArray

from arena_trainers.lm.backends.padding import (
    distinct_lists,
    entry_mask,
    padded_array,
)
from arena_trainers.train.parts import RowFormat
from arena_trainers.train.rows import TrainingRow


def loss_mask(inputs: dict[str, Any]) -> torch.Tensor:
    """bool[B, T]: the tokens that are trained."""
    mask: torch.Tensor = inputs["completion_mask"].bool()
    return mask & inputs["tool_mask"].bool() if "tool_mask" in inputs else mask


def row_tensors(rows: Sequence[TrainingRow], trainer: RowFormat) -> dict[str, Any]:
    """The columns of rows that TRL's loss reads, padded as TRL pads them.

    `prompt_ids` and `prompt_mask` int64[B, P], padded on the left; `completion_ids`,
    `completion_mask` and `tool_mask` int64[B, T], `advantages` and `sampling_per_token_logps`
    float32[B, T], padded on the right; `num_items_in_batch` and `num_rows_in_batch`, the tokens and the
    rows that all processes train.
    """
    # each prompt is written once, as most rows of a small game share theirs
    prompts, prompt_of = distinct_lists([row.prompt_ids for row in rows])
    replies = [row.completion_ids for row in rows]
    multiple = trainer.pad_to_multiple_of or 1
    pad_id = trainer.policy.tokenizer.pad_token_id
    prompt_mask = entry_mask(prompts, multiple)[:, ::-1]
    reply_mask = entry_mask(replies, multiple)
    completion_mask = reply_mask.astype(np.int64)
    sampled_mask = padded_array([row.loss_mask for row in rows], reply_mask, 0)
    if trainer.mask_truncated_completions:
        ends = [*trainer.eos_token_ids, pad_id]
        is_whole = np.array(
            [[row.advantage is None or row.completion_ids[-1] in ends] for row in rows]
        )
        sampled_mask = sampled_mask * is_whole
        completion_mask = completion_mask * is_whole
    logprobs: list[Sequence[float]] = []
    advantages: list[Any] = []
    for row in rows:
        zeros = (0.0,) * len(row.completion_ids)
        logprobs.append(row.logprobs or zeros)
        advantages.append(zeros if row.advantage is None else row.advantage)
    trained = sampled_mask * completion_mask
    sizes = int(trained.sum()), int(trained.any(axis=1).sum())
    num_tokens, num_rows = np.array(gather_object([sizes])).sum(axis=0)
    sampled_logprobs = padded_array(logprobs, reply_mask, 0.0)
    columns = {
        "prompt_ids": padded_array(prompts, prompt_mask, pad_id)[prompt_of],
        "prompt_mask": prompt_mask.astype(np.int64)[prompt_of],
        "completion_ids": padded_array(replies, reply_mask, pad_id),
        "completion_mask": completion_mask,
        "tool_mask": sampled_mask,
        "advantages": padded_array(advantages, reply_mask, 0.0),
        "sampling_per_token_logps": np.where(sampled_mask, sampled_logprobs, 0.0),
        "num_items_in_batch": np.array(num_tokens),
        "num_rows_in_batch": np.array(num_rows),
    }
    return {
        name: _tensor(values, trainer.accelerator.device)
        for name, values in columns.items()
    }


def _tensor(values: NDArray[Any], device: torch.device) -> torch.Tensor:
    """A tensor on the device; floats have 32 bits."""
    if values.dtype == np.float64:
        values = values.astype(np.float32)
    return torch.from_numpy(values).to(device)


def prompts_with_replies(
    batch: Mapping[str, Any],
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Ids and mask of prompts with replies, int64[B, P + T], and T."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    return ids, mask, batch["completion_ids"].shape[1]
