"""How many tokens a model may run at once, by its size and the memory that is free."""

import os
from pathlib import Path
from typing import Any

import psutil
import torch

FLOAT = 4  # bytes
OF_FREE = 0.5  # part of the free memory that activations may take
LEAST = 256  # tokens; with less memory than they take, nothing can be trained
TILE = 32_768  # most words that TRL scores at once
LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container under Linux
USED = Path("/sys/fs/cgroup/memory.current")


def default_max_tokens(model: Any, device: torch.device, training: bool = True) -> int:
    """A power of two, so that small changes of the free memory change nothing.

    Args:
        model: a causal language model.
        device: where it runs.
        training: whether activations are kept for a backward pass, and gradients and the
            state of an optimizer like Adam are still to come.
    """
    free = free_memory(device)
    if training:
        trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
        free -= 3 * FLOAT * trained
    tokens = int(OF_FREE * free / bytes_per_token(model, training))
    return 1 << max(tokens, LEAST).bit_length() - 1


def bytes_per_token(model: Any, training: bool = True) -> int:
    """Activations of a token in float32: all layers' in training, else one layer's.

    A layer of Llama keeps about 8 vectors of the hidden size, 4 of the queries, keys and
    values, and 4 of the feed-forward width. Scores of the vocabulary are 4 tiles.
    """
    config = model.config.get_text_config()
    hidden = config.hidden_size
    heads = getattr(config, "num_attention_heads", 1)
    head_dim = getattr(config, "head_dim", None) or hidden // heads
    keys = getattr(config, "num_key_value_heads", None) or heads
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    layer = 8 * hidden + 4 * (heads + 2 * keys) * head_dim + 4 * inner
    layers = config.num_hidden_layers if training else 1
    return int(FLOAT * (layers * layer + 4 * min(config.vocab_size, TILE)))


def free_memory(device: torch.device) -> int:
    """Bytes that this process may still take on the device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    free = int(psutil.virtual_memory().available)
    limit = LIMIT.read_text().strip() if LIMIT.is_file() else "max"
    if limit != "max":
        free = min(free, int(limit) - int(USED.read_text()))
    return max(free, 0) // int(os.environ.get("LOCAL_WORLD_SIZE", "1"))
