"""Loads models and adapters for play, on the device and in the precision that suit them."""

import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PreTrainedModel,
)
from transformers.integrations import deepspeed

from arena_envs.extras import import_extra

NamedTensors = Mapping[str, torch.Tensor]  # weights by name


def load_model(
    folder: Path,
    device: str | torch.device | None = None,
    dtype: str | torch.dtype | None = None,
    kind: Any = AutoModelForCausalLM,
) -> PreTrainedModel:
    """The model of a folder, for generation or scoring.

    Args:
        folder: of a saved model.
        device: where it runs; by default the accelerator if there is one, else the CPU.
        dtype: of its weights, such as `"bfloat16"`; by default as saved, but float32 for
            half precision on a device that is slow at it.
        kind: the class of transformers that loads it.

    Raises:
        ValueError: torch has no such floating-point type, or this machine no such device.
    """
    target_device = usable_device(default_device() if device is None else device)
    if dtype is None:
        saved = AutoConfig.from_pretrained(folder).dtype
        weights_dtype = default_dtype(saved or torch.float32, target_device)
    else:
        weights_dtype = _floating_dtype(dtype)
    with unsharded_loading():
        model: Any = kind.from_pretrained(folder, dtype=weights_dtype)
    loaded: PreTrainedModel = model.to(target_device).eval()
    return loaded


def usable_device(device: str | torch.device) -> torch.device:
    """A device of this machine.

    Raises:
        ValueError: torch does not know the device, or cannot use it here.
    """
    try:
        usable = torch.device(device)
        torch.empty(0, device=usable)
    # AssertionError: torch was built without CUDA
    except (RuntimeError, AssertionError, NotImplementedError) as error:
        reason = str(error).partition("\n")[0]
        raise ValueError(
            f"want a device that torch can use here, got {str(device)!r:.80}: {reason:.200}; "
            "arena doctor shows the devices"
        ) from error
    return usable


def with_adapter(model: PreTrainedModel, folder: Path) -> PreTrainedModel:
    """A model with the adapter of a folder, for generation.

    Raises:
        ValueError: the adapter does not fit the model.
    """
    peft = import_extra("peft", "train")
    try:
        with warnings.catch_warnings(), unsharded_loading():
            # layers of the model that lack weights are found below
            warnings.filterwarnings("ignore", "Found missing adapter keys")
            adapted: Any = peft.PeftModel.from_pretrained(model, str(folder))
        saved = peft.load_peft_weights(str(folder), device="cpu")
        fits = saved.keys() == peft.get_peft_model_state_dict(adapted).keys()
    except (RuntimeError, ValueError) as error:
        if "size mismatch" not in str(error) and "arget modules" not in str(error):
            raise
        fits = False
    if not fits:
        raise ValueError(
            f"the adapter in {str(folder)!r} is of another base model than the one in "
            f"{model.name_or_path!r}: their layers differ; give base_model_name_or_path in "
            "adapter_config.json the model that it was trained on"
        )
    loaded: PreTrainedModel = adapted.eval()
    return loaded


def _floating_dtype(dtype: str | torch.dtype) -> torch.dtype:
    torch_dtype = getattr(torch, dtype, None) if isinstance(dtype, str) else dtype
    if not isinstance(torch_dtype, torch.dtype) or not torch_dtype.is_floating_point:
        raise ValueError(
            f"want dtype 'float32', 'bfloat16' or 'float16', got {dtype!r}"
        )
    return torch_dtype


def default_device() -> torch.device:
    """The accelerator (CUDA, MPS, XPU and others) if there is one, else the CPU."""
    if torch.accelerator.is_available():
        accelerator = torch.accelerator.current_accelerator()
        if accelerator is not None:
            return accelerator
    return torch.device("cpu")


def default_dtype(saved: torch.dtype, device: torch.device) -> torch.dtype:
    """The precision in which a saved model runs.

    Half precision is kept where it is faster: not on a CPU, and bfloat16 not on CUDA
    devices that emulate it.

    Args:
        saved: of the weights in the file.
        device: where the model will run.

    >>> default_dtype(torch.bfloat16, torch.device("cpu"))
    torch.float32
    """
    is_half = saved in (torch.bfloat16, torch.float16)
    if is_half and device.type == "cpu":
        return torch.float32
    if saved == torch.bfloat16 and device.type == "cuda":
        fast = torch.cuda.is_bf16_supported(including_emulation=False)
        return saved if fast else torch.float32
    return saved


@contextmanager
def unsharded_loading() -> Iterator[None]:
    """Within this context transformers and TRL take models to be whole.

    Where accelerate shards training, transformers loads models in parts: under ZeRO-3 each
    process has its part, and under FSDP the first process alone has the weights. An
    opponent's model is not trained, and each process uses it by itself.
    """
    config, fsdp = deepspeed._hf_deepspeed_config_weak_ref, "ACCELERATE_USE_FSDP"
    sharded = os.environ.pop(fsdp, None)
    deepspeed.unset_hf_deepspeed_config()
    try:
        yield
    finally:
        deepspeed._hf_deepspeed_config_weak_ref = config
        if sharded is not None:
            os.environ[fsdp] = sharded
