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
_FREE = (
    *("base_model_name_or_path", "inference_mode", "lora_dropout", "revision"),
    *("init_lora_weights", "peft_version", "task_type"),
)


def share_base(policy: LMPolicy, learner: LMPolicy) -> bool:
    """Plays an opponent's adapter on the learner's model, if that has the same base.

    The learner's adapter has the opponent's weights while the opponent generates or scores,
    and its own again after that. Its own model is not kept.

    Returns:
        Whether the model is shared. If not, the opponent plays with a model of its own: it
        has no adapter, or one of other layers or another base, or the learner has none.
    """
    if not _fits(policy.model, learner.model):
        return False
    weights = {name: p.detach().clone() for name, p in _adapter(policy.model).items()}

    @contextmanager
    def context() -> Iterator[PreTrainedModel]:
        with learner.context() as model, _swapped(learner.model, weights):
            yield model

    policy.run_on(learner.model, context)
    return True


def _fits(model: Any, learner: Any) -> bool:
    """True if an adapter can take the place of another, on the same base model."""
    own, other = (
        getattr(m, "peft_config", {}).get("default") for m in (model, learner)
    )
    if own is None or other is None or _kept(own) != _kept(other):
        return False
    if own.peft_type.value != "LORA" or own.modules_to_save or own.bias != "none":
        return False
    shapes = [{n: p.shape for n, p in _adapter(m).items()} for m in (model, learner)]
    bases = [Path(m.get_base_model().name_or_path) for m in (model, learner)]
    return shapes[0] == shapes[1] and _same_weights(*bases)


def _kept(config: Any) -> dict[str, Any]:
    return {k: v for k, v in config.to_dict().items() if k not in _FREE}


def _adapter(model: Any) -> Mapping[str, torch.nn.Parameter]:
    """The weights of the adapter of a model, by name."""
    named = model.named_parameters()
    return {name: p for name, p in named if model.base_model.prefix in name}


def _same_weights(one: Path, other: Path) -> bool:
    """True if the folders of two models hold the same files of weights."""
    if one == other:
        return True
    names = [{f.name for glob in WEIGHTS for f in p.glob(glob)} for p in (one, other)]
    if not names[0] or names[0] != names[1]:
        return False
    return all(filecmp.cmp(one / n, other / n, shallow=False) for n in names[0])


@contextmanager
def _swapped(model: Any, weights: Mapping[str, torch.Tensor]) -> Iterator[None]:
    """Gives the adapter of a model other weights for a while."""
    adapter = _adapter(model)
    own = {name: p.detach().clone() for name, p in adapter.items()}
    with torch.no_grad():
        try:
            for name, p in adapter.items():
                p.copy_(weights[name])
            yield
        finally:
            for name, p in adapter.items():
                p.copy_(own[name])
