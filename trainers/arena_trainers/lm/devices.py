"""The default device of language models."""

import torch


def default_device() -> torch.device:
    """The accelerator (CUDA, MPS, XPU and others) if there is one, else the CPU."""
    if torch.accelerator.is_available():
        found = torch.accelerator.current_accelerator()
        if found is not None:
            return found
    return torch.device("cpu")
