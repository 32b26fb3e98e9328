"""Forward passes with a cache of earlier tokens, and whether they give what passes without one give."""

import warnings
from collections.abc import Callable
from typing import Any
from weakref import WeakKeyDictionary

import torch
from transformers import (
    DynamicCache,
    GenerationConfig,
    PreTrainedModel,
)
from transformers.cache_utils import DynamicLayer

from arena_trainers.lm.backends.forward_pass import (
    cache_argument,
    evaluating,
    last_logits,
    positions,
    without_adapters,
)
from arena_trainers.lm.backends.generation_settings import with_generation_config
from arena_trainers.lm.backends.key_values import KeyValueShape, LayerShape
from arena_trainers.lm.backends.tolerance import logprob_gap, tolerance


def forward_with_cache(
    model: PreTrainedModel,
    ids: torch.Tensor,
    mask: torch.Tensor,
    cache: DynamicCache | None = None,
    num_logits: int = 1,
) -> Any:
    """The model's output for the last tokens of rows; logits of the very last ones alone."""
    width = ids.shape[1]
    inputs: dict[str, Any] = dict(last_logits(model, num_logits, width))
    if cache is not None:
        inputs[str(cache_argument(model))] = cache
    return model(
        input_ids=ids,
        attention_mask=mask,
        use_cache=True,
        **inputs,
        **{name: values[:, -width:] for name, values in positions(model, mask).items()},
    )


def dynamic_cache(model: PreTrainedModel, output: Any) -> DynamicCache | None:
    """The cache of an output, which `forward_with_cache` takes; None if the model makes another kind."""
    argument = cache_argument(model)
    cache = None if argument is None else getattr(output, argument, None)
    return cache if isinstance(cache, DynamicCache) else None


def key_value_shape(model: PreTrainedModel) -> KeyValueShape | None:
    """What the model keeps of a token; None if its cache cannot be cut at every token.

    The caches of recurrent layers and of sliding windows cannot.
    """
    ids = torch.tensor([[2, 3]], device=model.device)
    with torch.no_grad(), evaluating(model):
        output = forward_with_cache(model, ids, torch.ones_like(ids))
    cache = dynamic_cache(model, output)
    layers = []
    for layer in [] if cache is None else cache.layers:
        if type(layer) is not DynamicLayer:  # subclasses keep less, or other things
            return None
        keys, values = layer.keys, layer.values
        if keys is None or values is None:
            return None
        sizes = [(tensor.shape[1], tensor.shape[3]) for tensor in (keys, values)]
        layers.append(LayerShape(*sizes))
        dtype = keys.dtype
    return KeyValueShape(tuple(layers), dtype) if layers else None


_step_gaps: WeakKeyDictionary[PreTrainedModel, float] = WeakKeyDictionary()

_generate_gaps: WeakKeyDictionary[PreTrainedModel, float] = WeakKeyDictionary()


def cached_steps_are_exact(model: PreTrainedModel) -> bool:
    """True if cached steps of `forward_with_cache` give what passes without a cache give.

    Measured once of each model. State-space models may want another mask of a step.
    """
    return _cache_gap(model, _step_gaps, _step_logits) <= tolerance(model.dtype)


def generate_cache_is_exact(model: PreTrainedModel) -> bool:
    """True if transformers' `generate` with its cache gives what passes without one give.

    Measured once of each model; warns if the cache changes log-probabilities.
    """
    is_new = without_adapters(model) not in _generate_gaps
    gap = _cache_gap(model, _generate_gaps, _generate_logits)
    holds = gap <= tolerance(model.dtype)
    if is_new and not holds:
        warnings.warn(
            f"the cache of {model.config.model_type} is left out: with it, log-probabilities "
            f"are off by {gap:.3g} nats. Replies are exact without it, and take longer; "
            "another version of transformers may mend it",
            stacklevel=2,
        )
    return holds


@torch.no_grad()
def _cache_gap(
    model: PreTrainedModel,
    gaps: WeakKeyDictionary[PreTrainedModel, float],
    cached_logits: Callable[
        [PreTrainedModel, torch.Tensor], tuple[torch.Tensor, torch.Tensor]
    ],
) -> float:
    """`logprob_gap` the log-probabilities after cached steps, and those of passes without a cache."""
    inner = without_adapters(model)
    if inner not in gaps:
        prompts = torch.tensor([[2, 3, 4, 5], [3, 4, 5, 2]], device=inner.device)
        # passes of the model with its adapters: FSDP2 takes the first part that it sees for the root
        with evaluating(model):
            sequences, cached = cached_logits(model, prompts)
            uncached = model(input_ids=sequences, use_cache=False).logits[:, -1]
        if not bool(uncached.isfinite().all()):
            return 0.0  # weights that have diverged tell nothing of the cache
        cached = cached.float().log_softmax(dim=-1)
        uncached = uncached.float().log_softmax(dim=-1)
        gaps[inner] = logprob_gap((cached - uncached).abs(), inner.dtype)
    return gaps[inner]


def _step_logits(
    model: PreTrainedModel, prompts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences, int64[2, L + 2], and the logits after two cached steps, [2, V]; infinite without steps."""
    sequences = prompts[:1]
    output = forward_with_cache(model, sequences, torch.ones_like(sequences))
    for tokens in (prompts[:, 0], prompts[:, 1]):
        cache = dynamic_cache(model, output)
        parents = torch.arange(2, device=tokens.device).clamp(max=len(sequences) - 1)
        sequences = torch.cat([sequences[parents], tokens[:, None]], dim=1)
        if cache is None:
            return sequences, torch.full((2, 1), torch.nan, device=tokens.device)
        cache.reorder_cache(parents)  # type: ignore[arg-type] # indices
        mask = torch.ones_like(sequences)
        output = forward_with_cache(model, tokens[:, None], mask, cache)
    return sequences, output.logits[:, -1]


def _generate_logits(
    model: PreTrainedModel, prompts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `_step_logits`, by `generate` of transformers."""
    config = GenerationConfig(
        max_new_tokens=3,
        do_sample=False,
        disable_compile=True,
        return_dict_in_generate=True,
        output_logits=True,
    )
    output: Any = with_generation_config(model, config).generate(  # type: ignore[operator]
        input_ids=prompts,
        attention_mask=torch.ones_like(prompts),
        generation_config=config,
        synced_gpus=False,
    )
    return output.sequences[:, :-1], output.logits[-1]
