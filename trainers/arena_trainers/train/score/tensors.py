"""Training rows as the tensors that TRL's loss reads."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object

from arena_trainers.lm.backends.scoring import filled, places
from arena_trainers.train.rows import TrainingRow


def loss_mask(inputs: dict[str, Any]) -> torch.Tensor:
    """bool[B, T]: the tokens that are trained."""
    mask: torch.Tensor = inputs["completion_mask"].bool()
    return mask & inputs["tool_mask"].bool() if "tool_mask" in inputs else mask


def row_tensors(rows: Sequence[TrainingRow], trainer: Any) -> dict[str, Any]:
    """The columns of rows that TRL's loss reads, padded as TRL pads them.

    `prompt_ids` and `prompt_mask` int64[B, P], padded on the left; `completion_ids`,
    `completion_mask` and `tool_mask` int64[B, T], `advantages` and `sampling_per_token_logps`
    float32[B, T], padded on the right; `num_items_in_batch` and `num_rows_in_batch`, the tokens and the
    rows that all processes train.
    """
    prompts, replies = [r.prompt_ids for r in rows], [r.completion_ids for r in rows]
    unit, pad = trainer.pad_to_multiple_of or 1, trainer.policy.tokenizer.pad_token_id
    seen, said = places(prompts, unit)[:, ::-1], places(replies, unit)
    own, shown = filled([r.loss_mask for r in rows], said, 0), said.astype(np.int64)
    if trainer.mask_truncated_completions:
        ends = [*trainer.eos_token_ids, pad]
        whole = np.array(
            [[r.advantage is None or r.completion_ids[-1] in ends] for r in rows]
        )
        own, shown = own * whole, shown * whole
    none = [(0.0,) * len(ids) for ids in replies]
    sampled = [r.logprobs or zero for r, zero in zip(rows, none, strict=True)]
    credit: list[Any] = [
        zero if r.advantage is None else r.advantage
        for r, zero in zip(rows, none, strict=True)
    ]
    trained = own * shown
    sizes = int(trained.sum()), int(trained.any(axis=1).sum())
    num_tokens, num_rows = np.array(gather_object([sizes])).sum(axis=0)
    found = {
        "prompt_ids": filled(prompts, seen, pad),
        "prompt_mask": seen.astype(np.int64),
        "completion_ids": filled(replies, said, pad),
        "completion_mask": shown,
        "tool_mask": own,
        "advantages": filled(credit, said, 0.0),
        "sampling_per_token_logps": np.where(own, filled(sampled, said, 0.0), 0.0),
        "num_items_in_batch": np.array(num_tokens),
        "num_rows_in_batch": np.array(num_rows),
    }
    return {
        name: torch.from_numpy(x.astype(np.float32) if x.dtype == np.float64 else x).to(
            trainer.accelerator.device
        )
        for name, x in found.items()
    }


def prompts_with_replies(
    batch: Mapping[str, Any],
) -> tuple[torch.Tensor, torch.Tensor, int]:
    """Ids and mask of prompts with replies, int64[B, P + T], and T."""
    ids = torch.cat([batch["prompt_ids"], batch["completion_ids"]], dim=1)
    mask = torch.cat([batch["prompt_mask"], batch["completion_mask"]], dim=1)
    return ids, mask, batch["completion_ids"].shape[1]
