"""Plain forward passes: batches of token ids, and log-probabilities of given replies."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np
import torch
from transformers import PreTrainedModel


def refuse_prompt_tuning(model: PreTrainedModel) -> None:
    """Raises ValueError at adapters that a plain forward pass ignores."""
    for adapter in getattr(model, "peft_config", {}).values():
        if adapter.is_prompt_learning:
            raise ValueError(
                f"want a model whose adapters are in its layers, such as LoRA, got "
                f"{adapter.peft_type.value}"
            )


@contextmanager
def evaluating(model: PreTrainedModel) -> Iterator[None]:
    """Turns off what a model does in training alone, such as dropout."""
    training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(training)


def left_padded(
    rows: Sequence[Sequence[int]], pad_id: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and their mask, int64[B, T]; all rows end at the right edge."""
    lengths = np.array([len(ids) for ids in rows])
    width = int(lengths.max())
    padded = [[pad_id] * (width - len(ids)) + [*ids] for ids in rows]
    # by way of numpy, which reads lists of lists six times as fast as torch does
    ids = torch.from_numpy(np.array(padded, np.int64))
    mask = torch.from_numpy(np.arange(width) >= width - lengths[:, None])
    return ids.to(device), mask.long().to(device)


def reply_logprobs(
    model: PreTrainedModel,
    inputs: tuple[torch.Tensor, torch.Tensor],
    lengths: Sequence[int],
    temperature: float,
    eos_ids: Sequence[int],
) -> list[float]:
    """Log-probability of each reply after its prompt, whichever token ends it.

    Args:
        model: the language model.
        inputs: prompts with their replies, of `left_padded`.
        lengths: tokens of each reply.
        temperature: divides the logits.
        eos_ids: tokens that end a reply.
    """
    input_ids, attention_mask = inputs
    with evaluating(model):
        logits: Any = model(input_ids=input_ids, attention_mask=attention_mask).logits
    longest = max(lengths)
    tail = logits[:, -longest - 1 :].float() / temperature
    logprobs = tail.log_softmax(dim=-1)  # [B, longest + 1, V]
    targets = input_ids[:, input_ids.shape[1] - longest :]  # at the right edge
    picked = logprobs[:, :-1].gather(2, targets[..., None])[..., 0]
    sizes = torch.tensor(lengths, device=picked.device)
    position = torch.arange(longest, device=picked.device)[None]
    inside = position >= longest - sizes[:, None]
    ending = logprobs[:, -1, list(eos_ids)].logsumexp(dim=-1)
    total: list[float] = (picked.where(inside, 0.0).sum(dim=1) + ending).tolist()
    return total
