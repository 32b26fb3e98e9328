"""Attention of packed rows block by block, without a mask as large as the square of a row.

The model gets the blocks of its rows as an argument and passes it to its layers. A prompt with its
first reply is one causal block; each further reply is a block that also sees its prompt. Causal blocks run
in kernels of flash attention, which take no mask.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch
from torch.nn.attention.bias import causal_lower_right
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface
from transformers.integrations.sdpa_attention import repeat_kv, sdpa_attention_forward

from arena_trainers.train.score.packing import PackedRow, may_share_prompts

MIN_LENGTH = 1024  # positions of a row; in shorter ones a call for each block costs as much as a mask


class RowBlocks(NamedTuple):
    """The blocks of one row.

    Attributes:
        padding: number of positions before the first block.
        first: size of the first block: the prompt, with its first reply if that follows all of it.
        replies: of each further block, how many positions of the first one it sees, and its size.
    """

    padding: int
    first: int
    replies: tuple[tuple[int, int], ...]


def attends_in_blocks(model: Any, packed: Sequence[PackedRow]) -> bool:
    """Whether rows are long, and the model passes arguments to layers that see all earlier tokens."""
    longest = max(len(row.prompt) + row.tail for row in packed)
    causal = model.get_base_model() if hasattr(model, "peft_config") else model
    passes_arguments = getattr(causal, "_supports_attention_backend", False)
    return longest >= MIN_LENGTH and passes_arguments and may_share_prompts(model)


def block_inputs(packed: Sequence[PackedRow]) -> dict[str, Any]:
    """The arguments of a forward pass whose layers attend by blocks."""
    AttentionInterface.register("sdpa", attention_by_blocks)
    head = max(len(row.prompt) for row in packed)
    blocks: list[RowBlocks] = []
    for row in packed:
        sizes = [len(branch) - 1 for branch in row.branches]
        replies = list(zip(row.depths, sizes, strict=True))
        first = len(row.prompt)
        if row.depths[0] == first:
            first += replies.pop(0)[1]
        blocks.append(RowBlocks(head - len(row.prompt), first, tuple(replies)))
    # Instead of a mask of transformers'. No layer can use it, so one that gets no blocks raises.
    no_mask = torch.ones((1, 1, 0, 0), dtype=torch.bool)
    return {"row_blocks": tuple(blocks), "attention_mask": no_mask}


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
    sizes = [blocks.padding, blocks.first, *(size for _, size in blocks.replies)]
    sizes.append(query.shape[2] - sum(sizes))
    before, first, *queries, behind = query.split(sizes, dim=2)
    _, first_key, *keys, _ = key.split(sizes, dim=2)
    _, first_value, *values, _ = value.split(sizes, dim=2)
    yield torch.zeros_like(before)
    yield scaled_dot_product_attention(
        first, first_key, first_value, None, dropout, is_causal=True, scale=scaling
    )
    for (depth, size), q, k, v in zip(
        blocks.replies, queries, keys, values, strict=True
    ):
        yield scaled_dot_product_attention(
            q,
            torch.cat([first_key[:, :, :depth], k], dim=2),
            torch.cat([first_value[:, :, :depth], v], dim=2),
            causal_lower_right(size, depth + size),
            dropout,
            scale=scaling,
        )
    yield torch.zeros_like(behind)
