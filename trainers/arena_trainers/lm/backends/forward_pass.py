"""How a model's forward pass is called: its arguments, its mode, and whether it reads padding."""

import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import torch

from arena_trainers.lm.backends.padding import left_padded
from arena_trainers.lm.backends.tolerance import logprob_gap, tolerance

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def check_no_prompt_tuning(model: "PreTrainedModel") -> None:
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


def positions(model: "PreTrainedModel", mask: torch.Tensor) -> dict[str, torch.Tensor]:
    """The argument `position_ids` of rows padded on the left; none if the model takes none.

    Without it most models count positions from the left edge, padding included. Learned
    positions are then wrong, and so are rotary ones where keys are normed after them.

    Args:
        model: a causal language model, with adapters or without.
        mask: int64[B, T], 0 at padding.
    """
    if not accepts_argument(model, "position_ids"):
        return {}
    return {"position_ids": (mask.cumsum(dim=1) - 1).clamp(min=0)}


def last_logits(
    model: "PreTrainedModel", num: int, width: int
) -> dict[str, int | torch.Tensor]:
    """The argument for logits of the last positions alone; none if the model takes none.

    Args:
        model: a causal language model, with adapters or without.
        num: positions.
        width: tokens of a row of the forward pass.
    """
    if not accepts_argument(model, "logits_to_keep"):
        return {}
    if not _takes_positions(type(without_adapters(model)).forward):
        return {"logits_to_keep": num}
    head: torch.nn.Module | None = without_adapters(model).get_output_embeddings()
    weight = getattr(head, "weight", None)
    if weight is None or weight.requires_grad or weight.device.type != "cpu":
        return {"logits_to_keep": num}
    # A number makes the model slice its states. On a CPU, PyTorch multiplies a slice by a frozen matrix
    # with one copy of the matrix for each row (SmolLM2's takes 57 MB), but not selected states.
    return {"logits_to_keep": torch.arange(max(width - num, 0), width)}


def whole_text_logits(
    model: "PreTrainedModel", texts: Sequence[Sequence[int]], num: int, pad_id: int
) -> torch.Tensor:
    """[B, num, V], the logits after the last tokens of texts, by one forward pass."""
    ids, mask = left_padded(texts, pad_id, model.device)
    output: Any = model(
        input_ids=ids,
        attention_mask=mask,
        **last_logits(model, num, ids.shape[1]),
        **positions(model, mask),
    )
    logits: torch.Tensor = output.logits[:, -num:]
    return logits


def accepts_argument(model: "PreTrainedModel", name: str) -> bool:
    """True if the forward pass of a causal language model has an argument of this name."""
    return name in _arguments(type(without_adapters(model)).forward)


@lru_cache
def _arguments(forward: Callable[..., Any]) -> frozenset[str]:
    return frozenset(inspect.signature(forward).parameters)


@lru_cache
def _takes_positions(forward: Callable[..., Any]) -> bool:
    """Whether `logits_to_keep` may be a tensor of positions, by its annotation.

    Models of transformers take one. Code of the hub may slice by `-logits_to_keep`, which is a
    number then.
    """
    annotation = inspect.signature(forward).parameters["logits_to_keep"].annotation
    return "Tensor" in str(annotation)


def without_adapters(model: "PreTrainedModel") -> "PreTrainedModel":
    """The model inside of peft's; its layers still hold their adapters."""
    get_base_model = getattr(model, "get_base_model", None)
    return model if get_base_model is None else get_base_model()


def weights_version(model: "PreTrainedModel") -> object:
    """Differs after weights were changed in place, were replaced, or another adapter was chosen.

    A change by way of `Tensor.data` in place is not noticed.
    """
    adapters = getattr(model, "active_adapters", None)  # of peft; a method elsewhere
    weights = [(weight.data_ptr(), weight._version) for weight in model.parameters()]
    return tuple(weights), adapters if isinstance(adapters, list) else None


# of transformers since 5.24, before it, and of state-space models before it
_CACHE_ARGUMENTS = ("cache", "past_key_values", "cache_params")


def cache_argument(model: "PreTrainedModel") -> str | None:
    """The argument in which a forward pass takes the cache of earlier tokens, None without.

    Outputs hold their cache under the same name. An argument of another name would vanish in
    `**kwargs`, and the model would forget its prompt.
    """
    for name in _CACHE_ARGUMENTS:
        if accepts_argument(model, name):
            return name
    return None


_models_reading_padding: WeakKeyDictionary["PreTrainedModel", bool] = (
    WeakKeyDictionary()
)


@torch.no_grad()
def reads_padding(model: "PreTrainedModel") -> bool:
    """True if padding on the left changes a row: recurrent layers may ignore the mask.

    Such a model runs rows of the same length together. Measured once, and only of models
    with recurrent layers.
    """
    inner = without_adapters(model)
    if not getattr(inner, "_is_stateful", False):
        return False
    if inner not in _models_reading_padding:
        ids = torch.tensor([[2, 3, 4]], device=inner.device)
        pad = torch.nn.functional.pad
        padded, mask = pad(ids, (2, 0)), pad(torch.ones_like(ids), (2, 0))
        with evaluating(model):
            unpadded = model(input_ids=ids, use_cache=False).logits[0, -1]
            padded_logits = model(
                input_ids=padded,
                attention_mask=mask,
                use_cache=False,
                **positions(model, mask),
            ).logits[0, -1]
        unpadded = unpadded.float().log_softmax(-1)
        padded_logits = padded_logits.float().log_softmax(-1)
        gap = logprob_gap((unpadded - padded_logits).abs(), inner.dtype)
        _models_reading_padding[inner] = gap > tolerance(inner.dtype)
    return _models_reading_padding[inner]
