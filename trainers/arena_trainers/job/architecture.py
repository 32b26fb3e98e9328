"""The sizes of a causal language model, without its weights."""

from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml


@dataclass(frozen=True)
class Architecture:
    """Sizes of a decoder-only transformer.

    Attributes:
        num_parameters: of all weights; shared ones count once.
        hidden_size: width of the residual stream.
        num_layers: decoder layers.
        num_heads: query heads.
        num_kv_heads: key and value heads.
        head_dim: width of a head.
        intermediate_size: width of the feed-forward layers.
        vocab_size: tokens.
    """

    num_parameters: int
    hidden_size: int
    num_layers: int
    num_heads: int
    num_kv_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int

    @property
    def kv_bytes_per_token(self) -> int:
        """Bytes of the keys and values of one token, at two bytes a number."""
        return 2 * 2 * self.num_layers * self.num_kv_heads * self.head_dim

    def lora_parameters(self, rank: int) -> int:
        """Weights of LoRA adapters of this rank on all linear layers of the decoder."""
        query, key = self.num_heads * self.head_dim, self.num_kv_heads * self.head_dim
        ends = self.hidden_size + query  # of the query and the output projection
        attention = 2 * ends + 2 * (self.hidden_size + key)
        feed_forward = 3 * (self.hidden_size + self.intermediate_size)
        return rank * self.num_layers * (attention + feed_forward)


def architecture_of(config: Any) -> Architecture:
    """The sizes that a configuration of transformers gives.

    Raises:
        ValueError: it lacks one, as that of a model that is no decoder-only transformer.
    """
    import torch
    from transformers import AutoModelForCausalLM

    heads = getattr(config, "num_attention_heads", None)
    hidden = getattr(config, "hidden_size", None)
    found: dict[str, Any] = {
        "hidden_size": hidden,
        "num_layers": getattr(config, "num_hidden_layers", None),
        "num_heads": heads,
        "num_kv_heads": getattr(config, "num_key_value_heads", None) or heads,
        "head_dim": getattr(config, "head_dim", None)
        or (hidden // heads if hidden and heads else None),
        "intermediate_size": getattr(config, "intermediate_size", None),
        "vocab_size": getattr(config, "vocab_size", None),
    }
    lacking = [name for name, size in found.items() if not isinstance(size, int)]
    if lacking:
        raise ValueError(
            f"want a decoder-only transformer, got one of type {config.model_type!r} "
            f"whose configuration lacks {', '.join(lacking)}; leave out --dry-run"
        )
    with torch.device("meta"):
        model = AutoModelForCausalLM.from_config(config)
    return Architecture(num_parameters=model.num_parameters(), **found)


def known_config(model: str) -> Any:
    """The configuration of a model by its folder, or by the list of published ones.

    Args:
        model: a folder, or an id of the hub.

    Returns:
        A configuration of transformers; None where neither has it.
    """
    from transformers import AutoConfig

    if (Path(model) / "config.json").is_file():
        return AutoConfig.from_pretrained(model)
    listed = files("arena_trainers.job") / "published.json"
    known = yaml.safe_load(listed.read_text())
    sizes = known.get(model)
    return None if sizes is None else AutoConfig.for_model(**sizes)
