"""Bytes of the activations of rows, as torch keeps them of a Llama or Qwen.

They bound how many tokens run at once, and a run's plan shows them. Tests compare them with what layers
keep, and with what processes take on a CPU for three sizes of model.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

FLOAT = 4  # bytes

TILE = 32_768  # most entries of the vocabulary that TRL scores at once
HEAD_TOKENS = 4096  # most tokens at which it scores them at once
# Tiles of scores that exist at once: torch's in a backward pass and in a forward pass, and Triton's.
BACKWARD_TILES, FORWARD_TILES, TRITON_TILES = 8, 4, 2


@dataclass(frozen=True)
class Passes:
    """How forward and backward passes run.

    Attributes:
        half: whether matrix products are in half precision.
        half_states: whether the states between layers are, too, as with weights in half precision.
        adapted: whether only an adapter is trained.
        checkpointing: whether layers keep only their inputs, and run again in the backward pass.
        on_gpu: whether Triton scores the vocabulary.
    """

    half: bool = False
    half_states: bool = False
    adapted: bool = False
    checkpointing: bool = False
    on_gpu: bool = False

    @classmethod
    def of(
        cls,
        model: "PreTrainedModel",
        device: torch.device,
        *,
        checkpointing: bool = False,
        autocast: bool = False,
    ) -> "Passes":
        """How rows of a model run; `autocast` to half precision, whatever its weights are."""
        embedding = next(model.get_input_embeddings().parameters())
        is_half = embedding.element_size() < FLOAT
        return cls(
            half=is_half or autocast,
            half_states=is_half,
            adapted=not embedding.requires_grad,
            checkpointing=checkpointing,
            on_gpu=device.type == "cuda",
        )


def activation_bytes(
    config: "PreTrainedConfig", num_tokens: float, passes: Passes
) -> float:
    """Peak bytes of a forward and backward pass of so many tokens, without gradients of layers.

    The peak is in the backward pass, where the vocabulary is scored again, or a checkpointed layer runs again.
    """
    number = 2 if passes.half else FLOAT
    tiles = TRITON_TILES * number if passes.on_gpu else BACKWARD_TILES * FLOAT
    sizes = layer_sizes(config)
    head = min(num_tokens, HEAD_TOKENS) * min(config.vocab_size, TILE) * tiles
    if not passes.adapted:  # the gradient of the embedding in float32
        head += FLOAT * config.vocab_size * sizes.hidden
    recomputed = (
        num_tokens * layer_bytes(config, passes) if passes.checkpointing else 0.0
    )
    return float(num_tokens * kept_bytes(config, passes) + max(head, recomputed))


def kept_bytes(config: "PreTrainedConfig", passes: Passes) -> int:
    """Bytes that a forward pass keeps of a token for the backward pass."""
    sizes = layer_sizes(config)
    state = 2 if passes.half_states else FLOAT
    layer = layer_bytes(config, passes)
    if passes.checkpointing:
        layer = state * sizes.hidden
    return sizes.layers * layer + FLOAT * sizes.hidden


def layer_bytes(config: "PreTrainedConfig", passes: Passes) -> int:
    """Bytes that a layer keeps of a token.

    - of its two norms: their inputs in float32, and where their weights are trained, what these multiply
    - the inputs of the five linear layers that follow the norms; each casts its own where states are in
      float32 and products in half precision, or where an adapter is
    - queries, keys, values and results of attention, keys and values for each head of queries, as masks
      and blocks of packed rows want them
    - four vectors of the feed-forward part
    """
    sizes, number = layer_sizes(config), 2 if passes.half else FLOAT
    state = 2 if passes.half_states else FLOAT
    of_norm = FLOAT + (0 if passes.adapted else state)
    casts = passes.half and (passes.adapted or not passes.half_states)
    layer = sizes.hidden * (2 * of_norm + (5 if casts else 2) * number)
    num_queries = 5 if passes.half and passes.adapted else 4  # results are cast, too
    layer += number * (num_queries * sizes.query_width + 4 * sizes.inner)
    if "qwen3" in str(config.model_type):  # which normalises queries and keys
        of_norm = FLOAT + (0 if passes.adapted else number)
        layer += (sizes.query_width + sizes.key_width) * of_norm
    return int(layer)


def forward_bytes(config: "PreTrainedConfig", *, scored: bool = True) -> int:
    """Bytes of a token in float32 in a forward pass alone, where one layer at a time has activations.

    Args:
        config: of the language model.
        scored: whether the vocabulary is scored at the token.
    """
    scores = FORWARD_TILES * FLOAT * min(config.vocab_size, TILE) if scored else 0
    return layer_bytes(config, Passes()) + scores


def most_tokens(
    config: "PreTrainedConfig", room: float, passes: Passes, least: int, most: int
) -> int:
    """The largest power of two of tokens whose activations fit into bytes; 0 below `least`."""
    tokens = least
    if activation_bytes(config, tokens, passes) > room:
        return 0
    while tokens < most and activation_bytes(config, 2 * tokens, passes) <= room:
        tokens *= 2
    return tokens


class LayerSizes(NamedTuple):
    """The sizes of the layers of a model.

    Attributes:
        hidden: width of the states between layers.
        layers: how many there are.
        query_width: of all heads of queries together.
        key_width: of all heads of keys together, which is that of values.
        inner: width of the feed-forward part, of all experts of a token together.
    """

    hidden: int
    layers: int
    query_width: int
    key_width: int
    inner: int


def layer_sizes(config: "PreTrainedConfig") -> LayerSizes:
    """The sizes of a model's layers, by its configuration."""
    hidden = config.hidden_size
    heads = getattr(config, "num_attention_heads", 1)
    head_dim = getattr(config, "head_dim", None) or hidden // heads
    keys = getattr(config, "num_key_value_heads", None) or heads
    inner = getattr(config, "intermediate_size", None) or 4 * hidden
    experts = getattr(config, "num_experts_per_tok", None)
    if experts:  # of a mixture, each with its own width
        inner = experts * (getattr(config, "moe_intermediate_size", None) or inner)
    return LayerSizes(
        hidden, config.num_hidden_layers, heads * head_dim, keys * head_dim, inner
    )
