"""The plan of a run, `--dry-run`: sizes, memory and hours, by arithmetic alone.

Nothing is loaded and nothing is trained. `assumptions` are printed beside the figures. The bytes of
activations are those of `arena_trainers.lm.backends.memory`, from which a run derives
`max_tokens_per_forward` where none is given.
"""

import json
import math
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from arena_eval.tournament import load_suite
from arena_trainers.engines.settings import by_server
from arena_trainers.lm import adapters, model_memory
from arena_trainers.lm.backends.memory import (
    LEAST,
    OF_FREE,
    bytes_per_token,
    free_memory,
    tokens_that_fit,
)
from arena_trainers.lm.chat import Chat, chat_of
from arena_trainers.lm.models import download_of, find_model
from arena_trainers.runs.checks.preflight import (
    check_columns,
    checks,
    games_of,
    read_options,
)
from arena_trainers.runs.settings import JobConfig
from arena_trainers.train.games import GamePlan
from arena_trainers.train.settings import MAX_REPLY_TOKENS
from arena_wrappers import PromptOptions, RandomPolicy, play
from arena_wrappers.prompts import PROMPT_OPTIONS, Message


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

    if folder is not None or Path(model, "config.json").is_file():
        return AutoConfig.from_pretrained(folder or model)
    published = json.loads(
        Path(__file__).with_name("published.json").read_text("utf-8")
    )
    listed = {name.rpartition("/")[2]: sizes for name, sizes in published.items()}
    sizes = listed.get(Path(model).name)
    if sizes is None:
        raise ValueError(
            f"want a model whose sizes are known, got {model!r}, which is not on this "
            f"machine and none of {', '.join(published)}; give a folder with its "
            "config.json (--model PATH)"
        )
    return AutoConfig.for_model(**sizes)


CHARACTERS_PER_TOKEN = 4.0
TEMPLATE_TOKENS = 8  # of a message's markup
REPLY_SHARE = 0.5  # of the longest allowed reply
SUITE = "mars"
NUM_SAMPLED = 32  # episodes of random play for each game


@dataclass(frozen=True)
class Load:
    """The size of an optimizer step.

    Attributes:
        episodes: that are trained.
        passes: generation batches per step; below 1 if several steps share one.
        batch: episodes that are played together.
        turns: of learning seats in an episode, on average.
        rounds: most turns of an episode, which are asked for one after the other.
        rows: training rows.
        row_tokens: of a row, on average.
        prompt_tokens: of a prompt, on average.
        longest_prompt: tokens.
        longest_reply: tokens.
    """

    episodes: int
    passes: float
    batch: int
    turns: float
    rounds: int
    rows: int
    row_tokens: float
    prompt_tokens: float
    longest_prompt: int
    longest_reply: int

    @property
    def tokens(self) -> int:
        """Trained tokens, prompts included."""
        return round(self.rows * self.row_tokens)

    @property
    def reply_tokens(self) -> float:
        """Tokens of a reply, on average."""
        return max(1.0, REPLY_SHARE * self.longest_reply)

    @property
    def longest(self) -> int:
        """Tokens of the longest prompt and reply."""
        return self.longest_prompt + self.longest_reply


def load_of(
    plans: Sequence[GamePlan],
    args: Any,
    longest_reply: int,
    encode: Callable[[Sequence[Message]], int],
) -> Load:
    """The size of a step, by random legal play of the games.

    Args:
        plans: the games.
        args: the trainer's settings, without what TRL derives.
        longest_reply: tokens.
        encode: tokens of a prompt.
    """
    total = sum(plan.weight for plan in plans)
    turns = tokens = rows = row_tokens = 0.0
    longest = rounds = 0
    for plan in plans:
        share = plan.weight / total / NUM_SAMPLED
        for episode in play(plan.env_fn, RandomPolicy(), range(NUM_SAMPLED)):
            own = [t for t in episode.turns if plan.learners[t.seat]]
            lengths = [encode(turn.messages) for turn in own]
            last = {turn.seat: n for turn, n in zip(own, lengths, strict=True)}
            trained = list(last.values()) if args.layout == "trajectory" else lengths
            turns += share * len(own)
            tokens += share * sum(lengths)
            rows += share * len(trained)
            row_tokens += share * sum(trained)
            longest = max([longest, *lengths])
            rounds = max(rounds, len(episode.turns))
    episodes, passes, batch = _batches(args)
    reply = max(1.0, REPLY_SHARE * longest_reply)
    return Load(
        episodes=episodes,
        passes=passes,
        batch=batch,
        turns=turns,
        rounds=rounds,
        rows=round(episodes * rows),
        row_tokens=row_tokens / max(rows, 1e-9) + reply,
        prompt_tokens=tokens / max(turns, 1e-9),
        longest_prompt=longest,
        longest_reply=longest_reply,
    )


def _batches(args: Any) -> tuple[int, float, int]:
    """Episodes per step, generation batches per step, and episodes per batch.

    Raises:
        ValueError: there would be none.
    """
    accumulated = max(args.gradient_accumulation_steps, 1)
    episodes = args.episodes_per_step or args.per_device_train_batch_size * accumulated
    per_pass = episodes // accumulated  # of a forward and backward pass
    steps = args.steps_per_generation or accumulated
    batch = args.generation_batch_size or per_pass * steps
    if batch < 1 or args.num_iterations < 1:
        raise ValueError(
            "want an episode per generation batch and num_iterations of at least 1, "
            f"got {batch} and {args.num_iterations}"
        )
    return episodes, episodes / args.num_iterations / batch, batch


def estimated_length(messages: Sequence[Message]) -> int:
    """Tokens of a prompt where no tokenizer is at hand, by `CHARACTERS_PER_TOKEN`."""
    characters = sum(len(message["content"]) for message in messages)
    return round(characters / CHARACTERS_PER_TOKEN) + TEMPLATE_TOKENS * len(messages)


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
        weight_bytes: of a weight in self-play: 2 or 4.
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

    config: Any
    weights: int
    adapter: int
    weight_bytes: int
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
        kept = getattr(self.config, "num_key_value_heads", None) or heads
        return int(2 * size * self.config.num_hidden_layers * kept * width)


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
    return {**parts, **_overhead(method)}


def _overhead(method: Method) -> dict[str, float]:
    return {} if method.on_cpu else {"CUDA": OVERHEAD}


@dataclass(frozen=True)
class Fit:
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


def fit(method: Method, load: Load, gib: int) -> Fit:
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
    replies = int(room / (load.longest * method.kv_bytes))
    if tokens < load.longest or replies < 1:
        return Fit(gib)
    return Fit(gib, tokens, min(replies, load.batch), share)


def _tokens(free: float, size: int) -> int:
    """As a run's default, but 0 where not even `LEAST` tokens fit."""
    if OF_FREE * free < LEAST * size:
        return 0
    return min(tokens_that_fit(free, size), MOST_TOKENS)


def hours(method: Method, load: Load, num_steps: int) -> tuple[float, float]:
    """Hours of generation and of training on one GPU, see `assumptions`.

    Decoding reads the weights once per token of a round, and the keys and values of every
    reply. A forward pass takes 2 FLOP per weight and token, a backward pass 4, or 2 where
    the weights themselves get no gradient (LoRA).
    """
    weights, reply = method.weights, load.reply_tokens
    turns = load.passes * load.batch * load.turns
    read = 2 if method.engine else method.weight_bytes
    decoded = load.passes * load.rounds * load.longest_reply * read * weights
    decoded += turns * reply * (load.prompt_tokens + reply / 2) * method.kv_bytes
    play_flop = 2 * weights * turns * (load.prompt_tokens + reply)
    is_cut = load.tokens > (method.max_tokens or MOST_TOKENS)
    passes = 1 + method.checkpointing + is_cut + method.reference + method.rescored
    backward = 2 if method.adapter else 4
    train_flop = (2 * passes + backward) * weights * load.tokens
    speed = PEAK * UTILISATION
    made = decoded / (BANDWIDTH * READ_SHARE[method.engine]) + play_flop / speed
    return num_steps * made / 3600, num_steps * train_flop / speed / 3600


REWARD_MODEL = "reward models of columns: their memory and time are not counted"


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


WIDTH, LABEL = 80, 12  # columns
ESTIMATED = (
    f"prompts: {CHARACTERS_PER_TOKEN:g} characters per token, as no tokenizer is here"
)
SERVER = (
    "vllm_mode 'server': its GPU holds the KV cache and a copy of the weights; the figures of "
    "generation here are those of transformers"
)
SAMPLE = 4096  # tokens whose activations are shown where memory decides how many run

Encode = Callable[[Sequence[Message]], int]


def plan_lines(
    settings: Mapping[str, Any], folder: Path, *, resume: bool = False
) -> tuple[list[str], list[str]]:
    """The size, memory and time of a run, and what refuses it; writes nothing, needs no weights.

    Raises:
        ValueError: an option or a game is unknown or of another type, or nothing is known
            of the model's sizes.
    """
    job, args = read_options(settings)
    args.check_own()
    steps = checks(job, args, folder, resume=resume)
    local, absent = _local(job.model)
    refused = _refusals([*steps, lambda: check_columns(job, args)]) + absent
    games = games_of(args)
    config, encode, chat = _model_and_chat(job, args, games, local)
    refused += _refusals([lambda: _check_replies(job, args, games, chat)])
    method = _method(job, args, config)
    load = load_of(games, args, args.max_completion_length or MAX_REPLY_TOKENS, encode)
    lines = _size_lines(job, args, method, load, games)
    lines += ["", *memory_table(method, load), ""]
    if args.use_cpu:
        lines.append("use_cpu: no table of GPUs, and no estimate of hours")
    else:
        made, trained = hours(method, load, args.max_steps)
        text = (
            f"{args.max_steps} steps on one GPU: {made:.1f} hours of generation, "
            f"{trained:.1f} of training"
        )
        lines += [*gpu_table(method, load), "", *_headed("time".ljust(LABEL), text)]
    assumed = assumptions(method)
    if by_server(args):
        assumed.insert(0, SERVER)
    if any(isinstance(source, dict) for source in job.columns.values()):
        assumed.append(REWARD_MODEL)
    if encode is estimated_length:
        assumed.insert(0, ESTIMATED)
    refused += _refusals(
        [lambda: model_memory.check_memory(method.learners, method.free)]
    )
    if not (args.use_cpu or torch.accelerator.is_available()):
        refused.append(
            "no GPU was found; a small model runs on a CPU with --use_cpu true --bf16 false "
            "--use_vllm false"
        )
    lines += [*suite_table(games, job.model), "", "assumed", *_listed(assumed), ""]
    lines += ["refused on this machine", *_listed(refused or ["nothing"])]
    return lines, refused


def _refusals(steps: Sequence[Callable[[], object]]) -> list[str]:
    """Why steps of the preflight refuse the run."""
    found = []
    for step in steps:
        try:
            step()
        except (ValueError, ModuleNotFoundError) as error:
            found.append(" ".join(str(error).split()))
    return list(dict.fromkeys(found))


def _local(model: str) -> tuple[Path | None, list[str]]:
    """The folder of the model, and what is to be said where there is none."""
    if model == "tiny":
        return None, []
    try:
        folder = find_model(model, asks_hub=False)
    except ValueError as error:
        return None, [str(error)]
    if folder is not None or model == "smollm2":  # which is converted when it is needed
        return folder, []
    return None, [
        f"the model {model!r} is not on this machine; download it with "
        f"{download_of(model)}, or give a folder (--model PATH)"
    ]


def _check_replies(
    job: JobConfig, args: Any, games: Sequence[GamePlan], chat: Chat | None
) -> None:
    """Raises ValueError for a limit of tokens that cuts legal replies, as the run does."""
    if chat is None:  # the model is not on this machine
        return
    from arena_trainers.runs.start import (
        check_reply_lengths,
        imitated,
        longest_replies,
    )

    plans = [*games, *imitated(job, args, games)]
    lengths = longest_replies(chat, plans, args.reply_format)
    check_reply_lengths(lengths, plans, args)


def _model_and_chat(
    job: JobConfig, args: Any, games: Sequence[GamePlan], folder: Path | None
) -> tuple[Any, Encode, Chat | None]:
    """The model's configuration, what counts the tokens of prompts, and the chat, if it is here."""
    if job.model != "tiny" and folder is None:
        return known_config(job.model, None), estimated_length, None
    from transformers import AutoTokenizer

    from arena_trainers.runs.start import load_tokenizer, tiny_config

    if folder is None:
        prompt = PromptOptions(**{name: getattr(args, name) for name in PROMPT_OPTIONS})
        tokenizer = load_tokenizer(job, None, games, prompt)
        sizes = {"hidden_size": job.hidden_size, "num_layers": job.num_layers}
        config = tiny_config(tokenizer, **sizes)
    else:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        config = known_config(job.model, folder)
    chat = chat_of(tokenizer, args)
    return config, lambda messages: len(chat.encode(messages)), chat


def _method(job: JobConfig, args: Any, config: Any) -> Method:
    own = adapters.adapter_configs(args.roles, job.peft_config) or [job.peft_config]
    counts = [adapters.count_weights(config, adapter) for adapter in own]
    dtype = str((args.model_init_kwargs or {}).get("dtype", "float32"))
    size = 4 if "float32" in dtype else 2
    cpu, accelerator = torch.device("cpu"), torch.accelerator.current_accelerator(True)
    device = cpu if args.use_cpu else accelerator
    is_whole = args.roles and own == [None]
    whole = model_memory.whole_memory(args, size * counts[0][0]) if is_whole else {}
    reused = (args.steps_per_generation or 1) * args.num_iterations
    correction = args.use_vllm and args.vllm_importance_sampling_correction
    return Method(
        config=config,
        weights=counts[0][0],
        adapter=sum(adapter for _, adapter in counts),
        weight_bytes=size,
        has_start=job.warm_start_steps > 0,
        reference=args.beta > 0,
        checkpointing=bool(args.gradient_checkpointing),
        engine=bool(args.use_vllm) and not by_server(args),
        rescored=bool(correction) or reused > args.gradient_accumulation_steps,
        max_tokens=args.max_tokens_per_forward,
        on_cpu=bool(args.use_cpu),
        learners=whole,
        free=math.inf if device is None else free_memory(device),
    )


def _size_lines(
    job: JobConfig, args: Any, method: Method, load: Load, games: Sequence[GamePlan]
) -> list[str]:
    """The model, the games, and the size of a step."""
    total = f"{method.weights:,}"
    own = [options.get("lora_r", job.lora_r) for options in args.roles.values()]
    ranks = " and ".join(map(str, own or [job.lora_r]))
    trained = f"{method.adapter:,} (LoRA, rank {ranks})" if method.adapter else "all"
    if method.learners:
        trained = f"a whole model for each of {', '.join(args.learner_names)}"
    said = {
        "model": job.model,
        "parameters": f"{total}; trained: {trained}",
        "games": ", ".join(_names(games, args.opponents)),
        "step": f"{load.episodes} episodes in groups of {args.num_generations}, about "
        f"{load.rows:,} rows and {load.tokens:,} tokens",
        "prompts": f"{load.prompt_tokens:.0f} tokens on average, {load.longest_prompt} at "
        "most in random play",
        "replies": f"{load.longest_reply} tokens at most, {load.reply_tokens:.0f} on "
        "average (assumed)",
    }
    return [
        line
        for label, text in said.items()
        for line in _headed(label.ljust(LABEL), text)
    ]


def _names(games: Sequence[GamePlan], opponents: Any) -> list[str]:
    """The games; one that is listed again has its seats, or the opponents of the run."""
    counts = Counter(game.name for game in games)
    return [
        f"{game.name} ({', '.join(game.seats or [str(opponents)])})"
        if counts[game.name] > 1
        else game.name
        for game in games
    ]


def memory_table(method: Method, load: Load) -> list[str]:
    """The memory of the supervised start and of self-play, by part."""
    start = start_memory(method) if method.has_start else {}
    play = play_memory(method)
    bound = min(method.max_tokens or SAMPLE, load.tokens)
    name = f"activations of {bound:,} tokens{'' if method.max_tokens else ' *'}"
    play[name] = float(bound * method.token_bytes)
    if start:
        start[name] = play[name]
    if method.engine:
        play["vLLM's weights"] = method.engine_bytes
    rows = [("memory (GiB)", "start", "self-play")]
    rows += [(part, _gib(start.get(part)), _gib(size)) for part, size in play.items()]
    sums = _gib(sum(start.values()) or None), _gib(sum(play.values()))
    rows.append(("sum, without the KV cache", *sums))
    cache = load.batch * load.longest * method.kv_bytes
    rows.append((f"KV cache of {load.batch:,} replies at once", "-", _gib(cache)))
    lines = _table(rows)
    if not method.max_tokens:
        lines.append("* max_tokens_per_forward is not given: half of the free memory")
    if method.learners and method.free < math.inf:
        lines.append(f"free on this machine: {_gib(method.free)} GiB")
    return [*lines, f"KV cache: {method.kv_bytes:,} bytes per token"]


def suite_table(games: Sequence[GamePlan], model: str) -> list[str]:
    """The table of the paper's suite that a run on several of its games is to fill."""
    suite, trained = load_suite(SUITE), {game.name for game in games}
    if len(trained) < 2 or not trained <= {*suite.games}:
        return []
    rows = [("game", "against", "level", "episodes", "base", "trained")]
    for (game, opponent), num in Counter(
        (c.game, c.opponent) for c in suite.cells
    ).items():
        level = "trained" if game in trained else "held out"
        rows.append((game, opponent, level, f"{num:,}", "-", "-"))
    command = f"to fill: arena compare lm:{model} lm:RUN/model --suite {SUITE}"
    return ["", *textwrap.wrap(command, WIDTH), *_table(rows)]


def _gib(size: float | None) -> str:
    if size is None:
        return "-"
    return f"{size / GIB:,.2f}" if size >= GIB / 100 else f"{size / GIB:.5f}"


def gpu_table(method: Method, load: Load) -> list[str]:
    """Settings by the size of the GPU."""
    last = "vllm_gpu_memory_utilization" if method.engine else "rollout_batch_size"
    heads = ["GPU", "max_tokens_per_forward", last]
    rows = [tuple([*heads, "replies at once"] if method.engine else heads)]
    for gib in GPU_SIZES:
        found = fit(method, load, gib)
        cells = [f"{gib} GiB", f"{found.tokens}", f"{found.replies}"]
        if method.engine:
            cells[2:] = [f"{found.share:.2f}", f"{found.replies}"]
        if not found.tokens:
            cells[1:] = ["does not fit", *["-"] * (len(cells) - 2)]
        rows.append(tuple(cells))
    return _table(rows)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns with two spaces between them; all but the first are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
        for row in rows
    ]


def _headed(head: str, text: str) -> list[str]:
    rest = " " * len(head)
    return textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=rest)


def _listed(items: Sequence[str]) -> list[str]:
    return [line for item in items for line in _headed("- ", item)]
