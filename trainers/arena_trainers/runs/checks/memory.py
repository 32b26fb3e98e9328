"""Memory and hours of a run, by arithmetic.

`assumptions` are printed beside the figures. Weights and activations are checked on a CPU; nothing was measured
on a GPU.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from transformers import PreTrainedConfig

from arena_trainers.lm.backends.activations import (
    Passes,
    activation_bytes,
    layer_sizes,
    most_tokens,
)
from arena_trainers.lm.backends.memory import LEAST, OF_FREE
from arena_trainers.runs.checks.machine import Gpu, Machine
from arena_trainers.runs.checks.step_size import StepSize

GIB = 2**30
USABLE = 0.92  # of a GPU's memory
OVERHEAD = 1.0 * GIB  # CUDA context, buffers
MOST_TOKENS = 65536  # per forward pass; more makes it no faster
UTILISATION = 0.3  # share of a GPU's FLOP/s that is reached
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
        engine: whether vLLM holds weights of its own in the process that trains.
        served: whether a server generates.
        rescored: whether log-probabilities are computed again after play.
        max_tokens: that run at once in training; None if memory decides.
        on_cpu: whether it runs on the CPU.
        learners: bytes of whole models of several learners, by part.
        free: bytes of memory here; infinite where the run needs another machine.
        machine: that the run is planned for.
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
    served: bool
    rescored: bool
    max_tokens: int | None
    on_cpu: bool
    learners: Mapping[str, float] = field(default_factory=dict)
    free: float = math.inf
    machine: Machine = field(default_factory=Machine)

    @property
    def passes(self) -> Passes:
        """How rows run in training."""
        is_half = self.autocast or self.weight_bytes == 2
        return Passes(
            half=is_half,
            half_states=self.weight_bytes == 2 or (is_half and self.machine.split),
            adapted=self.adapter > 0,
            checkpointing=self.checkpointing,
            on_gpu=not self.on_cpu,
        )

    def activations(self, num_tokens: float) -> float:
        """Bytes of a pass of so many tokens with its backward pass."""
        return activation_bytes(self.config, num_tokens, self.passes)

    @property
    def start_passes(self) -> Passes:
        """How rows run in the supervised start, which trains all weights in float32."""
        return Passes(checkpointing=self.checkpointing, on_gpu=not self.on_cpu)

    def start_activations(self, num_tokens: float) -> float:
        """As `activations`, in the supervised start."""
        return activation_bytes(self.config, num_tokens, self.start_passes)

    @property
    def generates_fast(self) -> bool:
        """Whether vLLM generates, here or in a server."""
        return self.engine or self.served

    @property
    def engine_bytes(self) -> float:
        """Bytes of the weights that vLLM holds, in half precision."""
        return 2.0 * self.weights if self.engine else 0.0

    @property
    def kv_bytes(self) -> int:
        """Bytes of the keys and values of a token; the engine keeps them in half precision."""
        size = 2 if self.generates_fast else self.weight_bytes
        sizes = layer_sizes(self.config)
        return int(2 * size * sizes.layers * sizes.key_width)


def start_memory(method: Method) -> dict[str, float]:
    """Bytes that the supervised start needs whatever its batches are, by part.

    It trains all weights, in float32.
    """
    weights = 4.0 * method.weights
    return {"weights": weights, "gradients and AdamW": 3 * weights, **_overhead(method)}


def play_memory(method: Method) -> dict[str, float]:
    """Bytes that self-play needs in a process whatever its batches are, by part; vLLM apart."""
    machine = method.machine
    share = 1 / machine.processes if machine.split else 1.0
    weights = float(method.weights * method.weight_bytes)
    parts = {"weights": share * weights}
    if method.learners:
        parts |= method.learners
    elif method.adapter:
        parts["adapter (float32)"] = 4.0 * share * method.adapter
        parts["gradients and AdamW"] = 12.0 * share * method.adapter
    else:
        parts["gradients and AdamW"] = 3 * share * weights
        if method.reference:
            parts["reference model"] = share * weights
    if machine.split:
        size = 2 if method.autocast else method.weight_bytes
        parts["whole weights in passes"] = float(size * method.weights)
        parts["whole gradients in passes"] = float(
            size * (method.adapter or method.weights)
        )
        return {**parts, **_overhead(method)}
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
    """Settings for GPUs of a size.

    Training gets half of what is free, generation the other half; all but a tenth with a server.
    """
    usable = USABLE * gib * GIB
    free = usable - sum(play_memory(method).values())
    room = (0.9 if method.served else OF_FREE) * free
    most = {"least": LEAST, "most": MOST_TOKENS}
    tokens = most_tokens(method.config, room, method.passes, **most)
    if method.has_start:
        left = OF_FREE * (usable - sum(start_memory(method).values()))
        in_start = most_tokens(method.config, left, method.start_passes, **most)
        tokens = min(tokens, in_start)
    share = int(100 * (1 - OF_FREE) * free / (gib * GIB)) / 100  # rounded down
    play_room, batch = (1 - OF_FREE) * free, step_size.batch
    if method.engine:
        play_room = share * gib * GIB - method.engine_bytes - OVERHEAD
    elif method.served and method.machine.server:
        num = method.machine.server
        play_room = num * (0.9 * gib * GIB - OVERHEAD) - 2.0 * method.weights
    else:
        batch = math.ceil(batch / method.machine.processes)
    replies = int(play_room / (step_size.longest_row * method.kv_bytes))
    replies = min(replies, step_size.at_once or replies)
    if not tokens or method.activations(step_size.longest_row) > room or replies < 1:
        return GpuSettings(gib)
    return GpuSettings(gib, tokens, min(replies, batch), share)


def needed(
    method: Method, step_size: StepSize, max_tokens: int, share: float
) -> dict[str, float]:
    """Bytes that a process takes on a GPU of the machine with given settings, by part.

    Args:
        method: the model and the method.
        step_size: the size of a step.
        max_tokens: `max_tokens_per_forward`; a longer row is a pass of its own.
        share: of the memory that vLLM takes, where it is in the process.
    """
    parts = play_memory(method)
    most = max(max_tokens, step_size.longest_row)
    parts[f"activations of {most:,} tokens"] = method.activations(most)
    if method.engine:
        parts["vLLM's share"] = share * method.machine.memory * GIB
    elif not method.served:
        batch = math.ceil(step_size.batch / method.machine.processes)
        cache = min(batch, step_size.at_once or batch) * step_size.longest_row
        # generation and training take turns
        name = "keys and values, beyond the activations"
        parts[name] = max(
            0.0, float(cache * method.kv_bytes) - method.activations(most)
        )
    return parts


def decoding_steps(method: Method, step_size: StepSize, at_once: int | None) -> float:
    """How many decoding steps play a batch; each reads the weights once, for a token of all concurrent replies.

    vLLM begins a reply as soon as another ends. Its steps are the larger of the tokens of the longest
    episode, and of the tokens of the batch / concurrent replies. With transformers a round waits for its
    longest reply: rounds * ceil(batch / concurrent replies) * tokens of the longest reply.
    """
    machine, reply = method.machine, step_size.reply_tokens
    batch = step_size.batch
    if not machine.server:
        batch = math.ceil(batch / machine.processes)
    most = at_once or batch
    if method.generates_fast:
        longest_episode = (step_size.rounds - 1) * reply + step_size.longest_reply
        return max(longest_episode, batch * step_size.turns * reply / most)
    return step_size.rounds * math.ceil(batch / most) * step_size.longest_reply


def hours(
    method: Method,
    step_size: StepSize,
    num_steps: int,
    gpu: Gpu,
    at_once: int | None = None,
) -> tuple[float, float]:
    """Hours of generation and of training on a machine of such GPUs, see `assumptions`.

    Decoding reads the weights in each of its steps, and the keys and values of every
    reply for each of its tokens. A forward pass takes 2 FLOP per weight and token, a backward pass 4, or 2 where
    the weights themselves get no gradient (LoRA). Processes share episodes and rows; a server's GPUs
    share weights, keys and values.

    Args:
        method: the model and the method.
        step_size: the size of a step.
        num_steps: optimizer steps.
        gpu: each GPU of the machine.
        at_once: replies that an engine generates at once; None for all of a batch.
    """
    machine = method.machine
    weights, reply = method.weights, step_size.reply_tokens
    turns = step_size.passes * step_size.batch * step_size.turns
    bytes_per_weight = 2 if method.generates_fast else method.weight_bytes
    weight_reads = step_size.passes * decoding_steps(method, step_size, at_once)
    weight_bytes = weight_reads * bytes_per_weight * weights
    cache_bytes = (
        turns * reply * (step_size.prompt_tokens + reply / 2) * method.kv_bytes
    )
    num_players = machine.server if machine.server else machine.processes
    if machine.server:
        weight_bytes /= machine.server
    read_seconds = (weight_bytes + cache_bytes / num_players) / (
        gpu.bandwidth * READ_SHARE[method.generates_fast]
    )
    play_flop = 2 * weights * turns * (step_size.prompt_tokens + reply) / num_players
    tokens = step_size.tokens / machine.processes
    is_cut = tokens > (method.max_tokens or MOST_TOKENS)
    again = is_cut and not method.checkpointing
    passes = 1 + method.checkpointing + again + method.reference + method.rescored
    backward = 2 if method.adapter else 4
    train_flop = (2 * passes + backward) * weights * tokens
    speed = gpu.flops * UTILISATION
    generation_seconds = read_seconds + play_flop / speed
    return num_steps * generation_seconds / 3600, num_steps * train_flop / speed / 3600


def check_timeout(
    method: Method, step_size: StepSize, gpu: Gpu, ddp_timeout: float
) -> None:
    """Raises ValueError if play of a batch takes longer than processes wait for each other.

    Processes have episodes of other lengths, and the one that ends first waits.
    """
    if method.machine.processes == 1:
        return
    seconds = 3600 * hours(method, step_size, 1, gpu)[0] / step_size.passes
    if seconds > ddp_timeout:
        raise ValueError(
            f"want ddp_timeout of at least {math.ceil(2 * seconds)}, as play of a batch takes "
            f"about {seconds:.0f} s on {gpu.name}s, got {ddp_timeout:g}; give "
            f"--ddp_timeout {math.ceil(2 * seconds)}"
        )


def assumptions(method: Method) -> list[str]:
    """The assumptions of the figures, and how each was checked."""
    memory = (
        "activations: what torch keeps of a Llama or Qwen; checked on a CPU, within 20 % for "
        "three sizes"
    )
    rows = (
        "rows: random play with replies of the recipe's length in every turn; equal rows "
        "count separately; branches are not counted"
    )
    if method.on_cpu:
        return [memory, rows]
    start = ["start: all weights in float32; --warm_start steps=0 leaves it out"]
    split = [
        "split weights: calculated; every process has all weights and their gradients in a loss "
        "of several passes"
    ]
    return [
        memory,
        rows,
        *(start if method.has_start else []),
        *(split if method.machine.split else []),
        f"GPU: calculated; {USABLE:.0%} of its memory, of which CUDA takes "
        f"{OVERHEAD / GIB:g} GiB; generation and activations get half each of what is free",
        f"hours: calculated from the makers' figures of the cards, at {UTILISATION:.0%} of their "
        f"FLOP/s and {READ_SHARE[method.generates_fast]:.0%} of their bandwidth; never measured; "
        "without the supervised start and evaluations",
    ]
