"""Whether a folder holds a reward model; imports no torch."""

import json
from pathlib import Path
from typing import Any

from arena_trainers.lm.models import adapter_base, find_model

_KIND = "ForSequenceClassification"
_MAKE = "make one with arena train --trainer reward --data PAIRS.parquet"


def check_reward_model(name: str) -> None:
    """Checks what can be known of a reward model without loading or downloading it.

    Args:
        name: a folder or an id of the hub.

    Raises:
        ValueError: there is no such model, or it is no reward model.
    """
    if adapter_base(name) is not None:
        raise ValueError(
            f"want a reward model with all its weights, got an adapter in {name!r}; train "
            "it without lora_r"
        )
    folder = find_model(name)
    if folder is not None:
        check_reward_folder(folder)


def check_language_model(name: str) -> None:
    """Raises ValueError if a model is a reward model, which gives no replies.

    Args:
        name: a folder or an id of the hub; one that must be downloaded is not checked.
    """
    folder = find_model(name)
    kind = None if folder is None else _kind(folder)
    if kind is not None and kind.endswith(_KIND):
        raise ValueError(
            f"want a language model, got the reward model {name!r} ({kind}), which gives no "
            f"replies; choose replies with best_of:4(lm:PATH, reward:{name}), or judge turns "
            f"with columns: {{rewards.judge: {{reward: {name}}}}}"
        )


def _kind(folder: Path) -> str | None:
    """The class of a saved model, if `config.json` names one."""
    try:
        kinds = json.loads((folder / "config.json").read_bytes())["architectures"]
        return str(kinds[0])
    except (ValueError, RecursionError, LookupError, TypeError):
        return None


def check_reward_folder(folder: Path) -> None:
    """Raises ValueError unless `config.json` is of a sequence classifier with one output."""
    try:
        config: Any = json.loads((folder / "config.json").read_bytes())
        kinds = [str(kind) for kind in config.get("architectures") or ["another kind"]]
        num_outputs = len(
            config.get("id2label") or (0, 1)
        )  # transformers has 2 by default
    except (ValueError, RecursionError, TypeError, AttributeError):
        raise ValueError(
            f"want the configuration of a reward model in {str(folder / 'config.json')!r}, "
            f"which cannot be read; {_MAKE}"
        ) from None
    if not kinds[0].endswith(_KIND):
        raise ValueError(
            f"want a reward model in {str(folder)!r}, got {kinds[0]}; {_MAKE}"
        )
    if num_outputs != 1:
        raise ValueError(
            f"want a reward model with one output in {str(folder)!r}, got {num_outputs}; "
            f"{_MAKE}"
        )
