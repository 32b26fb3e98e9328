"""An opponent's adapter on the learner's model, whose weights it swaps while it plays."""

import filecmp
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import PreTrainedModel

from arena_trainers.lm.models import WEIGHTS
from arena_trainers.lm.policy import LMPolicy

if TYPE_CHECKING:
    from peft import LoraConfig

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
    adapter = _adapter_weights(policy.model)
    weights = {name: weight.detach().clone() for name, weight in adapter.items()}

    @contextmanager
    def context() -> Iterator[PreTrainedModel]:
        with learner.context() as model, _with_adapter_weights(learner.model, weights):
            yield model

    policy.run_on(learner.model, context)
    return True


def _has_same_layers(model: PreTrainedModel, learner: PreTrainedModel) -> bool:
    """True if an adapter can take the place of another, on the same base model."""
    model_config, learner_config = _adapter_config(model), _adapter_config(learner)
    if model_config is None or learner_config is None:
        return False
    if _layer_options(model_config) != _layer_options(learner_config):
        return False
    if model_config.peft_type != "LORA":
        return False
    if model_config.modules_to_save or model_config.bias != "none":
        return False
    if _adapter_shapes(model) != _adapter_shapes(learner):
        return False
    return _same_weights(_base_folder(model), _base_folder(learner))


def _adapter_config(model: PreTrainedModel) -> "LoraConfig | None":
    """The configuration of the adapter that a model plays with, if it has one."""
    config: LoraConfig | None = getattr(model, "peft_config", {}).get("default")
    return config


def _layer_options(config: "LoraConfig") -> dict[str, Any]:
    options = config.to_dict().items()
    return {name: value for name, value in options if name not in _IGNORED_OPTIONS}


def _adapter_weights(model: PreTrainedModel) -> dict[str, torch.nn.Parameter]:
    """The weights of the adapter of a model, by name."""
    tuner: Any = model.base_model  # of peft, which says how its weights are called
    return {
        name: parameter
        for name, parameter in model.named_parameters()
        if tuner.prefix in name
    }


def _adapter_shapes(model: PreTrainedModel) -> dict[str, torch.Size]:
    return {name: weight.shape for name, weight in _adapter_weights(model).items()}


def _base_folder(model: PreTrainedModel) -> Path:
    """The folder of the model that an adapter is of."""
    adapted: Any = model  # a `PeftModel`
    return Path(adapted.get_base_model().name_or_path)


def _same_weights(first: Path, second: Path) -> bool:
    """True if the folders of two models hold the same files of weights."""
    if first == second:
        return True
    names = _weight_files(first)
    if not names or names != _weight_files(second):
        return False
    return all(filecmp.cmp(first / n, second / n, shallow=False) for n in names)


def _weight_files(folder: Path) -> set[str]:
    return {file.name for pattern in WEIGHTS for file in folder.glob(pattern)}


@contextmanager
def _with_adapter_weights(
    model: PreTrainedModel, weights: Mapping[str, torch.Tensor]
) -> Iterator[None]:
    """Puts other weights in the place of a model's adapter for a while."""
    adapter = _adapter_weights(model)
    original = {name: weight.data for name, weight in adapter.items()}
    try:
        for name, weight in adapter.items():
            weight.data = weights[name].to(weight.device, weight.dtype)
        yield
    finally:
        for name, weight in adapter.items():
            weight.data = original[name]
