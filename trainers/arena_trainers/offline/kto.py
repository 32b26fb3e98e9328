"""`kto`: TRL's `KTOTrainer` on labels, with their masks; weights are repetitions.

TRL estimates the KL term from completions that belong to other prompts of the micro-batch:
each prompt is followed by the completion of the row before it. A micro-batch of one row has no
other prompt, so that micro-batches have at least two rows. Only the last one of an epoch may have
one row; then the KL term is of its own completion.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from trl import KTOConfig, KTOTrainer

from arena_trainers.offline.batches import Rows, masked_batch
from arena_trainers.offline.protocol import Given, RowTrainer

MAX_REPETITIONS = 1000  # of a row; the order of all repetitions is kept in memory


class TokenKTOTrainer(KTOTrainer):
    """TRL's trainer on rows that are tokens already."""

    def _prepare_dataset(self, dataset: Any, *_: Any) -> Any:
        return dataset


def kto() -> RowTrainer:
    """Raises good completions and lowers bad ones."""
    return RowTrainer("labels", KTOConfig, _make, least=2)


def _make(given: Given) -> TokenKTOTrainer:
    if given.args.precompute_ref_log_probs:
        raise ValueError(
            "want precompute_ref_log_probs off with rows of tokens and masks; leave it out"
        )
    return TokenKTOTrainer(
        given.model,
        args=given.args,
        train_dataset=_repeated(given.rows, given.args.seed),
        processing_class=given.tokenizer,
        data_collator=lambda rows: _batch(rows, given.pad_id),
        peft_config=given.peft_config,
    )


def _repeated(rows: Any, seed: int) -> Any:
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
            f"({least:g}) for trainer 'kto', which repeats rows, got {weights.max():g}; choose "
            "rows of closer weights"
        )
    times = np.round(weights / least).astype(np.int64)
    if not np.allclose(times * least, weights):
        raise ValueError(
            f"want weights that are multiples of the smallest one ({least:g}) for trainer "
            "'kto', which repeats rows; choose rows of such weights"
        )
    order = np.repeat(np.arange(len(rows)), times)
    np.random.default_rng(seed).shuffle(order)
    return rows.select(order)


def _batch(rows: Rows, pad_id: int) -> dict[str, torch.Tensor]:
    others: Sequence[Any] = [rows[-1], *rows[:-1]]
    crossed = [
        {**row, **{name: other[name] for name in ("completion_ids", "completion_mask")}}
        for row, other in zip(rows, others, strict=True)
    ]
    apart = masked_batch(crossed, ("completion",), pad_id)
    return {
        **masked_batch(rows, ("completion",), pad_id),
        **{f"KL_{name}": values for name, values in apart.items()},
        "label": torch.tensor([bool(row["label"]) for row in rows]),
    }
