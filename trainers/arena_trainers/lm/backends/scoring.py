"""Log-probabilities of given replies, by plain forward passes."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from arena_trainers.lm.backends.forward_pass import (
    evaluating,
    reads_padding,
    whole_text_logits,
)
from arena_trainers.lm.backends.memory import (
    GenerationLimits,
    chunks_by_length,
    default_forward_tokens,
)
from arena_trainers.lm.backends.padding import left_padded
from arena_trainers.lm.backends.prefixes import (
    PrefixStore,
    divisible_shape,
    pays,
    tokens_of_pass,
)

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

    The vocabulary is scored at the replies' positions alone. What texts begin with alike, such as
    the prompt of several replies, is computed once.

    Args:
        model: the language model.
        rows: token ids of a prompt, and of a reply without its end.
        temperature: divides the logits.
        pad_id: fills rows up.
        eos_ids: tokens that end a reply.
        max_tokens: most tokens that run at once; by default what memory allows.
    """
    if max_tokens is None:
        max_tokens = default_forward_tokens(model, model.device)
    sequences = [[*prompt, *reply] for prompt, reply in rows]
    lengths = [len(reply) for _, reply in rows]
    logprobs = [0.0] * len(rows)
    sizes = [len(ids) for ids in sequences]
    store = _store_of(model, sum(sizes), max_tokens, pad_id)
    alike = reads_padding(model)
    for chunk in chunks_by_length(sizes, [0] * len(rows), max_tokens, alike):
        texts = [sequences[i] for i in chunk]
        chunk_lengths = [lengths[i] for i in chunk]
        with evaluating(model):
            logits = _last_logits(model, store, texts, max(chunk_lengths) + 1, pad_id)
        ids, _ = left_padded(texts, pad_id, model.device)
        values = _chunk_logprobs(logits, ids, chunk_lengths, temperature, eos_ids)
        for i, value in zip(chunk, values, strict=True):
            logprobs[i] = value
    return logprobs


def _store_of(
    model: "PreTrainedModel", num_tokens: int, max_tokens: int, pad_id: int
) -> PrefixStore | None:
    """What is kept of texts from chunk to chunk; None if the model computes each anew."""
    shape = divisible_shape(model) if pays(model, num_tokens) else None
    if shape is None:
        return None
    limits = GenerationLimits.of(model, model.device)
    return PrefixStore(
        shape,
        model.device,
        max_slots=limits.max_kept,
        max_tokens=max_tokens,
        pass_tokens=tokens_of_pass(model),
        pad_id=pad_id,
    )


def _last_logits(
    model: "PreTrainedModel",
    store: PrefixStore | None,
    texts: Sequence[Sequence[int]],
    num: int,
    pad_id: int,
) -> torch.Tensor:
    """[B, num, V], the logits of the last tokens of texts."""
    if store is not None:
        arrays = [np.array(ids) for ids in texts]
        return store.prefill(model, arrays, num_tail=num).logits
    return whole_text_logits(model, texts, num, pad_id)


def _chunk_logprobs(
    logits: torch.Tensor,
    input_ids: torch.Tensor,
    lengths: Sequence[int],
    temperature: float,
    eos_ids: Sequence[int],
) -> list[float]:
    """`reply_logprobs` of rows.

    Args:
        logits: [B, longest + 1, V], of the last tokens.
        input_ids: int64[B, L], padded on the left.
        lengths: of the replies.
        temperature: divides the logits.
        eos_ids: tokens that end a reply.
    """
    longest = max(lengths)
    logprobs = (logits.float() / temperature).log_softmax(dim=-1)  # [B, longest + 1, V]
    targets = input_ids[:, input_ids.shape[1] - longest :]  # at the right edge
    picked = logprobs[:, :-1].gather(2, targets[..., None])[..., 0]
    sizes = torch.tensor(lengths, device=picked.device)
    position = torch.arange(longest, device=picked.device)[None]
    is_reply = position >= longest - sizes[:, None]
    ending = logprobs[:, -1, list(eos_ids)].logsumexp(dim=-1)
    total: list[float] = (picked.where(is_reply, 0.0).sum(dim=1) + ending).tolist()
    return total
