"""A trained adapter and its base model as one ordinary model."""

import shutil
from pathlib import Path
from typing import Any

from arena_trainers.extras import import_extra
from arena_trainers.lm.models import ADAPTER, adapter_base, model_folder
from arena_trainers.lm.prompt_file import PROMPT_FILE


def is_adapter(folder: Path) -> bool:
    """Whether a folder holds an adapter instead of a whole model."""
    return (folder / ADAPTER).is_file()


def write_merged(source: Path, target: Path) -> int:
    """Writes a whole model with its tokenizer and `arena_prompt.json`.

    Args:
        source: folder of a saved model or adapter.
        target: folder to make; it appears whole or not at all.

    Returns:
        The number of parameters.

    Raises:
        ValueError: the folder exists, or the adapter's base model is not to be had.
    """
    if target.exists():
        raise ValueError(
            f"want a new folder, {str(target)!r} exists; give another (--out FOLDER)"
        )
    from transformers import AutoTokenizer

    model = _merged(source) if is_adapter(source) else _whole(str(source))
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        model.save_pretrained(part)
        AutoTokenizer.from_pretrained(source).save_pretrained(part)
        if (source / PROMPT_FILE).is_file():
            shutil.copy(source / PROMPT_FILE, part / PROMPT_FILE)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return int(model.num_parameters())


def _whole(name: str) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(model_folder(name))


def _merged(folder: Path) -> Any:
    peft = import_extra("peft", "train")
    base = adapter_base(str(folder))
    try:
        return peft.PeftModel.from_pretrained(
            _whole(str(base)), folder
        ).merge_and_unload()
    except (RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())[:300]
        raise ValueError(
            f"want the base model {base!r} of the adapter in {str(folder)!r}: {reason}"
        ) from error
