"""Scores of the last positions: by TRL's fused output layer at some of them, or by the model's own logits."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn import Module

from arena_trainers.train.score.packing import IGNORED


@contextmanager
def scoring_the_last(
    model: Any, width: int, cuts: bool = True, scored: torch.Tensor | None = None
) -> Iterator[list[torch.Tensor]]:
    """Has TRL's fused head score the vocabulary at some of the last positions alone.

    Yields the hidden states of these positions; does nothing else unless `cuts`.

    Args:
        model: a causal language model.
        width: number of last positions.
        cuts: whether the head reads no other states.
        scored: int64[N, T], which of these positions; all by default.
    """
    causal = model.get_base_model() if hasattr(model, "peft_config") else model
    states: list[torch.Tensor] = []

    def cut_states(module: Module, inputs: tuple[Any, ...], output: Any) -> Any:
        states.append(selected(output.last_hidden_state[:, -width:], scored))
        if cuts:
            output.last_hidden_state = states[-1]
        return output

    hook = causal.base_model.register_forward_hook(cut_states)
    try:
        yield states
    finally:
        hook.remove()


def selected(states: torch.Tensor, places: torch.Tensor | None) -> torch.Tensor:
    """[N, T, H]: the states of [N, L, H] at places, int64[N, T]; all without places."""
    if places is None:
        return states
    starts = torch.arange(len(states), device=states.device) * states.shape[1]
    flat = states.flatten(0, 1)  # of which a selection has a cheap backward pass
    states_at_places = flat.index_select(0, (places + starts[:, None]).flatten())
    return states_at_places.view(*places.shape, states.shape[2])


def plain_scores(
    model: Any,
    inputs: dict[str, torch.Tensor],
    width: int,
    scored: torch.Tensor | None,
    temperature: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-probabilities and entropies of the labels, by the model's own logits."""
    labels = inputs.pop("shift_labels")
    logits: torch.Tensor = model(**inputs, use_cache=False).logits[:, -width:]
    logits = selected(logits, scored)
    logprobs = (logits.float() / temperature).log_softmax(dim=-1)
    label_logprobs = logprobs.gather(2, labels.clamp(min=0)[..., None])[..., 0]
    finite = logprobs.clamp(min=-1e4)  # as 0 times minus infinity is NaN
    entropies = -(logprobs.exp() * finite).sum(dim=-1)
    return label_logprobs.masked_fill(labels == IGNORED, 0.0), entropies
