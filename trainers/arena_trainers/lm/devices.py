"""The default device and precision of language models."""

import torch


def default_device() -> torch.device:
    """The accelerator (CUDA, MPS, XPU and others) if there is one, else the CPU."""
    if torch.accelerator.is_available():
        found = torch.accelerator.current_accelerator()
        if found is not None:
            return found
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
