"""Defaults of TRL's options that `arena train` changes."""

from collections.abc import Container
from pathlib import Path
from typing import Any

import torch

PROJECT = "arena-envs"  # of the runs in trackio and W&B


def output_defaults(output_dir: str, options: Container[str]) -> dict[str, Any]:
    """Defaults of a trainer's options that differ from TRL's.

    Args:
        output_dir: the run folder.
        options: the names that the trainer knows.
    """
    defaults: dict[str, Any] = {
        "report_to": "none",
        "disable_tqdm": True,
        "ddp_find_unused_parameters": False,
        "output_dir": output_dir,
        "run_name": Path(output_dir).absolute().name,
        "hub_strategy": "end",  # with the card, whose results come last
    }
    if "project" in options:  # newer versions of transformers
        defaults["project"] = PROJECT
    if not torch.cuda.is_available():
        defaults |= {"use_cpu": True, "bf16": False}
    return defaults
