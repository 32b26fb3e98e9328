"""Memory and hours of a run, by arithmetic.

`assumptions` are printed beside the figures. The bytes of activations are those of
`arena_trainers.lm.backends.memory`, from which a run derives `max_tokens_per_forward` where none is
given.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from transformers import PreTrainedConfig

from arena_trainers.lm.backends.memory import (
    LEAST,
    OF_FREE,
    bytes_per_token,
    tokens_that_fit,
)
from arena_trainers.runs.checks.step_size import StepSize

GIB = 2**30
USABLE = 0.92  # of a GPU's memory
OVERHEAD = 1.0 * GIB  # CUDA context, buffers
GPU_SIZES = (16, 24, 40, 80)  # GiB
MOST_TOKENS = 65536  # per forward pass; more makes it no faster
PEAK, UTILISATION = 312e12, 0.3  # FLOP/s in bf16, and the share that is reached
BANDWIDTH = 1.5e12  # bytes/s
READ_SHARE = {True: 0.6, False: 0.1}  # that decoding reaches with vLLM and without


@dataclass(frozen=True)
class Method:
    """The model and the method of training.

    Attributes:
        config: of the model, as transformers has it.
        weights: of the model; shared ones count once.
        adapter: weights of the LoRA adapter; 0 for full tuning.
        weight_bytes: of a weight in self-play: 2 or 4; 4 for weights that are trained directly.
        autocast: whether passes run in half precision, whatever the weights are.
        has_start: whether a supervised start trains all weights first.
        reference: whether the KL term needs log-probabilities of a reference.
        checkpointing: whether activations are computed again in the backward pass.
        engine: whether vLLM holds weights of its own.
        rescored: whether log-probabilities are computed again after play.
        max_tokens: that run at once in training; None if memory decides.
        on_cpu: whether it runs on the CPU.
        learners: bytes of whole models of several learners, by part.
        free: bytes of memory here; infinite where the run needs another machine.
    """

    config: PreTrainedConfig
    weights: int
    adapter: int
    weight_bytes: int
    autocast: bool
    has_start: bool
    reference: bool
    checkpointing: bool
    engine: bool
    rescored: bool
    max_tokens: int | None
    on_cpu: bool
    learners: Mapping[str, float] = field(default_factory=dict)
    free: float = math.inf

    @property
    def token_bytes(self) -> int:
        """Bytes of a token's activations, counted as float32."""
        return bytes_per_token(self.config, checkpointing=self.checkpointing)

    @property
    def engine_bytes(self) -> float:
        """Bytes of the weights that vLLM holds, in half precision."""
        return 2.0 * self.weights if self.engine else 0.0

    @property
    def kv_bytes(self) -> int:
        """Bytes of the keys and values of a token; the engine keeps them in half precision."""
        size = 2 if self.engine else self.weight_bytes
        heads = self.config.num_attention_heads
        width = (
            getattr(self.config, "head_dim", None) or self.config.hidden_size // heads
        )
        key_value_heads = getattr(self.config, "num_key_value_heads", None) or heads
        return int(2 * size * self.config.num_hidden_layers * key_value_heads * width)


def start_memory(method: Method) -> dict[str, float]:
    """Bytes that the supervised start needs whatever its batches are, by part.

    It trains all weights, in float32.
    """
    weights = 4.0 * method.weights
    return {"weights": weights, "gradients and AdamW": 3 * weights, **_overhead(method)}


def play_memory(method: Method) -> dict[str, float]:
    """Bytes that self-play needs whatever its batches are, by part; vLLM apart."""
    weights = float(method.weights * method.weight_bytes)
    parts = {"weights": weights}
    if method.learners:
        parts |= method.learners
    elif method.adapter:
        parts["adapter (float32)"] = 4.0 * method.adapter
        parts["gradients and AdamW"] = 12.0 * method.adapter
    else:
        parts["gradients and AdamW"] = 3 * weights
        if method.reference:
            parts["reference model"] = weights
    # Torch keeps what it has cast until the pass is over, but frozen weights, which layers
    # cast again where they are checkpointed.
    casts_again = method.adapter and method.checkpointing
    if method.autocast and method.weight_bytes == 4 and not casts_again:
        parts["weights in half precision"] = 2.0 * method.weights
    return {**parts, **_overhead(method)}


def _overhead(method: Method) -> dict[str, float]:
    return {} if method.on_cpu else {"CUDA": OVERHEAD}


@dataclass(frozen=True)
class GpuSettings:
    """Settings for a GPU of some size.

    Attributes:
        gib: the size.
        tokens: `max_tokens_per_forward`; 0: the run does not fit.
        replies: that can be generated at once.
        share: `vllm_gpu_memory_utilization`.
    """

    gib: int
    tokens: int = 0
    replies: int = 0
    share: float = 0.0


def gpu_settings(method: Method, step_size: StepSize, gib: int) -> GpuSettings:
    """Settings for a GPU: training gets half of what is free, generation the other half."""
    usable = USABLE * gib * GIB
    free = usable - sum(play_memory(method).values())
    tokens = _tokens(free, method.token_bytes)
    if method.has_start:
        left = usable - sum(start_memory(method).values())
        tokens = min(tokens, _tokens(left, method.token_bytes))
    share = int(100 * (1 - OF_FREE) * free / (gib * GIB)) / 100  # rounded down
    room = (1 - OF_FREE) * free
    if method.engine:
        room = share * gib * GIB - method.engine_bytes - OVERHEAD
    replies = int(room / (step_size.longest * method.kv_bytes))
    if tokens < step_size.longest or replies < 1:
        return GpuSettings(gib)
    return GpuSettings(gib, tokens, min(replies, step_size.batch), share)


def _tokens(free: float, size: int) -> int:
    """As a run's default, but 0 where not even `LEAST` tokens fit."""
    if OF_FREE * free < LEAST * size:
        return 0
    return min(tokens_that_fit(free, size), MOST_TOKENS)


def hours(method: Method, step_size: StepSize, num_steps: int) -> tuple[float, float]:
    """Hours of generation and of training on one GPU, see `assumptions`.

    Decoding reads the weights once per token of a round, and the keys and values of every
    reply. A forward pass takes 2 FLOP per weight and token, a backward pass 4, or 2 where
    the weights themselves get no gradient (LoRA).
    """
    weights, reply = method.weights, step_size.reply_tokens
    turns = step_size.passes * step_size.batch * step_size.turns
    bytes_per_weight = 2 if method.engine else method.weight_bytes
    decoded_bytes = (
        step_size.passes
        * step_size.rounds
        * step_size.longest_reply
        * bytes_per_weight
        * weights
    )
    decoded_bytes += (
        turns * reply * (step_size.prompt_tokens + reply / 2) * method.kv_bytes
    )
    play_flop = 2 * weights * turns * (step_size.prompt_tokens + reply)
    is_cut = step_size.tokens > (method.max_tokens or MOST_TOKENS)
    passes = 1 + method.checkpointing + is_cut + method.reference + method.rescored
    backward = 2 if method.adapter else 4
    train_flop = (2 * passes + backward) * weights * step_size.tokens
    speed = PEAK * UTILISATION
    generation_seconds = (
        decoded_bytes / (BANDWIDTH * READ_SHARE[method.engine]) + play_flop / speed
    )
    return num_steps * generation_seconds / 3600, num_steps * train_flop / speed / 3600


def assumptions(method: Method) -> list[str]:
    """The assumptions of the figures."""
    memory = (
        "activations: counted as float32, every token as one of a reply: an upper bound "
        "in bf16 (the arithmetic of the default of max_tokens_per_forward)"
    )
    rows = "rows: random play; equal rows count separately; branches are not counted"
    if method.on_cpu:
        return [memory, rows]
    start = ["start: all weights in float32; --warm_start_steps 0 leaves it out"]
    return [
        memory,
        rows,
        *(start if method.has_start else []),
        f"GPU: {USABLE:.0%} of its memory, of which CUDA takes {OVERHEAD / GIB:g} GiB; "
        "generation and activations get half each of what is free",
        f"speed: {PEAK / 1e12:g} TFLOP/s at {UTILISATION:.0%}, {BANDWIDTH / 1e12:g} TB/s at "
        f"{READ_SHARE[method.engine]:.0%} (an A100); never measured with this program",
        "time: without the supervised start and evaluations",
    ]
