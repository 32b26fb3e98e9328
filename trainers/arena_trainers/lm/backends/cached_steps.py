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

from arena_trainers.lm.backends.forward_pass import (
    cache_argument,
    evaluating,
    last_logits,
    positions,
    without_adapters,
)
from arena_trainers.lm.backends.generation_settings import with_settings
from arena_trainers.lm.backends.tolerance import gap_of, tolerance


def _forward(
    model: PreTrainedModel,
    ids: torch.Tensor,
    mask: torch.Tensor,
    cache: DynamicCache | None = None,
) -> Any:
    """The model's output for the last tokens of rows; logits of the very last one alone."""
    width = ids.shape[1]
    inputs: dict[str, Any] = dict(last_logits(model, 1))
    if cache is not None:
        inputs[str(cache_argument(model))] = cache
    return model(
        input_ids=ids,
        attention_mask=mask,
        use_cache=True,
        **inputs,
        **{name: x[:, -width:] for name, x in positions(model, mask).items()},
    )


def dynamic_cache(model: PreTrainedModel, output: Any) -> DynamicCache | None:
    """The cache of an output, which `_forward` takes; None if the model makes another kind."""
    name = cache_argument(model)
    cache = None if name is None else getattr(output, name, None)
    return cache if isinstance(cache, DynamicCache) else None


_gap_of_steps: WeakKeyDictionary[Any, float] = WeakKeyDictionary()

_gap_of_generate: WeakKeyDictionary[Any, float] = WeakKeyDictionary()


def steps_hold(model: PreTrainedModel) -> bool:
    """True if cached steps of `_forward` give what passes without a cache give.

    Measured once of each model. State-space models may want another mask of a step.
    """
    return _measured(model, _gap_of_steps, _logits_of_steps) <= tolerance(model.dtype)


def cache_holds(model: PreTrainedModel) -> bool:
    """True if transformers' `generate` with its cache gives what passes without one give.

    Measured once of each model; warns if the cache changes log-probabilities.
    """
    is_new = without_adapters(model) not in _gap_of_generate
    gap = _measured(model, _gap_of_generate, _logits_of_generate)
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
def _measured(
    model: PreTrainedModel,
    gaps: WeakKeyDictionary[Any, float],
    logits_of: Callable[[Any, torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
) -> float:
    """`gap_of` the log-probabilities after cached steps, and those of passes without a cache."""
    inner = without_adapters(model)
    if inner not in gaps:
        prompts = torch.tensor([[2, 3, 4, 5], [3, 4, 5, 2]], device=inner.device)
        with evaluating(inner):
            sequences, cached = logits_of(inner, prompts)
            plain = inner(input_ids=sequences, use_cache=False).logits[:, -1]
        if not bool(plain.isfinite().all()):
            return 0.0  # weights that have diverged tell nothing of the cache
        cached, plain = (x.float().log_softmax(dim=-1) for x in (cached, plain))
        gaps[inner] = gap_of((cached - plain).abs(), inner.dtype)
    return gaps[inner]


def _logits_of_steps(
    model: PreTrainedModel, prompts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """Sequences, int64[2, L + 2], and the logits after two cached steps, [2, V]; infinite without steps."""
    sequences = prompts[:1]
    output = _forward(model, sequences, torch.ones_like(sequences))
    for tokens in (prompts[:, 0], prompts[:, 1]):
        cache = dynamic_cache(model, output)
        parents = torch.arange(2, device=tokens.device).clamp(max=len(sequences) - 1)
        sequences = torch.cat([sequences[parents], tokens[:, None]], dim=1)
        if cache is None:
            return sequences, torch.full((2, 1), torch.nan, device=tokens.device)
        cache.reorder_cache(parents)  # type: ignore[arg-type] # indices
        mask = torch.ones_like(sequences)
        output = _forward(model, tokens[:, None], mask, cache)
    return sequences, output.logits[:, -1]


def _logits_of_generate(
    model: PreTrainedModel, prompts: torch.Tensor
) -> tuple[torch.Tensor, torch.Tensor]:
    """As `_logits_of_steps`, by `generate` of transformers."""
    config = GenerationConfig(
        max_new_tokens=3,
        do_sample=False,
        disable_compile=True,
        return_dict_in_generate=True,
        output_logits=True,
    )
    made: Any = with_settings(model, config).generate(  # type: ignore[operator]
        input_ids=prompts,
        attention_mask=torch.ones_like(prompts),
        generation_config=config,
        synced_gpus=False,
    )
    return made.sequences[:, :-1], made.logits[-1]
