"""What a training run would need: rows, memory and hours, by arithmetic alone.

Nothing is loaded and nothing is trained. The assumptions stand in `ASSUMPTIONS`, which the
printed plan shows beside its figures.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from arena_trainers.job.architecture import Architecture
from arena_trainers.train.game_plans import GamePlan
from arena_wrappers import RandomPolicy, play
from arena_wrappers.prompts import Message

GIB = 2**30
CHARACTERS_PER_TOKEN = 4.0
REPLY_SHARE = 0.5  # of the longest allowed reply
USABLE = 0.92  # of a GPU's memory
OVERHEAD = 1.0 * GIB  # CUDA context, buffers
GPU_SIZES = (16, 24, 40, 80)  # GiB
BOUNDS = (2048, 4096, 8192, 16384, 32768, 65536)  # tokens per forward pass
PEAK, UTILISATION = 312e12, 0.3  # FLOP/s in bf16, and the share that training reaches
BANDWIDTH, READ_SHARE = 1.5e12, 0.6  # bytes/s, and the share that decoding reaches
ASSUMPTIONS = (
    f"prompts: {CHARACTERS_PER_TOKEN:g} characters a token where no tokenizer is at hand",
    f"replies: {REPLY_SHARE:.0%} of max_completion_length on average",
    f"memory: {USABLE:.0%} of the GPU, less {OVERHEAD / GIB:g} GiB for CUDA",
    f"speed: {PEAK / 1e12:g} TFLOP/s at {UTILISATION:.0%} in training, "
    f"{BANDWIDTH / 1e12:g} TB/s at {READ_SHARE:.0%} in decoding (an A100's figures)",
)


@dataclass(frozen=True)
class Load:
    """The size of an optimizer step.

    Attributes:
        episodes: per step.
        turns: of learning seats, per step; one training row each.
        rounds: turns that are asked for one after the other, per episode.
        prompt_tokens: of a prompt, on average.
        longest_prompt: tokens.
        reply_tokens: of a reply, on average.
        longest_reply: tokens.
    """

    episodes: int
    turns: int
    rounds: float
    prompt_tokens: float
    longest_prompt: int
    reply_tokens: float
    longest_reply: int

    @property
    def tokens(self) -> int:
        """Trained tokens per step, prompts included."""
        return round(self.turns * (self.prompt_tokens + self.reply_tokens))


@dataclass(frozen=True)
class Method:
    """What is trained, and how.

    Attributes:
        lora_r: rank of the adapters; 0 for full tuning.
        bytes_per_weight: of the model's weights: 2 or 4.
        reference: whether a second copy of the weights is needed for the KL term.
        checkpointing: whether activations are computed again in the backward pass.
        engine: whether an engine in the same process holds weights of its own.
    """

    lora_r: int
    bytes_per_weight: int
    reference: bool
    checkpointing: bool
    engine: bool


def load_of(
    plans: Sequence[GamePlan],
    episodes: int,
    longest_reply: int,
    tokenizer: Any = None,
    num_sampled: int = 32,
) -> Load:
    """The size of a step, by random legal play of the games.

    Args:
        plans: the games; weights count.
        episodes: per step.
        longest_reply: tokens.
        tokenizer: counts the tokens of prompts; None: by `CHARACTERS_PER_TOKEN`.
        num_sampled: episodes of random play for each game.
    """
    total = sum(plan.weight for plan in plans)
    turns = rounds = tokens = 0.0
    longest = 0
    for plan in plans:
        share = plan.weight / total / num_sampled
        for episode in play(plan.env_fn, RandomPolicy(), range(num_sampled)):
            own = [turn for turn in episode.turns if plan.learners[turn.seat]]
            lengths = [_length(turn.messages, tokenizer) for turn in own]
            turns += share * len(own)
            rounds += share * len(episode.turns)
            tokens += share * sum(lengths)
            longest = max([longest, *lengths])
    return Load(
        episodes=episodes,
        turns=round(episodes * turns),
        rounds=rounds,
        prompt_tokens=tokens / max(turns, 1e-9),
        longest_prompt=longest,
        reply_tokens=max(1.0, REPLY_SHARE * longest_reply),
        longest_reply=longest_reply,
    )


def _length(messages: Sequence[Message], tokenizer: Any) -> int:
    if tokenizer is not None:
        ids = tokenizer.apply_chat_template(
            list(messages), add_generation_prompt=True, return_dict=True
        )
        return len(ids["input_ids"])
    characters = sum(len(message["content"]) for message in messages)
    return round(characters / CHARACTERS_PER_TOKEN) + 8 * len(messages)


def fixed_memory(model: Architecture, method: Method) -> dict[str, float]:
    """Bytes that a run needs whatever its batches are, by part."""
    weights = model.num_parameters * method.bytes_per_weight
    parts: dict[str, float] = {"weights": weights}
    if method.engine:
        parts["engine's weights"] = 2.0 * model.num_parameters
    if method.lora_r:
        adapter = model.lora_parameters(method.lora_r)
        parts["adapter (float32)"] = 4.0 * adapter
        parts["gradients and AdamW"] = 12.0 * adapter
    else:
        parts["gradients and AdamW"] = 3.0 * weights
        if method.reference:
            parts["reference model"] = weights
    return parts


def activation_memory(
    model: Architecture, method: Method, tokens: int, load: Load
) -> float:
    """Bytes of the activations and logits of a forward pass of so many tokens.

    A layer keeps, at two bytes a number: four vectors of the hidden size, queries,
    attention output, keys, values, and four vectors of the feed-forward size. Logits and
    their gradient, at four bytes, are those of reply tokens alone.
    """
    query = 2 * model.num_heads * model.head_dim
    key = 2 * model.num_kv_heads * model.head_dim
    wide = 4 * model.hidden_size + query + key + 4 * model.intermediate_size
    layers = 2.0 * tokens * wide
    if method.checkpointing:
        layers += 2.0 * tokens * model.num_layers * model.hidden_size
    else:
        layers *= model.num_layers
    replied = load.reply_tokens / (load.reply_tokens + load.prompt_tokens)
    return layers + 8.0 * tokens * replied * model.vocab_size


def kv_memory(model: Architecture, load: Load) -> float:
    """Bytes of the keys and values where all episodes of a step are asked at once."""
    length = load.longest_prompt + load.longest_reply
    return float(load.episodes * length * model.kv_bytes_per_token)


@dataclass(frozen=True)
class Fit:
    """Settings for a GPU of some size.

    Attributes:
        gib: the size.
        tokens: most tokens per forward pass that fit; 0: the model does not fit.
        concurrent: episodes whose keys and values fit beside them.
    """

    gib: int
    tokens: int
    concurrent: int


def fits(model: Architecture, method: Method, load: Load) -> list[Fit]:
    """For each size of GPU, the largest forward pass that leaves room to generate.

    Generation gets the memory that training does not hold at its peak: the two take
    turns, but an engine reserves its cache for the whole run.
    """
    fixed = sum(fixed_memory(model, method).values()) + OVERHEAD
    one = kv_memory(model, load) / load.episodes
    longest = load.longest_prompt + load.longest_reply
    found = []
    for gib in GPU_SIZES:
        free = USABLE * gib * GIB - fixed
        tokens = concurrent = 0
        for bound in BOUNDS:
            left = free - activation_memory(model, method, bound, load)
            if bound >= longest and left >= min(load.episodes, 16) * one:
                tokens, concurrent = bound, min(load.episodes, int(left / one))
        found.append(Fit(gib, tokens, concurrent))
    return found


def hours(
    model: Architecture, method: Method, load: Load, num_steps: int
) -> tuple[float, float]:
    """Hours of generation and of training on one GPU, see `ASSUMPTIONS`.

    Decoding reads the weights once per token of a lockstep round, and the cache of every
    episode. Training takes 6 FLOP per weight and token for adapters (no gradients of the
    weights), 6 without and 8 with activations computed again for full tuning.
    """
    weights = 2.0 * model.num_parameters
    length = load.prompt_tokens + load.reply_tokens
    cache = load.episodes * length * model.kv_bytes_per_token
    steps = load.rounds * load.longest_reply
    decode = steps * (weights + cache) / (BANDWIDTH * READ_SHARE)
    read = weights * load.turns * load.prompt_tokens / (PEAK * UTILISATION)
    if method.lora_r:
        factor = 6 if method.checkpointing else 4
    else:
        factor = 8 if method.checkpointing else 6
    flop = factor * model.num_parameters * load.tokens + (
        2 * model.num_parameters * load.tokens if method.reference else 0
    )
    train = flop / (PEAK * UTILISATION)
    return num_steps * (decode + read) / 3600, num_steps * train / 3600
