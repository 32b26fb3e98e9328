"""Replies to prompts most of which are equal: equal rows share a forward pass.

Lockstep play asks the same prompt many times: samples of one seed start alike, and a small
game has few prompts. Rows share a forward pass as long as they are equal, prompt and reply.
Each draws its own next token.
"""

from typing import Any

import torch
from transformers import (
    PreTrainedModel,
)

from arena_trainers.lm.backends import Sampling
from arena_trainers.lm.backends.cached_steps import (
    cached_steps_are_exact,
    dynamic_cache,
    forward_with_cache,
)
from arena_trainers.lm.backends.sampling import SeededSampler


def generate_distinct(
    model: PreTrainedModel,
    inputs: tuple[torch.Tensor, torch.Tensor],
    sampler: SeededSampler,
    sampling: Sampling,
) -> torch.Tensor | None:
    """Replies to prompts most of which are equal, or replies of one token.

    Args:
        model: a causal language model.
        inputs: int64[B, L] and int64[B, L], ids and attention mask, padded on the left.
        sampler: draws the tokens of all rows.
        sampling: how long replies are, and what ends them.

    Returns:
        int64[B, T], the tokens of the replies; anything after a row's end. None where most
        prompts differ and replies are longer than one token, or where the model's cached steps
        do not hold.
    """
    rows = torch.stack(inputs)  # [2, B, L]
    distinct, row_of = rows.unique(dim=1, return_inverse=True)
    if sampling.max_new_tokens > 1:
        most_differ = 2 * distinct.shape[1] > rows.shape[1]
        if most_differ or not cached_steps_are_exact(model):
            return None
    ids, mask = distinct
    output = forward_with_cache(model, ids, mask)
    ends = torch.tensor(sampling.end_ids, device=ids.device)
    is_open = torch.ones_like(row_of, dtype=torch.bool)
    tokens: list[torch.Tensor] = []
    while True:
        scores: Any = output.logits[:, -1][row_of]  # [B, V]
        token = sampler(inputs[0], scores).argmax(dim=-1)  # type: ignore[arg-type] # ids
        tokens.append(token)
        is_open &= ~torch.isin(token, ends)
        if len(tokens) == sampling.max_new_tokens or not is_open.any():
            return torch.stack(tokens, dim=1)
        pairs = torch.stack([row_of[is_open], token[is_open]])
        (parents, ids), open_row_of = pairs.unique(dim=1, return_inverse=True)
        row_of = torch.zeros_like(row_of).masked_scatter(is_open, open_row_of)
        cache = dynamic_cache(model, output)
        cache.reorder_cache(parents)  # type: ignore[union-attr] # as in the first pass
        mask = torch.nn.functional.pad(mask[parents], (0, 1), value=1)
        output = forward_with_cache(model, ids[:, None], mask, cache)
