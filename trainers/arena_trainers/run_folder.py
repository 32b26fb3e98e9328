"""The folder of a training run: found usable before anything starts."""

import json
import os
import time
from pathlib import Path
from typing import Any

from transformers.trainer_utils import get_last_checkpoint


def default_folder() -> Path:
    """`runs/<date>-<time>`."""
    return Path(time.strftime("runs/%Y%m%d-%H%M%S"))


def check_new(folder: Path) -> None:
    """Finds out whether a new run can use this folder; creates nothing.

    Raises:
        ValueError: the folder is in use or cannot be written.
    """
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"want an empty or new run folder, {str(folder)!r} is in use")
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK):
        raise ValueError(f"cannot write to run folder {str(folder)!r}")


def check_saved_model(folder: Path) -> None:
    """Finds out whether a folder holds a saved model.

    Raises:
        ValueError: it does not.
    """
    if not (folder / "config.json").is_file():
        raise ValueError(f"want a folder with a saved model, got {str(folder)!r}")


def last_checkpoint(folder: Path, model: Path) -> str:
    """The newest checkpoint of a run, found to be of the run's model.

    Args:
        folder: the run folder.
        model: folder of the model that the run trains.

    Raises:
        ValueError: the run is finished, there is no checkpoint, or it is of another model.
    """
    checkpoint: str | None = None
    if (folder / "results.json").exists():
        raise ValueError(f"the run in {str(folder)!r} is finished")
    if folder.is_dir():
        checkpoint = get_last_checkpoint(str(folder))
    if checkpoint is None:
        raise ValueError(f"run folder {str(folder)!r} has no checkpoint to resume from")
    check_same_model(Path(checkpoint), model)
    return checkpoint


def check_same_model(checkpoint: Path, model: Path) -> None:
    """Holds the shape of a checkpoint's model against another saved model.

    Raises:
        ValueError: they differ; names the first difference.
    """
    name = "adapter_config.json"
    if (checkpoint / name).is_file():
        return  # an adapter fits its base model, or fails to load by name
    wanted, got = _config(model), _config(checkpoint)
    keys = ("model_type", "vocab_size", "hidden_size", "num_hidden_layers")
    for key in keys:
        if wanted.get(key) != got.get(key):
            raise ValueError(
                f"checkpoint {str(checkpoint)!r} is of another model: "
                f"{key} is {got.get(key)!r}, want {wanted.get(key)!r}"
            )


def _config(folder: Path) -> dict[str, Any]:
    check_saved_model(folder)
    config: dict[str, Any] = json.loads((folder / "config.json").read_text())
    return config
