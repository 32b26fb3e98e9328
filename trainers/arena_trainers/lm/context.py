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
    text_config = config.get_text_config()
    lengths = (getattr(text_config, name, None) for name in _LENGTHS)
    length = next(
        (int(limit) for limit in lengths if isinstance(limit, int) and limit > 0), None
    )
    if length is None:
        return None
    parameters = getattr(text_config, "rope_parameters", None)
    parameters = parameters or getattr(text_config, "rope_scaling", None) or {}
    # one rope for all layers, or one for each kind of layer
    ropes = [rope for rope in parameters.values() if isinstance(rope, dict)]
    scaled = [_scaled_length(rope, length) for rope in ropes or [parameters]]
    return max([length, *scaled])


def _scaled_length(rope: Mapping[str, Any], length: int) -> int:
    kind = rope.get("rope_type", rope.get("type"))
    if kind not in _SCALED_ROPE:
        return length
    original = rope.get("original_max_position_embeddings") or length
    return int(original * float(rope.get("factor") or 1.0))
