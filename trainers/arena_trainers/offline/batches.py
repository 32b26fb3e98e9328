"""Rows as tensors, and steps whose gradient is the mean over their rows; nothing is tokenised here."""

import math
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from accelerate.data_loader import prepare_data_loader
from accelerate.utils import DistributedType
from torch.utils.data import DataLoader

from arena_trainers.lm.backends.padding import left_padded
from arena_trainers.offline.protocol import Cut
from arena_trainers.train.finite_steps import FiniteSteps
from arena_trainers.train.score.packing import IGNORED

Rows = Sequence[Mapping[str, Any]]


class WholeSteps(FiniteSteps):
    """A trainer whose step is the mean over its rows, however they are cut; a mixin of others.

    Every process reads the rows of a step and runs its share in micro-batches. The loss of a
    micro-batch counts by its share m / n of the step's rows, unless the trainer divides by all
    tokens of the step itself. Where n rows leave a remainder, some processes run a filler
    row, which counts 0, because all must run equally often. The last step of an epoch has
    the rows that are left.

    Args:
        *args: of the trainer.
        cut: rows of a step, and at once.
        **kwargs: of the trainer.

    Raises:
        ValueError: a loss of mixtures of experts, which compares tokens of a micro-batch,
            would depend on the cut.
    """

    def __init__(self, *args: Any, cut: Cut, **kwargs: Any) -> None:
        self.cut = cut
        super().__init__(*args, **kwargs)
        is_cut = cut.at_once < cut.batch_size
        if is_cut and getattr(self, "aux_loss_enabled", False):
            raise ValueError(
                "want router_aux_loss_coef 0, or all rows at once: the loss would depend on "
                f"the micro-batches of {cut.at_once} of {cut.batch_size} rows; leave "
                "router_aux_loss_coef out, or give a larger --max_tokens_per_forward"
            )

    def _prepare_dataset(self, dataset: Any, *_: Any) -> Any:
        """The rows, which are tokens already."""
        return dataset

    def of_step(self, rows: Rows) -> Rows:
        """All rows of a step; a trainer may add to them what compares rows."""
        return rows

    def get_train_dataloader(self) -> Any:
        rows: Any = self.train_dataset
        sampler = self._get_train_sampler(rows)
        loader: DataLoader[Any] = DataLoader(
            rows,
            self.cut.batch_size,
            sampler=sampler,
            collate_fn=self._parts,
            drop_last=self.args.dataloader_drop_last,
            num_workers=self.args.dataloader_num_workers,
        )
        return prepare_data_loader(
            loader,
            num_processes=1,
            process_index=0,
            use_seedable_sampler=self.accelerator.use_seedable_sampler,
            data_seed=self.args.data_seed,
        )

    def _parts(self, rows: Rows) -> dict[str, Any]:
        """The micro-batches of this process, and the factors of their losses."""
        rows, world = self.of_step(rows), self.args.world_size
        own_rows = rows[self.args.process_index :: world]
        shared, remainder = divmod(len(rows), world)
        num_parts = math.ceil(shared / self.cut.at_once)
        ends = [shared * (i + 1) // num_parts for i in range(num_parts)]
        parts = [own_rows[a:b] for a, b in pairwise([0, *ends])]
        factors = [len(part) * world / len(rows) for part in parts]
        if remainder:
            last_rows = own_rows[shared:]
            parts.append(last_rows or rows[:1])  # a filler row counts 0
            factors.append(world / len(rows) if last_rows else 0.0)
        collate: Any = self.data_collator
        batches = [collate(part) for part in parts]
        for batch, factor in zip(batches, factors, strict=True):
            if factor == 0.0 and "labels" in batch:
                batch["labels"] = torch.full_like(batch["labels"], IGNORED)
        return {"parts": batches, "factors": factors}

    def _get_num_items_in_batch(
        self, batch_samples: list[dict[str, Any]], device: torch.device
    ) -> Any:
        parts = [part for sample in batch_samples for part in sample["parts"]]
        return super()._get_num_items_in_batch(parts, device)

    def floating_point_ops(self, inputs: dict[str, Any]) -> int:
        return sum(
            super(WholeSteps, self).floating_point_ops(p) for p in inputs["parts"]
        )

    def training_step(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        losses = []
        metrics = getattr(self, "_metrics", {"train": {}})["train"]
        num_before = {name: len(values) for name, values in metrics.items()}
        parts, factors = inputs["parts"], inputs["factors"]
        is_deepspeed = self.accelerator.distributed_type == DistributedType.DEEPSPEED
        for number, (part, factor) in enumerate(zip(parts, factors, strict=True), 1):
            is_last = number == len(parts)
            self.accelerator.gradient_state._set_sync_gradients(is_last)
            syncs = is_last or is_deepspeed
            with nullcontext() if syncs else self.accelerator.no_sync(model):
                # the trainer divides the mean over the rows of a part by this number
                divisor: Any = 1 / factor if factor else math.inf
                self.current_gradient_accumulation_steps = divisor
                losses.append(super().training_step(model, part, num_items_in_batch))
        for name, values in metrics.items():
            first = num_before.get(name, 0)
            new = values[first:]
            if new:
                # one value of each part, unless a part has no such rows or all are fillers
                is_weighted = len(new) == len(losses) and any(factors)
                weights = factors if is_weighted else None
                values[first:] = [float(np.average(new, weights=weights))]
        return torch.stack(losses).sum()


def labelled_batch(rows: Rows, pad_id: int) -> dict[str, torch.Tensor]:
    """A batch for a language model: int64[B, W], with labels where the mask is 1.

    Rows are padded on the left. `weights` is float32[B].
    """
    plain = []
    for row in rows:
        prompt_labels = [IGNORED] * len(row["prompt_ids"])
        completion_labels = np.where(
            row["completion_mask"], row["completion_ids"], IGNORED
        )
        labels = prompt_labels + completion_labels.tolist()
        plain.append({"input_ids": _joined(row, "completion"), "labels": labels})
    weights = torch.tensor([row["weight"] for row in rows], dtype=torch.float32)
    return {**left_batch(plain, pad_id), "weights": weights}


def left_batch(rows: Rows, pad_id: int) -> dict[str, torch.Tensor]:
    """Rows of `input_ids` and `labels` that end at the right edge, where the replies then are."""
    cpu = torch.device("cpu")
    ids, mask = left_padded([row["input_ids"] for row in rows], pad_id, cpu)
    labels, _ = left_padded([row["labels"] for row in rows], IGNORED, cpu)
    return {"input_ids": ids, "attention_mask": mask, "labels": labels}


def masked_batch(
    rows: Rows, texts: Sequence[str], pad_id: int
) -> dict[str, torch.Tensor]:
    """A batch of one or more texts of each row: int64[len(texts) * B, W], text by text.

    Rows are padded on the right, as TRL's preference collators do.

    Args:
        rows: pairs, completions or labels.
        texts: names of the completions, such as `("chosen", "rejected")`.
        pad_id: token id of the padding.

    Returns:
        `input_ids`, `attention_mask` and `completion_mask`.
    """
    ids = [_joined(row, text) for text in texts for row in rows]
    masks = [
        [0] * len(row["prompt_ids"]) + list(row[f"{text}_mask"])
        for text in texts
        for row in rows
    ]
    width = max(map(len, ids))
    attention = [[1] * len(row) for row in ids]
    return {
        "input_ids": _right_padded(ids, width, pad_id),
        "attention_mask": _right_padded(attention, width, 0),
        "completion_mask": _right_padded(masks, width, 0),
    }


def _joined(row: Mapping[str, Any], text: str) -> list[int]:
    return [*row["prompt_ids"], *row[f"{text}_ids"]]


def _right_padded(rows: Sequence[list[int]], width: int, value: int) -> torch.Tensor:
    return torch.tensor([row + [value] * (width - len(row)) for row in rows])
