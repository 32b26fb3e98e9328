"""Bytes of the activations of rows, as torch keeps them of a Llama or Qwen.

Tests compare the figures with what processes take on a CPU, for three sizes of model.
"""

from dataclasses import dataclass

from transformers import PreTrainedConfig

from arena_trainers.lm.backends.memory import FLOAT, TILE, layer_sizes

HEAD_TOKENS = 4096  # whose words TRL scores at once
HEAD_TILES = {
    "cpu": 8,
    "gpu": 2,
}  # of scores in the backward pass: torch's, and Triton's


@dataclass(frozen=True)
class Passes:
    """How rows run.

    Attributes:
        half: whether matrix products are in half precision.
        half_states: whether the states between layers are, too, as those of such weights.
        adapted: whether an adapter alone is trained.
        checkpointing: whether layers keep their inputs alone.
        on_gpu: whether Triton scores the words.
    """

    half: bool
    half_states: bool
    adapted: bool
    checkpointing: bool
    on_gpu: bool


def activation_bytes(
    config: PreTrainedConfig, num_tokens: float, passes: Passes
) -> float:
    """Bytes at the peak of a pass of so many tokens with its backward pass, without gradients.

    For each token a layer keeps the inputs of its two norms in float32, what they give to the
    linear layers, what the weights of the norms multiply where they are trained; queries, keys, values and
    results of attention, keys and values for each head of queries, as masks of packed rows want them;
    and four vectors of the feed-forward part. TRL scores words in tiles.
    """
    sizes, number = layer_sizes(config), 2 if passes.half else FLOAT
    layer = _layer_bytes(config, passes)
    state = 2 if passes.half_states else FLOAT
    kept = sizes.layers * (state * sizes.hidden if passes.checkpointing else layer)
    tiles = HEAD_TILES["gpu"] * number if passes.on_gpu else HEAD_TILES["cpu"] * FLOAT
    head = min(num_tokens, HEAD_TOKENS) * min(config.vocab_size, TILE) * tiles
    head += FLOAT * num_tokens * sizes.hidden
    if not passes.adapted:  # the gradient of the words' weights in float32
        head += FLOAT * config.vocab_size * sizes.hidden
    again = num_tokens * layer if passes.checkpointing else 0.0
    return float(num_tokens * kept + max(head, again))


def _layer_bytes(config: PreTrainedConfig, passes: Passes) -> float:
    sizes, number = layer_sizes(config), 2 if passes.half else FLOAT
    of_norm = FLOAT + (0 if passes.adapted else FLOAT)
    layer = 2 * sizes.hidden * (of_norm + number)
    layer += number * (4 * sizes.query_width + 4 * sizes.inner)
    if "qwen3" in str(config.model_type):  # which normalises queries and keys
        layer += (sizes.query_width + sizes.key_width) * of_norm
    return layer


def most_tokens(
    config: PreTrainedConfig, room: float, passes: Passes, least: int, most: int
) -> int:
    """The largest power of two of tokens whose activations fit into bytes; 0 below `least`."""
    tokens = least
    if activation_bytes(config, tokens, passes) > room:
        return 0
    while tokens < most and activation_bytes(config, 2 * tokens, passes) <= room:
        tokens *= 2
    return tokens
