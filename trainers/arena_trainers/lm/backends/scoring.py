"""Log-probabilities of given replies, by plain forward passes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import torch

from arena_trainers.lm.backends.forward_pass import (
    evaluating,
    last_logits,
    positions,
    reads_padding,
)
from arena_trainers.lm.backends.memory import chunks_by_length, default_max_tokens
from arena_trainers.lm.backends.padding import left_padded

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def reply_logprobs(
    model: "PreTrainedModel",
    rows: Sequence[tuple[Sequence[int], Sequence[int]]],
    temperature: float,
    pad_id: int,
    eos_ids: Sequence[int],
    max_tokens: int | None = None,
) -> list[float]:
    """Log-probability of each reply after its prompt, whichever token ends it.

    The vocabulary is scored at the replies' positions alone.

    Args:
        model: the language model.
        rows: token ids of a prompt, and of a reply without its end.
        temperature: divides the logits.
        pad_id: fills rows up.
        eos_ids: tokens that end a reply.
        max_tokens: most tokens that run at once; by default what memory allows.
    """
    if max_tokens is None:
        max_tokens = default_max_tokens(model, model.device, training=False)
    sequences = [[*prompt, *reply] for prompt, reply in rows]
    lengths = [len(reply) for _, reply in rows]
    logprobs = [0.0] * len(rows)
    sizes = [len(ids) for ids in sequences]
    alike = reads_padding(model)
    for chunk in chunks_by_length(sizes, [0] * len(rows), max_tokens, alike):
        inputs = left_padded([sequences[i] for i in chunk], pad_id, model.device)
        chunk_lengths = [lengths[i] for i in chunk]
        values = _chunk_logprobs(model, inputs, chunk_lengths, temperature, eos_ids)
        for i, value in zip(chunk, values, strict=True):
            logprobs[i] = value
    return logprobs


def _chunk_logprobs(
    model: "PreTrainedModel",
    inputs: tuple[torch.Tensor, torch.Tensor],
    lengths: Sequence[int],
    temperature: float,
    eos_ids: Sequence[int],
) -> list[float]:
    """`reply_logprobs` of rows of `left_padded`, whose replies have these lengths."""
    input_ids, attention_mask = inputs
    longest = max(lengths)
    with evaluating(model):
        logits: Any = model(
            input_ids=input_ids,
            attention_mask=attention_mask,
            **last_logits(model, longest + 1),
            **positions(model, attention_mask),
        ).logits[:, -longest - 1 :]
    logprobs = (logits.float() / temperature).log_softmax(dim=-1)  # [B, longest + 1, V]
    targets = input_ids[:, input_ids.shape[1] - longest :]  # at the right edge
    picked = logprobs[:, :-1].gather(2, targets[..., None])[..., 0]
    sizes = torch.tensor(lengths, device=picked.device)
    position = torch.arange(longest, device=picked.device)[None]
    is_reply = position >= longest - sizes[:, None]
    ending = logprobs[:, -1, list(eos_ids)].logsumexp(dim=-1)
    total: list[float] = (picked.where(is_reply, 0.0).sum(dim=1) + ending).tolist()
    return total
