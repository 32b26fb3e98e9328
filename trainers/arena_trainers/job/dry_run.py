"""`arena train RECIPE --dry-run`: the plan of a run, as lines of text."""

import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from arena_trainers.job import plan as plans
from arena_trainers.lm.models import local_model
from arena_trainers.runs.checks.dry_run import (
    CHARACTERS_PER_TOKEN,
    GIB,
    Load,
    Method,
    architecture_of,
    estimated_length,
    known_config,
    load_of,
)
from arena_trainers.runs.checks.preflight import (
    check_columns,
    checks,
    games_of,
    read_options,
)
from arena_trainers.runs.settings import JobConfig
from arena_trainers.train.engines import by_server
from arena_trainers.train.games import GamePlan
from arena_trainers.train.own_options import MAX_REPLY_TOKENS
from arena_wrappers import PromptOptions
from arena_wrappers.prompts import PROMPT_OPTIONS, Message

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
) -> list[str]:
    """What a run would train, need and take; writes nothing, and needs no weights.

    Args:
        settings: options by name.
        folder: the run folder.
        resume: whether the folder's run goes on.

    Raises:
        ValueError: an option or a game is unknown or of another type, or nothing is known
            of the model's sizes.
    """
    job, args = read_options(settings)
    args.check_own()
    steps = checks(job, args, folder, resume=resume)
    refused = _refusals([*steps, lambda: check_columns(job, args)])
    games = games_of(args)
    local, absent = _local(job.model)
    config, encode = _model_and_tokenizer(job, args, games, local)
    method = _method(job, args, config)
    load = load_of(games, args, args.max_completion_length or MAX_REPLY_TOKENS, encode)
    lines = _size_lines(job, args, method, load, games)
    lines += ["", *memory_table(method, load), ""]
    if args.use_cpu:
        lines.append("use_cpu: no table of GPUs, and no estimate of hours")
    else:
        lines += [
            *gpu_table(method, load),
            "",
            *_time_lines(method, load, args.max_steps),
        ]
    assumed = plans.assumptions(method)
    if by_server(args):
        assumed.insert(0, SERVER)
    if any(isinstance(source, dict) for source in job.columns.values()):
        assumed.append(plans.REWARD_MODEL)
    if encode is estimated_length:
        assumed.insert(0, ESTIMATED)
    refused += absent + ([] if args.use_cpu else _no_gpu())
    lines += ["", "assumed", *_listed(assumed)]
    return [*lines, "", "refused on this machine", *_listed(refused or ["nothing"])]


def _refusals(steps: Sequence[Callable[[], None]]) -> list[str]:
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
        folder = local_model(model)
    except ValueError as error:
        return None, [str(error)]
    if folder is not None or model == "smollm2":  # which is converted when it is needed
        return folder, []
    return None, [
        f"the model {model!r} is not on this machine; download it with "
        f"`hf download {model}`, or give a folder (--model PATH)"
    ]


def _model_and_tokenizer(
    job: JobConfig, args: Any, games: Sequence[GamePlan], folder: Path | None
) -> tuple[Any, Encode]:
    """The model's configuration, and what counts the tokens of prompts."""
    if job.model != "tiny" and folder is None:
        return known_config(job.model, None), estimated_length
    from transformers import AutoTokenizer

    from arena_trainers.lm.chat import Chat
    from arena_trainers.runs.tiny import tiny_config, tiny_tokenizer, words_of

    if folder is None:
        prompt = PromptOptions(**{name: getattr(args, name) for name in PROMPT_OPTIONS})
        words = (text for g in games for text in words_of(g.game, prompt))
        tokenizer: Any = tiny_tokenizer(words)
        sizes = {"hidden_size": job.hidden_size, "num_layers": job.num_layers}
        config = tiny_config(tokenizer, **sizes)
    else:
        tokenizer = AutoTokenizer.from_pretrained(folder)
        config = known_config(job.model, folder)
    chat = Chat(tokenizer, template_options=args.chat_template_kwargs)
    return config, lambda messages: len(chat.encode(messages))


def _method(job: JobConfig, args: Any, config: Any) -> Method:
    model = architecture_of(config)
    adapter = model.lora_parameters(job.lora_r, job.lora_target_modules)
    dtype = str((args.model_init_kwargs or {}).get("dtype", "float32"))
    reused = (args.steps_per_generation or 1) * args.num_iterations
    correction = args.use_vllm and args.vllm_importance_sampling_correction
    return Method(
        config=config,
        model=model,
        adapter=adapter,
        weight_bytes=4 if "float32" in dtype else 2,
        has_start=job.warm_start_steps > 0,
        reference=args.beta > 0,
        checkpointing=bool(args.gradient_checkpointing),
        engine=bool(args.use_vllm) and not by_server(args),
        rescored=bool(correction) or reused > args.gradient_accumulation_steps,
        max_tokens=args.max_tokens_per_forward,
        on_cpu=bool(args.use_cpu),
    )


def _size_lines(
    job: JobConfig, args: Any, method: Method, load: Load, games: Sequence[GamePlan]
) -> list[str]:
    """The model, the games, and the size of a step."""
    total = f"{method.model.num_parameters:,}"
    trained = f"{method.adapter:,} (LoRA, rank {job.lora_r})" if job.lora_r else "all"
    longest = load.longest_reply
    return [
        *_labelled("model", job.model),
        *_labelled("parameters", f"{total}; trained: {trained}"),
        *_labelled("games", ", ".join(_names(games, args.opponents))),
        *_labelled(
            "step",
            f"{load.episodes} episodes in groups of {args.num_generations}, about "
            f"{load.rows:,} rows and {load.tokens:,} tokens",
        ),
        *_labelled(
            "prompts",
            f"{load.prompt_tokens:.0f} tokens on average, {load.longest_prompt} at most "
            "in random play",
        ),
        *_labelled(
            "replies",
            f"{longest} tokens at most, {load.reply_tokens:.0f} on average (assumed)",
        ),
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
    start = plans.start_memory(method) if method.has_start else {}
    play = plans.play_memory(method)
    bound = min(_bound(method), load.tokens)
    name = f"activations of {bound:,} tokens{'' if method.max_tokens else ' *'}"
    play[name] = float(bound * method.token_bytes)
    if start:
        start[name] = play[name]
    if method.engine:
        play["vLLM's weights"] = plans.engine_weights(method)
    rows = [("memory (GiB)", "start", "self-play")]
    rows += [(part, _gib(start.get(part)), _gib(size)) for part, size in play.items()]
    sums = _gib(sum(start.values()) or None), _gib(sum(play.values()))
    rows.append(("sum, without the KV cache", *sums))
    cache = load.batch * load.longest * method.kv_bytes
    rows.append((f"KV cache of {load.batch:,} replies at once", "-", _gib(cache)))
    lines = _table(rows)
    if not method.max_tokens:
        lines.append("* max_tokens_per_forward is not given: half of the free memory")
    return [*lines, f"KV cache: {method.kv_bytes:,} bytes per token"]


def _bound(method: Method) -> int:
    """Tokens that run at once in training; `SAMPLE` where memory decides."""
    return method.max_tokens or SAMPLE


def _gib(size: float | None) -> str:
    if size is None:
        return "-"
    return f"{size / GIB:,.2f}" if size >= GIB / 100 else f"{size / GIB:.5f}"


def gpu_table(method: Method, load: Load) -> list[str]:
    """Settings by the size of the GPU."""
    last = "vllm_gpu_memory_utilization" if method.engine else "rollout_batch_size"
    heads = ["GPU", "max_tokens_per_forward", last]
    rows = [tuple([*heads, "replies at once"] if method.engine else heads)]
    for gib in plans.GPU_SIZES:
        fit = plans.fit(method, load, gib)
        cells = [f"{gib} GiB", f"{fit.tokens}", f"{fit.replies}"]
        if method.engine:
            cells[2:] = [f"{fit.share:.2f}", f"{fit.replies}"]
        if not fit.tokens:
            cells[1:] = ["does not fit", *["-"] * (len(cells) - 2)]
        rows.append(tuple(cells))
    return _table(rows)


def _time_lines(method: Method, load: Load, num_steps: int) -> list[str]:
    made, trained = plans.hours(method, load, num_steps)
    text = (
        f"{num_steps} steps on one GPU: {made:.1f} hours of generation, {trained:.1f} of "
        "training"
    )
    return _labelled("time", text)


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns with two spaces between them; all but the first are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            [row[0].ljust(widths[0])]
            + [
                cell.rjust(width)
                for cell, width in zip(row[1:], widths[1:], strict=True)
            ]
        )
        for row in rows
    ]


def _labelled(label: str, text: str) -> list[str]:
    return textwrap.wrap(
        text, WIDTH, initial_indent=f"{label:<{LABEL}}", subsequent_indent=" " * LABEL
    )


def _listed(items: Sequence[str]) -> list[str]:
    return [
        line
        for item in items
        for line in textwrap.wrap(
            item, WIDTH, initial_indent="- ", subsequent_indent="  "
        )
    ]


def _no_gpu() -> list[str]:
    import torch

    if torch.accelerator.is_available():
        return []
    return [
        "no GPU was found; a small model runs on a CPU with --use_cpu true --bf16 false "
        "--use_vllm false"
    ]
