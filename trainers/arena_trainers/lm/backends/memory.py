"""The memory that rows take, and chunks of rows that fit into it."""

import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
import torch

from arena_trainers.lm.backends.activations import (
    FLOAT,
    Passes,
    forward_bytes,
    layer_sizes,
    most_tokens,
)

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

OF_FREE = 0.5  # part of the free memory that activations may take

LEAST = 256  # tokens; with less memory than they take, nothing can be trained

MOST = 2**30  # tokens

MOST_SCORED = {
    "cpu": 4096,
    "cuda": 16_384,
}  # tokens; more in one pass are hardly faster

SAMPLER_COPIES = 6  # of the logits of a row, while its next token is drawn

LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container under Linux

USED = Path("/sys/fs/cgroup/memory.current")


def default_max_tokens(
    model: "PreTrainedModel",
    device: torch.device,
    *,
    checkpointing: bool = False,
    autocast: bool = False,
) -> int:
    """Most tokens that run at once in training: their activations take half of the free memory.

    A power of two of at least `LEAST`, so that small changes of the free memory change nothing.

    Args:
        model: a causal language model, whose gradients and state of an optimizer like Adam are
            still to come.
        device: where it runs.
        checkpointing: whether layers keep their inputs alone.
        autocast: whether matrix products are in half precision, whatever the weights are.
    """
    num_trained = sum(
        weight.numel() for weight in model.parameters() if weight.requires_grad
    )
    room = OF_FREE * (free_memory(device) - 3 * FLOAT * num_trained)
    passes = Passes.of(model, device, checkpointing=checkpointing, autocast=autocast)
    config = model.config.get_text_config()
    return most_tokens(config, room, passes, least=LEAST, most=MOST) or LEAST


def default_forward_tokens(model: "PreTrainedModel", device: torch.device) -> int:
    """As `default_max_tokens`, where nothing is kept for a backward pass; at most `MOST_SCORED`.

    Which rows share a pass changes the rounding of half precision. Machines with memory for that many
    tokens give the same numbers, whatever else runs on them.
    """
    size = forward_bytes(model.config.get_text_config())
    most = MOST_SCORED.get(device.type, MOST_SCORED["cuda"])
    return min(tokens_that_fit(free_memory(device), size), most)


def tokens_that_fit(free: float, size: int) -> int:
    """The power of two, of at least `LEAST`, that takes half of `free` bytes.

    Args:
        free: bytes.
        size: bytes of a token.
    """
    return 1 << max(int(OF_FREE * free / size), LEAST).bit_length() - 1


class GenerationLimits(NamedTuple):
    """Tokens that fit into the memory that was free, as powers of two.

    Attributes:
        max_tokens: most tokens of a batch, prompts and replies, and of a forward pass.
        max_kept: most tokens whose keys and values are kept for later batches.
        sampler_tokens: memory of drawing one row's next token from the vocabulary, as a number of
            tokens whose keys and values take as much.
    """

    max_tokens: int
    max_kept: int
    sampler_tokens: int

    @classmethod
    def of(cls, model: "PreTrainedModel", device: torch.device) -> "GenerationLimits":
        """The limits at this moment: each part takes a quarter of what is free.

        The parts: a batch's keys and values, the activations of a pass, and what is kept.
        """
        free = free_memory(device) / 2
        config = model.config.get_text_config()
        cached = cached_bytes_per_token(config)
        activations = forward_bytes(config, scored=False)
        return cls(
            max_tokens=tokens_that_fit(free, max(cached, activations)),
            max_kept=tokens_that_fit(free, cached),
            sampler_tokens=-(
                -FLOAT * SAMPLER_COPIES * int(config.vocab_size) // cached
            ),
        )


def cached_bytes_per_token(config: "PreTrainedConfig") -> int:
    """Bytes of a token's keys and values in float32."""
    sizes = layer_sizes(config)
    return int(FLOAT * 2 * sizes.layers * sizes.key_width)


def free_memory(device: torch.device) -> int:
    """Bytes that this process may still take on the device.

    On a GPU those that torch's allocator holds for later use count, too.
    """
    if device.type == "cuda":
        cached = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(
            device
        )
        return int(torch.cuda.mem_get_info(device)[0]) + cached
    free = int(psutil.virtual_memory().available)
    limit = LIMIT.read_text().strip() if LIMIT.is_file() else "max"
    if limit != "max":
        free = min(free, int(limit) - int(USED.read_text()))
    return max(free, 0) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))


def release_free_memory() -> None:
    """Has glibc give freed memory back; else holes between chunks add up to gigabytes."""
    if sys.platform == "linux":
        trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
        if trim is not None:
            trim(0)


def chunks_by_length(
    prompts: Sequence[int],
    replies: Sequence[int],
    max_tokens: int,
    alike: bool = False,
) -> list[list[int]]:
    """Rows in order of their length, in chunks that hold `max_tokens` with their padding.

    A row that is longer than the bound is a chunk by itself.

    Args:
        prompts: tokens of each row that are padded on the left to the longest of the chunk.
        replies: tokens of each row that are padded on the right.
        max_tokens: most tokens of a chunk.
        alike: whether prompts of a chunk must have the same length, so that none is padded.

    >>> chunks_by_length([3, 1, 1], [1, 1, 1], max_tokens=4)
    [[1, 2], [0]]
    """
    order = sorted(
        range(len(prompts)),
        key=lambda i: (prompts[i] if alike else 0, prompts[i] + replies[i]),
    )
    width = max(prompts, default=0) + max(replies, default=0)
    if not alike and len(prompts) * width <= max_tokens:
        return [order]
    chunks: list[list[int]] = [[]]
    prompt = reply = 0
    for i in order:
        shared_prompt = prompt
        prompt, reply = max(prompt, prompts[i]), max(reply, replies[i])
        is_full = (len(chunks[-1]) + 1) * (prompt + reply) > max_tokens
        if chunks[-1] and (is_full or (alike and prompt != shared_prompt)):
            chunks.append([])
            prompt, reply = prompts[i], replies[i]
        chunks[-1].append(i)
    return chunks
