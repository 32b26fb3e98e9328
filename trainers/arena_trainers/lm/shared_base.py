"""An opponent's adapter on the learner's model, whose weights it swaps while it plays."""

import filecmp
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedModel

from arena_trainers.lm.models import (
    WEIGHTS,
)
from arena_trainers.lm.policy import LMPolicy

# what two adapters may differ in and still fit the same layers
_IGNORED_OPTIONS = (
    "base_model_name_or_path",
    "inference_mode",
    "lora_dropout",
    "revision",
    "init_lora_weights",
    "peft_version",
    "task_type",
)


def share_base(policy: LMPolicy, learner: LMPolicy) -> bool:
    """Plays an opponent's adapter on the learner's model, if that has the same base.

    The learner's adapter has the opponent's weights while the opponent generates or scores,
    and its own again after that. Its own model is not kept.

    Returns:
        Whether the model is shared. If not, the opponent plays with a model of its own: it
        has no adapter, or one of other layers or another base, or the learner has none.
    """
    if not _has_same_layers(policy.model, learner.model):
        return False
    weights = {
        name: p.detach().clone() for name, p in _adapter_weights(policy.model).items()
    }

    @contextmanager
    def context() -> Iterator[PreTrainedModel]:
        with learner.context() as model, _with_adapter_weights(learner.model, weights):
            yield model

    policy.run_on(learner.model, context)
    return True


def _has_same_layers(model: Any, learner: Any) -> bool:
    """True if an adapter can take the place of another, on the same base model."""
    own, other = (
        getattr(m, "peft_config", {}).get("default") for m in (model, learner)
    )
    if own is None or other is None or _layer_options(own) != _layer_options(other):
        return False
    if own.peft_type.value != "LORA" or own.modules_to_save or own.bias != "none":
        return False
    shapes = [
        {n: p.shape for n, p in _adapter_weights(m).items()} for m in (model, learner)
    ]
    bases = [Path(m.get_base_model().name_or_path) for m in (model, learner)]
    return shapes[0] == shapes[1] and _same_weights(*bases)


def _layer_options(config: Any) -> dict[str, Any]:
    return {k: v for k, v in config.to_dict().items() if k not in _IGNORED_OPTIONS}


def _adapter_weights(model: Any) -> Mapping[str, torch.nn.Parameter]:
    """The weights of the adapter of a model, by name."""
    parameters = model.named_parameters()
    return {
        name: parameter
        for name, parameter in parameters
        if model.base_model.prefix in name
    }


def _same_weights(first: Path, second: Path) -> bool:
    """True if the folders of two models hold the same files of weights."""
    if first == second:
        return True
    names = [
        {f.name for glob in WEIGHTS for f in p.glob(glob)} for p in (first, second)
    ]
    if not names[0] or names[0] != names[1]:
        return False
    return all(filecmp.cmp(first / n, second / n, shallow=False) for n in names[0])


@contextmanager
def _with_adapter_weights(
    model: Any, weights: Mapping[str, torch.Tensor]
) -> Iterator[None]:
    """Gives the adapter of a model other weights for a while."""
    adapter = _adapter_weights(model)
    original = {name: p.detach().clone() for name, p in adapter.items()}
    with torch.no_grad():
        try:
            for name, p in adapter.items():
                p.copy_(weights[name])
            yield
        finally:
            for name, p in adapter.items():
                p.copy_(original[name])
