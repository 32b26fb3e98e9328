"""Rows with token ids and masks as tensors; no text is templated or tokenised here."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch

from arena_trainers.lm.scoring import left_padded
from arena_trainers.train.prompt_sharing import IGNORED

Rows = Sequence[Mapping[str, Any]]


def labelled_batch(rows: Rows, pad_id: int) -> dict[str, torch.Tensor]:
    """A batch for a language model: int64[B, W], with labels where the mask is 1.

    Rows are padded on the left. `weights` is float32[B].

    Args:
        rows: completions.
        pad_id: token id of the padding.
    """
    cpu = torch.device("cpu")
    labels = [
        [IGNORED] * len(row["prompt_ids"])
        + [
            token if counts else IGNORED
            for token, counts in zip(
                row["completion_ids"], row["completion_mask"], strict=True
            )
        ]
        for row in rows
    ]
    ids, mask = left_padded([_joined(row, "completion") for row in rows], pad_id, cpu)
    padded, _ = left_padded(labels, IGNORED, cpu)
    weights = torch.tensor([row["weight"] for row in rows], dtype=torch.float32)
    return {
        "input_ids": ids,
        "attention_mask": mask,
        "labels": padded,
        "weights": weights,
    }


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
