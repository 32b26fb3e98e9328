"""How many tokens a language model reads: a prompt with its reply."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

_LENGTHS = ("max_position_embeddings", "n_positions", "max_seq_len")
_SCALED_ROPE = ("linear", "dynamic", "yarn")  # of rotary positions, by a factor


def context_length(config: "PreTrainedConfig") -> int | None:
    """Most tokens of a prompt with its reply; None for a model that names no limit.

    Positions beyond it have no embedding, or a rotary angle that was never trained. Where rotary
    positions are stretched, the limit is times their factor. Recurrent models and those with
    ALiBi have no such limit, or name one.

    Args:
        config: of the model, as transformers loads it.
    """
    text = config.get_text_config()
    lengths = (getattr(text, name, None) for name in _LENGTHS)
    length = next((int(x) for x in lengths if isinstance(x, int) and x > 0), None)
    if length is None:
        return None
    parameters = getattr(text, "rope_parameters", None)
    parameters = parameters or getattr(text, "rope_scaling", None) or {}
    layers = [x for x in parameters.values() if isinstance(x, dict)] or [parameters]
    return max([length, *(_scaled_length(rope, length) for rope in layers)])


def _scaled_length(rope: Mapping[str, Any], length: int) -> int:
    kind = rope.get("rope_type", rope.get("type"))
    if kind not in _SCALED_ROPE:
        return length
    before = rope.get("original_max_position_embeddings") or length
    return int(before * float(rope.get("factor") or 1.0))
