"""Attention of packed rows block by block, without a mask as large as the square of a row.

The model gets the blocks of its rows beside their tokens and hands them to its layers. A block ends where
the walk through the tree of tokens goes back to branch off. It sees the tokens on its path from the root, and itself
causally. Causal blocks run in kernels of flash attention, which take no mask.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

from arena_trainers.train.score.packing import PackedRow, may_share_prompts

MIN_LENGTH = 1024  # positions of a row; in shorter ones a call for each block costs as much as a mask


class RowBlocks(NamedTuple):
    """The blocks of one row.

    Attributes:
        padding: positions before the first block.
        pieces: sizes of the pieces that blocks see as a whole, in their order.
        blocks: for each block, its size and the indexes of the pieces that it sees, its own ones last.
    """

    padding: int
    pieces: tuple[int, ...]
    blocks: tuple[tuple[int, tuple[int, ...]], ...]


def attends_in_blocks(model: Any, packed: Sequence[PackedRow]) -> bool:
    """Whether rows are long, and the model passes arguments to layers that see all earlier tokens."""
    longest = max(len(row.tokens) for row in packed)
    causal = model.get_base_model() if hasattr(model, "peft_config") else model
    passes_arguments = getattr(causal, "_supports_attention_backend", False)
    return longest >= MIN_LENGTH and passes_arguments and may_share_prompts(model)


def block_inputs(packed: Sequence[PackedRow]) -> dict[str, Any]:
    """The arguments of a forward pass whose layers attend by blocks."""
    AttentionInterface.register("sdpa", attention_by_blocks)
    head = max(row.head for row in packed)
    blocks = [_row_blocks(row.ends, head - row.head) for row in packed]
    # Instead of a mask of transformers'. No layer can use it, so one that gets no blocks raises.
    no_mask = torch.ones((1, 1, 0, 0), dtype=torch.bool)
    return {"row_blocks": tuple(blocks), "attention_mask": no_mask}


def _row_blocks(ends: NDArray[np.int64], padding: int) -> RowBlocks:
    """The blocks of a row whose places are seen up to `ends`, which are equal in a piece."""
    pieces = np.concatenate([[0], np.flatnonzero(np.diff(ends)) + 1])
    edges = np.flatnonzero(ends == np.arange(len(ends))) + 1  # behind each block
    blocks = []
    for start, end in pairwise([0, *edges.tolist()]):
        is_attended = (pieces < end) & (ends[pieces] >= start)
        blocks.append((end - start, tuple(np.flatnonzero(is_attended).tolist())))
    sizes = np.diff(pieces, append=len(ends))
    return RowBlocks(padding, tuple(sizes.tolist()), tuple(blocks))


def attention_by_blocks(
    module: torch.nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    attention_mask: torch.Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    row_blocks: Sequence[RowBlocks] | None = None,
    **options: Any,
) -> tuple[torch.Tensor, None]:
    """As `sdpa` of transformers; by blocks where the model was given `row_blocks`.

    Args:
        module: the layer.
        query: [N, H, L, D].
        key: [N, K, L, D]; H is a multiple of K.
        value: as `key`.
        attention_mask: read without `row_blocks` only.
        dropout: probability that a weight is dropped.
        scaling: factor of the logits.
        row_blocks: of the N rows.
        **options: others of transformers.

    Returns:
        [N, L, H, D], 0 at padding.
    """
    if row_blocks is None:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout, scaling, **options
        )
    groups = query.shape[1] // key.shape[1]
    key, value = repeat_kv(key, groups), repeat_kv(value, groups)
    # rows and parts are split at once: the gradient of a slice is as large as the whole
    rows = zip(query.split(1), key.split(1), value.split(1), row_blocks, strict=True)
    outputs = [
        torch.cat([*_parts(q, k, v, blocks, dropout, scaling)], dim=2)
        for q, k, v, blocks in rows
    ]
    return torch.cat(outputs).transpose(1, 2).contiguous(), None


def _parts(
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    blocks: RowBlocks,
    dropout: float,
    scaling: float | None,
) -> Iterator[torch.Tensor]:
    """What the positions of a row attend to, in their order: [1, H, length, D] of each block."""
    behind = query.shape[2] - blocks.padding - sum(blocks.pieces)
    sizes = [size for size, _ in blocks.blocks]
    before, *queries, after = query.split([blocks.padding, *sizes, behind], dim=2)
    pieces = [blocks.padding, *blocks.pieces, behind]
    _, *keys, _ = key.split(pieces, dim=2)
    _, *values, _ = value.split(pieces, dim=2)
    yield torch.zeros_like(before)
    for block, (size, attended) in zip(queries, blocks.blocks, strict=True):
        block_keys = torch.cat([keys[i] for i in attended], dim=2)
        yield scaled_dot_product_attention(
            block,
            block_keys,
            torch.cat([values[i] for i in attended], dim=2),
            causal_lower_right(size, block_keys.shape[2]),
            dropout,
            scale=scaling,
        )
    yield torch.zeros_like(after)
