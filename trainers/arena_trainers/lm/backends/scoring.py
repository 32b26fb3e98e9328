"""Plain forward passes: the memory that rows take, and log-probabilities of given replies."""

import ctypes
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
import psutil
import torch
from numpy.typing import NDArray

if TYPE_CHECKING:
    from transformers import PreTrainedModel

TOLERANCE = 1e-3  # nats by which log-probabilities of a token may differ, in float32
# mean in half precision; 0.03 measured in 12 layers, where single tokens differ by 0.12
HALF_TOLERANCE = 0.1
FLOAT = 4  # bytes
OF_FREE = 0.5  # part of the free memory that activations may take
LEAST = 256  # tokens; with less memory than they take, nothing can be trained
TILE = 32_768  # most words that TRL scores at once
LIMIT = Path("/sys/fs/cgroup/memory.max")  # of a container under Linux
USED = Path("/sys/fs/cgroup/memory.current")


def default_max_tokens(
    model: Any,
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
        trained = sum(p.numel() for p in model.parameters() if p.requires_grad)
        free -= 3 * FLOAT * trained
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


def bytes_per_token(
    config: Any, *, training: bool = True, checkpointing: bool = False
) -> int:
    """Bytes of a token's activations in float32, if the token is of a reply.

    A layer of Llama keeps 8 vectors of the hidden size, 4 of the queries, keys and values,
    and 4 of the feed-forward width (1.75 MB measured in SmolLM2-135M's architecture, as
    calculated). Scores of the vocabulary take 4 tiles.

    Args:
        config: of the language model.
        training: as for `default_max_tokens`.
        checkpointing: as for `default_max_tokens`.
    """
    hidden, layers = config.hidden_size, config.num_hidden_layers
    heads = getattr(config, "num_attention_heads", 1)
    head_dim = getattr(config, "head_dim", None) or hidden // heads
    keys = getattr(config, "num_key_value_heads", None) or heads
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    experts = getattr(config, "num_experts_per_tok", None)
    if experts:  # of a mixture, each with its own width
        inner = experts * (getattr(config, "moe_intermediate_size", None) or inner)
    layer = 8 * hidden + 4 * (heads + 2 * keys) * head_dim + 4 * inner
    kept = layer
    if training:
        kept = layers * hidden + layer if checkpointing else layers * layer
    return int(FLOAT * (kept + 4 * min(config.vocab_size, TILE)))


def free_memory(device: torch.device) -> int:
    """Bytes that this process may still take on the device."""
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
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
        before = prompt
        prompt, reply = max(prompt, prompts[i]), max(reply, replies[i])
        is_full = (len(chunks[-1]) + 1) * (prompt + reply) > max_tokens
        if chunks[-1] and (is_full or (alike and prompt != before)):
            chunks.append([])
            prompt, reply = prompts[i], replies[i]
        chunks[-1].append(i)
    return chunks


def refuse_prompt_tuning(model: "PreTrainedModel") -> None:
    """Raises ValueError at adapters that a plain forward pass ignores."""
    for adapter in getattr(model, "peft_config", {}).values():
        if adapter.is_prompt_learning:
            raise ValueError(
                f"want a model whose adapters are in its layers, such as LoRA, got "
                f"{adapter.peft_type.value}"
            )


@contextmanager
def evaluating(model: "PreTrainedModel") -> Iterator[None]:
    """Turns off what a model does in training alone, such as dropout."""
    training = model.training
    if training:
        model.eval()
    try:
        yield
    finally:
        if training:
            model.train()


def left_padded(
    rows: Sequence[Sequence[int]], pad_id: int, device: torch.device
) -> tuple[torch.Tensor, torch.Tensor]:
    """Token ids and their mask, int64[B, T]; all rows end at the right edge."""
    mask = places(rows)[:, ::-1]
    # by way of numpy, which reads lists six times as fast as torch does
    ids = torch.from_numpy(filled(rows, mask, pad_id))
    return ids.to(device), torch.from_numpy(mask.astype(np.int64)).to(device)


def places(lists: Sequence[Sequence[Any]], unit: int = 1) -> NDArray[np.bool_]:
    """bool[B, W]: whether a list has an entry; W is a multiple of the unit."""
    sizes = np.array([len(entries) for entries in lists])
    return np.arange(-(-sizes.max() // unit) * unit) < sizes[:, None]


def filled(
    lists: Sequence[Sequence[Any]], mask: NDArray[np.bool_], fill: float
) -> NDArray[Any]:
    """[B, W] with the entries of lists where the mask is true; NaN for None."""
    found = np.full(mask.shape, fill, np.array(fill).dtype)
    found[mask] = np.array([*chain.from_iterable(lists)], found.dtype)
    return found


def positions(model: Any, mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """The argument `position_ids` of rows padded on the left; none if the model takes none.

    Without it most models count positions from the left edge, padding included. Learned
    positions are then wrong, and so are rotary ones where keys are normed after them.

    Args:
        model: a causal language model, with adapters or without.
        mask: int64[B, T], 0 at padding.
    """
    if not takes(model, "position_ids"):
        return {}
    return {"position_ids": (mask.cumsum(dim=1) - 1).clamp(min=0)}


def last_logits(model: Any, num: int) -> dict[str, int]:
    """The argument for logits of the last positions alone; none if the model takes none."""
    return {"logits_to_keep": num} if takes(model, "logits_to_keep") else {}


def takes(model: Any, name: str) -> bool:
    """True if the forward pass of a causal language model has an argument of this name."""
    return name in _arguments(type(without_adapters(model)).forward)


@lru_cache
def _arguments(forward: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(forward).parameters)


def without_adapters(model: Any) -> Any:
    """The model inside of peft's; its layers still hold their adapters."""
    return model.get_base_model() if hasattr(model, "get_base_model") else model


# of transformers since 5.24, before it, and of state-space models before it
_CACHE_ARGUMENTS = ("cache", "past_key_values", "cache_params")


def cache_argument(model: Any) -> str | None:
    """The argument in which a forward pass takes the cache of earlier tokens, None without.

    Outputs hold their cache under the same name. An argument of another name would vanish in
    `**kwargs`, and the model would forget its prompt.
    """
    return next((name for name in _CACHE_ARGUMENTS if takes(model, name)), None)


_reading_padding: WeakKeyDictionary[Any, bool] = WeakKeyDictionary()


@torch.no_grad()
def reads_padding(model: Any) -> bool:
    """True if padding on the left changes a row: recurrent layers may ignore the mask.

    Such a model runs rows of the same length together. Measured once, and only of models
    with recurrent layers.
    """
    inner = without_adapters(model)
    if not getattr(inner, "_is_stateful", False):
        return False
    if inner not in _reading_padding:
        ids = torch.tensor([[2, 3, 4]], device=inner.device)
        pad = torch.nn.functional.pad
        padded, mask = pad(ids, (2, 0)), pad(torch.ones_like(ids), (2, 0))
        with evaluating(inner):
            alone = inner(input_ids=ids, use_cache=False).logits[0, -1]
            beside = inner(
                input_ids=padded,
                attention_mask=mask,
                use_cache=False,
                **positions(inner, mask),
            ).logits[0, -1]
        apart = (alone.float().log_softmax(-1) - beside.float().log_softmax(-1)).abs()
        _reading_padding[inner] = gap_of(apart, inner.dtype) > tolerance(inner.dtype)
    return _reading_padding[inner]


def tolerance(dtype: torch.dtype) -> float:
    """The `gap_of` log-probabilities, in nats, that is of rounding alone."""
    return TOLERANCE if dtype == torch.float32 else HALF_TOLERANCE


def gap_of(apart: torch.Tensor, dtype: torch.dtype) -> float:
    """The largest of absolute differences in float32, their mean in half precision."""
    gap = apart.max() if dtype == torch.float32 else apart.mean()
    return float(gap) if bool(gap.isfinite()) else math.inf


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
    full = [[*prompt, *reply] for prompt, reply in rows]
    lengths = [len(reply) for _, reply in rows]
    found = [0.0] * len(rows)
    sizes = [len(ids) for ids in full]
    alike = reads_padding(model)
    for chunk in chunks_by_length(sizes, [0] * len(rows), max_tokens, alike):
        inputs = left_padded([full[i] for i in chunk], pad_id, model.device)
        own = [lengths[i] for i in chunk]
        values = _chunk_logprobs(model, inputs, own, temperature, eos_ids)
        for i, value in zip(chunk, values, strict=True):
            found[i] = value
    return found


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
    inside = position >= longest - sizes[:, None]
    ending = logprobs[:, -1, list(eos_ids)].logsumexp(dim=-1)
    total: list[float] = (picked.where(inside, 0.0).sum(dim=1) + ending).tolist()
    return total
