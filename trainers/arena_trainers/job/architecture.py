"""The sizes of a causal language model, without its weights."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

TYPES = ("llama", "mistral", "qwen2", "qwen3")  # whose weights are counted here


@dataclass(frozen=True)
class Architecture:
    """Sizes of a decoder-only transformer with gated feed-forward layers.

    Attributes:
        model_type: as transformers calls it, one of `TYPES`.
        hidden_size: width of the residual stream.
        num_layers: decoder layers.
        num_heads: query heads.
        num_kv_heads: key and value heads.
        head_dim: width of a head.
        intermediate_size: width of the feed-forward layers.
        vocab_size: tokens.
        is_tied: whether the output layer is the table of embeddings.
    """

    model_type: str
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    is_tied: bool

    @property
    def linear_layers(self) -> dict[str, tuple[int, int]]:
        """Inputs and outputs of the linear layers of a decoder layer, by name."""
        hidden, inner = self.hidden_size, self.intermediate_size
        query, key = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        return {
            "q_proj": (hidden, query),
            "k_proj": (hidden, key),
            "v_proj": (hidden, key),
            "o_proj": (query, hidden),
            "gate_proj": (hidden, inner),
            "up_proj": (hidden, inner),
            "down_proj": (inner, hidden),
        }

    @property
    def num_parameters(self) -> int:
        """All weights; shared ones count once."""
        layers = self.linear_layers
        layer = sum(wide * out for wide, out in layers.values()) + 2 * self.hidden_size
        if self.model_type == "qwen3":  # norms of queries and keys
            layer += 2 * self.head_dim
        if self.model_type == "qwen2":  # biases
            layer += sum(layers[name][1] for name in ("q_proj", "k_proj", "v_proj"))
        tables = (1 if self.is_tied else 2) * self.vocab_size * self.hidden_size
        return tables + self.num_layers * layer + self.hidden_size

    @property
    def kv_numbers_per_token(self) -> int:
        """Numbers in the keys and values of one token."""
        return 2 * self.num_layers * self.num_kv_heads * self.head_dim

    def lora_parameters(self, rank: int, target_modules: Sequence[str]) -> int:
        """Weights of a LoRA adapter.

        Args:
            rank: of its matrices.
            target_modules: names of layers, or `["all-linear"]`.

        Raises:
            ValueError: a name is none of a linear layer.
        """
        layers = self.linear_layers
        names = list(layers) if target_modules == ["all-linear"] else target_modules
        for name in names:
            if name not in layers:
                raise ValueError(
                    f"want lora_target_modules from {', '.join(layers)} for --dry-run, "
                    f"got {name!r}"
                )
        return rank * self.num_layers * sum(sum(layers[name]) for name in names)


def architecture_of(config: Any) -> Architecture:
    """The sizes that a configuration of transformers gives.

    Raises:
        ValueError: it is of another type than `TYPES`.
    """
    if config.model_type not in TYPES:
        raise ValueError(
            f"want a model of type {', '.join(TYPES)} for --dry-run, got type "
            f"{config.model_type!r}, whose weights it cannot count; train without "
            "--dry-run"
        )
    heads = config.num_attention_heads
    return Architecture(
        model_type=config.model_type,
        hidden_size=config.hidden_size,
        num_layers=config.num_hidden_layers,
        num_heads=heads,
        num_kv_heads=config.num_key_value_heads or heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
        intermediate_size=config.intermediate_size,
        vocab_size=config.vocab_size,
        is_tied=config.tie_word_embeddings,
    )


def known_config(model: str, folder: Path | None) -> Any:
    """The configuration of a model that is on this machine, or is listed.

    Args:
        model: an id of the hub, `"smollm2"`, or a folder whose last part is the model's
            name. `published.json` lists those that are known so.
        folder: of the saved model; None if it is not on this machine.

    Raises:
        ValueError: nothing is known of the model.
    """
    from transformers import AutoConfig

    if folder is not None:
        return AutoConfig.from_pretrained(folder)
    text = (files("arena_trainers.job") / "published.json").read_text(encoding="utf-8")
    listed = {
        name.rpartition("/")[2]: sizes for name, sizes in json.loads(text).items()
    }
    sizes = listed.get(Path(model).name)
    if sizes is None:
        raise ValueError(
            f"want a model whose sizes are known, got {model!r}, which is not on this "
            f"machine and none of {', '.join(json.loads(text))}; give a folder with its "
            "config.json (--model PATH)"
        )
    return AutoConfig.for_model(**sizes)
