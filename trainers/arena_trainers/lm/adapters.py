"""LoRA adapters that are trained: their configurations, the model to start from, their size."""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import torch
from transformers import AutoModelForCausalLM

from arena_envs.extras import import_extra
from arena_trainers.lm.loading import unsharded_loading
from arena_trainers.lm.models import are_adapters

if TYPE_CHECKING:
    from peft import LoraConfig, PeftModel
    from transformers import PreTrainedConfig


class ModelOptions(Protocol):
    """TRL's options of the model that it loads."""

    model_init_kwargs: dict[str, Any] | str | None


def lora_config(
    r: int, alpha: int | None, target_modules: Sequence[str]
) -> "LoraConfig":
    """The `LoraConfig` of a new adapter.

    Args:
        r: its rank.
        alpha: the adapter's output is times alpha / r; None for twice the rank.
        target_modules: names of the layers that get one; `["all-linear"]` for all but the
            output layer.
    """
    peft = import_extra("peft", "train")
    names = list(target_modules)
    config: LoraConfig = peft.LoraConfig(
        r=r,
        lora_alpha=2 * r if alpha is None else alpha,
        target_modules="all-linear" if names == ["all-linear"] else names,
        task_type="CAUSAL_LM",
    )
    return config


def starting_model(
    base: Path, adapter: Path | None, args: ModelOptions
) -> "str | PeftModel":
    """The model that a trainer of TRL starts from.

    A trainer with a reference model keeps a copy of the adapter as its reference.

    Args:
        base: folder of the model.
        adapter: folder of the adapter that goes on training; None for none.
        args: the trainer's options. Its `model_init_kwargs` are used up with an adapter.

    Returns:
        The folder of the model, or the model with the adapter.
    """
    if adapter is None:
        return str(base)
    peft = import_extra("peft", "train")
    options = {"dtype": "float32", **(getattr(args, "model_init_kwargs", None) or {})}
    args.model_init_kwargs = None  # TRL passes them to models that it loads itself
    model: Any = AutoModelForCausalLM.from_pretrained(base, **options)
    adapted: PeftModel = peft.PeftModel.from_pretrained(
        model, str(adapter), is_trainable=True
    )
    return adapted


def adapter_configs(
    roles: Mapping[Any, Mapping[str, Any]], base: "LoraConfig | None"
) -> "list[LoraConfig]":
    """The `LoraConfig` of each learner with one; `base` is that of learners without `lora_r`."""
    if not are_adapters(roles, base is not None):
        return []
    configs = []
    for options in roles.values():
        rank = options.get("lora_r", base and base.r)
        config = base or lora_config(rank, None, ["all-linear"])
        alpha = config.lora_alpha * rank / config.r
        configs.append(replace(copy.deepcopy(config), r=rank, lora_alpha=alpha))
    return configs


def count_weights(
    config: "PreTrainedConfig", adapter: "LoraConfig | None" = None
) -> tuple[int, int]:
    """Weights of a model, and of an adapter; makes neither.

    Raises:
        ValueError: that of peft: the adapter names layers that the model lacks.
    """
    with torch.device("meta"), unsharded_loading():
        model = AutoModelForCausalLM.from_config(config)
        total = model.num_parameters()
        if adapter is None:
            return total, 0
        with_adapter = import_extra("peft", "train").get_peft_model(model, adapter)
    return total, with_adapter.num_parameters(only_trainable=True)
