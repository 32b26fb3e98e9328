"""The memory that rows take, and chunks of rows that fit into it."""

import ctypes
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import psutil
import torch

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

FLOAT = 4  # bytes

OF_FREE = 0.5  # part of the free memory that activations may take

LEAST = 256  # tokens; with less memory than they take, nothing can be trained

SAMPLER_COPIES = 6  # of the logits of a row, while its next token is drawn

TILE = 32_768  # most words that TRL scores at once

LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container under Linux

USED = Path("/sys/fs/cgroup/memory.current")


def default_max_tokens(
    model: "PreTrainedModel",
    device: torch.device,
    *,
    training: bool = True,
    checkpointing: bool = False,
) -> int:
    """A power of two, so that small changes of the free memory change nothing.

    Args:
        model: a causal language model.
        device: where it runs.
        training: whether activations are kept for a backward pass, and gradients and the
            state of an optimizer like Adam are still to come.
        checkpointing: whether layers keep their inputs alone.
    """
    free = free_memory(device)
    if training:
        num_trained = sum(
            weight.numel() for weight in model.parameters() if weight.requires_grad
        )
        free -= 3 * FLOAT * num_trained
    config = model.config.get_text_config()
    size = bytes_per_token(config, training=training, checkpointing=checkpointing)
    return tokens_that_fit(free, size)


def tokens_that_fit(free: float, size: int) -> int:
    """The power of two, of at least `LEAST`, whose activations take half of `free` bytes.

    Args:
        free: bytes.
        size: bytes of a token's activations.
    """
    return 1 << max(int(OF_FREE * free / size), LEAST).bit_length() - 1


class GenerationLimits(NamedTuple):
    """Tokens that fit into the memory that was free, as powers of two.

    Attributes:
        max_tokens: most tokens of a batch, prompts and replies, and of a forward pass.
        max_kept: most tokens whose keys and values are kept for later batches.
    """

    max_tokens: int
    max_kept: int

    @classmethod
    def of(cls, model: "PreTrainedModel", device: torch.device) -> "GenerationLimits":
        """The limits at this moment: each part takes a quarter of what is free.

        The parts: a batch's keys and values, the activations of a pass, and what is kept.
        """
        free = free_memory(device) / 2
        config = model.config.get_text_config()
        cached = cached_bytes_per_token(config)
        activations = bytes_per_token(config, training=False, scored=False)
        return cls(
            max_tokens=tokens_that_fit(free, max(cached, activations)),
            max_kept=tokens_that_fit(free, cached),
        )


def sampled_tokens(config: "PreTrainedConfig") -> int:
    """Cached tokens that take the memory of drawing one row's next token from the vocabulary."""
    size = cached_bytes_per_token(config)
    return -(-FLOAT * SAMPLER_COPIES * int(config.vocab_size) // size)


def bytes_per_token(
    config: "PreTrainedConfig",
    *,
    training: bool = True,
    checkpointing: bool = False,
    scored: bool = True,
) -> int:
    """Bytes of a token's activations in float32, if the token is of a reply.

    A layer of Llama keeps 8 vectors of the hidden size, 4 of the queries, keys and values,
    and 4 of the feed-forward width (1.75 MB measured in SmolLM2-135M's architecture, as
    calculated). Scores of the vocabulary take 4 tiles.

    Args:
        config: of the language model.
        training: as for `default_max_tokens`.
        checkpointing: as for `default_max_tokens`.
        scored: whether the vocabulary is scored at the token.
    """
    sizes = layer_sizes(config)
    query_width, key_width = sizes.query_width, sizes.key_width
    layer = 8 * sizes.hidden + 4 * (query_width + 2 * key_width) + 4 * sizes.inner
    num_numbers = layer
    if training:
        num_numbers = sizes.layers * layer
        if checkpointing:
            num_numbers = sizes.layers * sizes.hidden + layer
    if scored:
        num_numbers += 4 * min(config.vocab_size, TILE)
    return int(FLOAT * num_numbers)


def cached_bytes_per_token(config: "PreTrainedConfig") -> int:
    """Bytes of a token's keys and values in float32."""
    sizes = layer_sizes(config)
    return int(FLOAT * 2 * sizes.layers * sizes.key_width)


class LayerSizes(NamedTuple):
    """The sizes of the layers of a model.

    Attributes:
        hidden: width of the states between layers.
        layers: how many there are.
        query_width: of all heads of queries together.
        key_width: of all heads of keys together, which is that of values.
        inner: width of the feed-forward part, of all experts of a token together.
    """

    hidden: int
    layers: int
    query_width: int
    key_width: int
    inner: int


def layer_sizes(config: "PreTrainedConfig") -> LayerSizes:
    """The sizes of a model's layers, by its configuration."""
    hidden = config.hidden_size
    heads = getattr(config, "num_attention_heads", 1)
    head_dim = getattr(config, "head_dim", None) or hidden // heads
    keys = getattr(config, "num_key_value_heads", None) or heads
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    experts = getattr(config, "num_experts_per_tok", None)
    if experts:  # of a mixture, each with its own width
        inner = experts * (getattr(config, "moe_intermediate_size", None) or inner)
    return LayerSizes(
        hidden, config.num_hidden_layers, heads * head_dim, keys * head_dim, inner
    )


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
    chunks: list[list[int]] = [[]]
    prompt = reply = 0
    for i in sorted(
        range(len(prompts)),
        key=lambda i: (prompts[i] if alike else 0, prompts[i] + replies[i]),
    ):
        shared_prompt = prompt
        prompt, reply = max(prompt, prompts[i]), max(reply, replies[i])
        is_full = (len(chunks[-1]) + 1) * (prompt + reply) > max_tokens
        if chunks[-1] and (is_full or (alike and prompt != shared_prompt)):
            chunks.append([])
            prompt, reply = prompts[i], replies[i]
        chunks[-1].append(i)
    return chunks
