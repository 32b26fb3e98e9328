"""A trained adapter and its base model as one ordinary model."""

import shutil
from pathlib import Path
from typing import Any

from arena_trainers.lm.models import adapter_base, model_folder
from arena_trainers.lm.prompt_file import PROMPT_FILE

CARD = "README.md"


def write_merged(source: Path, target: Path) -> int:
    """Writes a whole model with its tokenizer, `arena_prompt.json` and model card.

    Args:
        source: folder of a saved model or adapter.
        target: folder to make; it appears whole or not at all.

    Returns:
        The number of parameters.

    Raises:
        ValueError: the folder exists, the adapter's base model is missing, or the
            adapter is of another base model.
    """
    if target.exists():
        raise ValueError(
            f"want a new folder, {str(target)!r} exists; give another (--out FOLDER)"
        )
    from transformers import AutoTokenizer

    from arena_trainers.lm.transformers_backend import with_adapter

    base = adapter_base(str(source))
    model = _whole(base or str(source))
    if base is not None:
        adapted: Any = with_adapter(model, source)
        model = adapted.merge_and_unload()
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    shutil.rmtree(part, ignore_errors=True)
    try:
        model.save_pretrained(part)
        AutoTokenizer.from_pretrained(source).save_pretrained(part)
        if (source / PROMPT_FILE).is_file():
            shutil.copy(source / PROMPT_FILE, part / PROMPT_FILE)
        if (source / CARD).is_file():
            _copy_card(source / CARD, part / CARD)
        part.rename(target)
    finally:
        shutil.rmtree(part, ignore_errors=True)
    return int(model.num_parameters())


def _copy_card(source: Path, target: Path) -> None:
    """Copies a model card, which then says that the model is a whole one."""
    from huggingface_hub import ModelCard

    card: Any = ModelCard.load(source, ignore_metadata_errors=True)
    card.data.library_name = "transformers"
    card.data.tags = [tag for tag in card.data.tags or () if tag != "lora"]
    card.save(target)


def _whole(name: str) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(model_folder(name))
