"""`kto`: TRL's `KTOTrainer` on labels, with their masks; weights are repetitions.

The KL term is that of a whole step: each prompt of the step is followed by the completion of the
row before it, and the mean of the log-ratios of all these is the reference point of all rows. TRL
estimates it from each micro-batch, so that its gradient depends on the cut. The last step of an epoch may
have one row; then the KL term is of its own completion.
"""

from typing import Any

import numpy as np
import torch
from datasets import Dataset
from trl import (
    KTOConfig,
    KTOTrainer,
)

from arena_trainers.offline.batches import Rows, WholeSteps, masked_batch
from arena_trainers.offline.protocol import RowTrainer, TrainerParts

MAX_REPETITIONS = 1000  # of a row; the order of all repetitions is kept in memory


class TokenKTOTrainer(WholeSteps, KTOTrainer):
    """TRL's trainer on rows that are tokens already, with one KL term for each step."""

    _kl: torch.Tensor

    def of_step(self, rows: Rows) -> Rows:
        """Each row with the completion of the row before it."""
        rows_with_kl = []
        for row, row_before in zip(rows, [rows[-1], *rows[:-1]], strict=True):
            kl_columns = {
                "KL_ids": row_before["completion_ids"],
                "KL_mask": row_before["completion_mask"],
            }
            rows_with_kl.append({**row, **kl_columns})
        return rows_with_kl

    def training_step(
        self,
        model: torch.nn.Module,
        inputs: dict[str, Any],
        num_items_in_batch: torch.Tensor | int | None = None,
    ) -> torch.Tensor:
        kl = torch.zeros((), device=self.args.device)
        parts = [self._prepare_inputs(part) for part in inputs["parts"]]
        for part, factor in zip(parts, inputs["factors"], strict=True):
            reference = model if self.ref_model is None else self.ref_model
            part["ref_logps"], old = self.compute_ref_log_probs(reference, part)
            part["ref_KL_logps"] = torch.zeros((), device=kl.device)
            if self.calculate_KL:
                kl += factor * (super()._compute_kl_logps(model, part) - old).mean()
        self._kl = self.accelerator.reduce(kl, "mean")
        return super().training_step(
            model, {**inputs, "parts": parts}, num_items_in_batch
        )

    def _compute_kl_logps(
        self, model: torch.nn.Module, batch: dict[str, torch.Tensor]
    ) -> torch.Tensor:
        """The KL term of the step; `ref_KL_logps` is 0."""
        return self._kl


def kto() -> RowTrainer:
    """Raises good completions and lowers bad ones."""
    return RowTrainer("labels", KTOConfig, _make, least=2)


def _make(parts: TrainerParts[KTOConfig]) -> TokenKTOTrainer:
    trainer = parts.trainer(
        TokenKTOTrainer,
        lambda rows: _batch(rows, parts.pad_id),
        train_dataset=_repeated(parts.rows, parts.args.seed),
    )
    trainer.precompute_ref_logps = True  # by `training_step`, before the loss
    return trainer


def _repeated(rows: Dataset, seed: int) -> Dataset:
    """Each row as often as its weight says, relative to the smallest one, in a random order.

    TRL reads them in this order, since `train_sampling_strategy` is `sequential` by default.

    Raises:
        ValueError: a weight is no multiple of the smallest, or above `MAX_REPETITIONS` times
            the smallest.
    """
    weights = np.asarray(rows["weight"])
    least = weights[weights > 0].min()
    if weights.max() > MAX_REPETITIONS * least:
        raise ValueError(
            f"want weights of at most {MAX_REPETITIONS:,} times the smallest one "
            f"({least:g}) for trainer 'kto', which repeats rows, got "
            f"{weights.max():g}; choose rows of closer weights"
        )
    times = np.round(weights / least).astype(np.int64)
    if not np.allclose(times * least, weights):
        raise ValueError(
            f"want weights that are multiples of the smallest one ({least:g}) for "
            "trainer 'kto', which repeats rows; choose rows of such weights"
        )
    order = np.repeat(np.arange(len(rows)), times)
    np.random.default_rng(seed).shuffle(order)
    repeated: Dataset = rows.select(order)
    return repeated


def _batch(rows: Rows, pad_id: int) -> dict[str, torch.Tensor]:
    """The completions, those of the KL term as columns `KL_NAME`, and the labels."""
    batch = masked_batch(rows, ("completion",), pad_id)
    for name, column in masked_batch(rows, ("KL",), pad_id).items():
        batch[f"KL_{name}"] = column
    batch["label"] = torch.tensor([bool(row["label"]) for row in rows])
    return batch
