"""Generation in which equal rows are computed once, token by token.

Lockstep play asks the same prompt many times: samples of one seed start alike, and a small
game has few prompts. Rows share a forward pass as long as they are equal, prompt and reply.
Each draws its own next token.
"""

from typing import Any

import torch
from transformers import DynamicCache, PreTrainedModel

from arena_trainers.lm.backends import Sampling
from arena_trainers.lm.sampling import SeededSampler
from arena_trainers.lm.scoring import positions


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
        prompts differ and replies are longer than one token, or the model keeps more than
        keys and values of each row.
    """
    rows = torch.stack(inputs)  # [2, B, L]
    distinct, row_of = rows.unique(dim=1, return_inverse=True)
    if 2 * distinct.shape[1] > rows.shape[1] and sampling.max_new_tokens > 1:
        return None
    ids, mask = distinct
    output = _forward(model, ids, mask)
    if not isinstance(getattr(output, "past_key_values", None), DynamicCache):
        return None
    ends = torch.tensor(sampling.end_ids, device=ids.device)
    live = torch.ones_like(row_of, dtype=torch.bool)
    tokens: list[torch.Tensor] = []
    while True:
        scores: Any = output.logits[:, -1][row_of]  # [B, V]
        token = sampler(inputs[0], scores).argmax(dim=-1)  # type: ignore[arg-type] # ids
        tokens.append(token)
        live &= ~torch.isin(token, ends)
        if len(tokens) == sampling.max_new_tokens or not live.any():
            return torch.stack(tokens, dim=1)
        pairs = torch.stack([row_of[live], token[live]])
        (parents, ids), row_of_live = pairs.unique(dim=1, return_inverse=True)
        row_of = torch.zeros_like(row_of).masked_scatter(live, row_of_live)
        cache = output.past_key_values
        cache.reorder_cache(parents)
        mask = torch.nn.functional.pad(mask[parents], (0, 1), value=1)
        output = _forward(model, ids[:, None], mask, cache)


def _forward(
    model: PreTrainedModel,
    ids: torch.Tensor,
    mask: torch.Tensor,
    cache: DynamicCache | None = None,
) -> Any:
    """The model's output for the last tokens of rows; logits of the very last one alone."""
    width = ids.shape[1]
    return model(
        input_ids=ids,
        attention_mask=mask,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
        **{name: x[:, -width:] for name, x in positions(model, mask).items()},
    )
