"""The plan of a run, `--dry-run`: its size, memory and hours, and what refuses it.

Nothing is loaded and nothing is trained.
"""

import json
import math
import os
import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedConfig

from arena_eval.tournament import load_suite
from arena_trainers.engines.settings import by_server
from arena_trainers.lm import adapters, model_memory
from arena_trainers.lm.backends.memory import free_memory
from arena_trainers.lm.chat import Chat, chat_of
from arena_trainers.lm.models import download_of, find_model
from arena_trainers.runs.checks.machine import GPUS, Machine, machine_of
from arena_trainers.runs.checks.memory import (
    GIB,
    USABLE,
    Method,
    assumptions,
    check_timeout,
    gpu_settings,
    hours,
    needed,
    play_memory,
    start_memory,
)
from arena_trainers.runs.checks.preflight import (
    check_columns,
    checks,
    games_of,
    read_options,
)
from arena_trainers.runs.checks.step_size import (
    CHARACTERS_PER_TOKEN,
    StepSize,
    estimated_length,
    step_size_of,
)
from arena_trainers.runs.settings import JobConfig
from arena_trainers.train.games import GamePlan
from arena_trainers.train.settings import MAX_REPLY_TOKENS, Draft
from arena_wrappers import PromptOptions
from arena_wrappers.prompts import PROMPT_OPTIONS, Message


def known_config(model: str, folder: Path | None) -> PreTrainedConfig:
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
        config: PreTrainedConfig = AutoConfig.from_pretrained(folder or model)
        return config
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


SUITE = "mars"
REWARD_MODEL_NOTE = "reward models of columns: their memory and time are not counted"
WIDTH, LABEL = 80, 12  # columns
ESTIMATED_NOTE = (
    f"prompts: {CHARACTERS_PER_TOKEN:g} characters per token, as no tokenizer is here"
)
SERVER_NOTE = (
    "vllm_mode 'server': a GPU outside this plan holds the KV cache and a copy of the weights; its "
    "hours are those of a card like the others"
)
# tokens whose activations are shown where memory decides how many run
SHOWN_TOKENS = 4096
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
    local, absent = _model_folder(job.model)
    refused = _refusals([*steps, lambda: check_columns(job, args)]) + absent
    games = games_of(args)
    config, encode, chat = _model_and_chat(job, args, games, local)
    refused += _refusals([lambda: _check_replies(job, args, games, chat)])
    method = _method(job, args, config)
    step_size = step_size_of(
        games, args, args.max_completion_length or MAX_REPLY_TOKENS, encode
    )
    lines = _size_lines(job, args, method, step_size, games)
    fits_not = None
    if job.machine and not args.use_cpu:
        text, fits_not = machine_verdict(method, step_size, args)
        lines += _hanging("machine".ljust(LABEL), text)
    lines += ["", *memory_table(method, step_size), ""]
    if args.use_cpu:
        lines.append("use_cpu: no table of GPUs, and no estimate of hours")
    else:
        lines += gpu_table(method, step_size, args.max_steps)
        refused += _refusals([lambda: _check_timeout(method, step_size, args)])
    refused += [fits_not] if fits_not else []
    assumed = assumptions(method)
    if by_server(args) and not method.machine.server:
        assumed.insert(0, SERVER_NOTE)
    if any(isinstance(source, dict) for source in job.columns.values()):
        assumed.append(REWARD_MODEL_NOTE)
    if encode is estimated_length:
        assumed.insert(0, ESTIMATED_NOTE)
    refused += _refusals(
        [lambda: model_memory.check_memory(method.learners, method.free)]
    )
    if not (args.use_cpu or torch.accelerator.is_available()):
        refused.append(
            "no GPU was found; a small model runs on a CPU with "
            f"{' '.join(cpu_options(job, args))}"
        )
    lines += [*suite_table(games, job.model), "", "assumed", *_bullets(assumed), ""]
    lines += ["refused on this machine", *_bullets(refused or ["nothing"])]
    return lines, refused


def cpu_options(job: JobConfig, args: Draft) -> list[str]:
    """The options with which a run needs no GPU; they undo what its recipe sets for a server."""
    options = ["--use_cpu true", "--bf16 false", "--use_vllm false"]
    if args.vllm_mode == "server":
        options.append("--vllm_mode colocate")
    if args.vllm_server_base_url is not None:
        options.append("--vllm_server_base_url null")
    if job.machine:
        options.append("--machine '{}'")
    return options


def check_patience(settings: Mapping[str, Any]) -> None:
    """Raises ValueError if play of a batch is planned to take longer than `ddp_timeout`.

    For runs of several processes on GPUs: the others wait for the slowest process at most so long.
    """
    job, args = read_options(settings)
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or args.use_cpu:
        return
    args.check_own()
    games, (local, _) = games_of(args), _model_folder(job.model)
    config, encode, _ = _model_and_chat(job, args, games, local)
    reply = args.max_completion_length or MAX_REPLY_TOKENS
    step_size = step_size_of(games, args, reply, encode)
    _check_timeout(_method(job, args, config), step_size, args)


def _check_timeout(method: Method, step_size: StepSize, args: Draft) -> None:
    cards = [gpu for gpu in GPUS if gpu.gib >= method.machine.memory] or [GPUS[-1]]
    check_timeout(method, step_size, cards[0], args.ddp_timeout)


def _refusals(steps: Sequence[Callable[[], object]]) -> list[str]:
    """Why steps of the preflight refuse the run."""
    reasons = []
    for step in steps:
        try:
            step()
        except (ValueError, ModuleNotFoundError) as error:
            reasons.append(" ".join(str(error).split()))
    return list(dict.fromkeys(reasons))


def _model_folder(model: str) -> tuple[Path | None, list[str]]:
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
    job: JobConfig, args: Draft, games: Sequence[GamePlan], chat: Chat | None
) -> None:
    """Raises ValueError for a limit of tokens that cuts legal replies, as the run does."""
    if chat is None:  # the model is not on this machine
        return
    from arena_trainers.runs.checks.lengths import check_reply_lengths, longest_replies
    from arena_trainers.runs.start import imitated

    plans = [*games, *imitated(job, args, games)]
    lengths = longest_replies(chat, plans, args.reply_format)
    check_reply_lengths(lengths, plans, args)


def _model_and_chat(
    job: JobConfig, args: Draft, games: Sequence[GamePlan], folder: Path | None
) -> tuple[PreTrainedConfig, Encode, Chat | None]:
    """The model's configuration, what counts the tokens of prompts, and the chat, if it is here."""
    if job.model != "tiny" and folder is None:
        return known_config(job.model, None), estimated_length, None
    from transformers import AutoTokenizer

    from arena_trainers.runs.start import load_tokenizer
    from arena_trainers.runs.tiny import tiny_config

    config: PreTrainedConfig
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


def _method(job: JobConfig, args: Draft, config: PreTrainedConfig) -> Method:
    lora_configs = adapters.adapter_configs(args.roles, job.peft_config) or [
        job.peft_config
    ]
    counts = [adapters.count_weights(config, adapter) for adapter in lora_configs]
    dtype = str((args.model_init_kwargs or {}).get("dtype", "float32"))
    is_adapted = lora_configs != [None]
    size = (
        2 if is_adapted and "float32" not in dtype else 4
    )  # what is trained is float32
    cpu, accelerator = torch.device("cpu"), torch.accelerator.current_accelerator(True)
    device = cpu if args.use_cpu else accelerator
    memory_of_learners = (
        {}
        if is_adapted or not args.roles
        else model_memory.whole_memory(args, size * counts[0][0])
    )
    reused = (args.steps_per_generation or 1) * args.num_iterations
    correction = args.use_vllm and args.vllm_importance_sampling_correction
    return Method(
        config=config,
        weights=counts[0][0],
        adapter=sum(adapter for _, adapter in counts),
        weight_bytes=size,
        autocast=bool(args.bf16 or args.fp16),
        has_start=job.warm_start_steps > 0,
        reference=args.beta > 0,
        checkpointing=bool(args.gradient_checkpointing),
        engine=bool(args.use_vllm) and not by_server(args),
        served=by_server(args),
        rescored=bool(correction) or reused > args.gradient_accumulation_steps,
        max_tokens=args.max_tokens_per_forward,
        on_cpu=bool(args.use_cpu),
        learners=memory_of_learners,
        free=math.inf if device is None else free_memory(device),
        machine=_machine(job),
    )


def _machine(job: JobConfig) -> Machine:
    """The machine of the recipe, with the processes of this run where there are several."""
    machine = machine_of(job.machine)
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    if processes == 1:
        return machine
    is_split = os.environ.get("ACCELERATE_USE_FSDP", "").lower() == "true"
    return replace(machine, gpus=processes + machine.server, split=is_split)


def machine_verdict(
    method: Method, step_size: StepSize, args: Draft
) -> tuple[str, str | None]:
    """The machine with what a process takes on a GPU of it, and a refusal if that is too much."""
    machine, usable = method.machine, USABLE * method.machine.memory * GIB
    tokens = args.max_tokens_per_forward or SHOWN_TOKENS
    share = args.vllm_gpu_memory_utilization
    parts = needed(method, step_size, tokens, share)
    if method.has_start:
        start = start_memory(method)
        start["activations"] = method.start_activations(tokens)
        parts = max(parts, start, key=lambda sizes: sum(sizes.values()))
    total = sum(parts.values())
    fits = total <= usable
    text = (
        f"{machine}; takes {_gib(total)} of {_gib(usable)} GiB on each that trains "
        f"({'fits' if fits else 'does not fit'}; calculated)"
    )
    if fits:
        return text, None
    return text, (
        f"want at most {_gib(usable)} GiB on a GPU of the machine, got {_gib(total)} ("
        + ", ".join(f"{part} {_gib(size)}" for part, size in parts.items())
        + "); give a smaller --max_tokens_per_forward, shorter replies or another --machine"
    )


def _size_lines(
    job: JobConfig,
    args: Draft,
    method: Method,
    step_size: StepSize,
    games: Sequence[GamePlan],
) -> list[str]:
    """The model, the games, and the size of a step."""
    total = f"{method.weights:,}"
    role_ranks = [options.get("lora_r", job.lora_r) for options in args.roles.values()]
    ranks = " and ".join(map(str, role_ranks or [job.lora_r]))
    trained = f"{method.adapter:,} (LoRA, rank {ranks})" if method.adapter else "all"
    if method.learners:
        trained = f"a whole model for each of {', '.join(args.learner_names)}"
    figures = {
        "model": job.model,
        "parameters": f"{total}; trained: {trained}",
        "games": ", ".join(_game_names(games, args.opponents)),
        "step": f"{step_size.episodes} episodes in groups of {args.num_generations}, about "
        f"{step_size.rows:,} rows and {step_size.tokens:,} tokens",
        "prompts": f"{step_size.prompt_tokens:.0f} tokens on average, {step_size.longest_prompt} at "
        "most in random play",
        "rows": f"{step_size.row_tokens:.0f} tokens on average, {step_size.longest_row} at most",
        "replies": f"{step_size.longest_reply} tokens at most, {step_size.reply_tokens:.0f} on "
        "average (assumed)",
    }
    return [
        line
        for label, text in figures.items()
        for line in _hanging(label.ljust(LABEL), text)
    ]


def _game_names(games: Sequence[GamePlan], opponents: object) -> list[str]:
    """The games; one that is listed again has its seats, or the opponents of the run."""
    counts = Counter(game.name for game in games)
    return [
        f"{game.name} ({', '.join(game.seats or [game.opponent or str(opponents)])})"
        if counts[game.name] > 1
        else game.name
        for game in games
    ]


def memory_table(method: Method, step_size: StepSize) -> list[str]:
    """The memory of the supervised start and of self-play, by part."""
    start = start_memory(method) if method.has_start else {}
    play = play_memory(method)
    bound = max(
        min(method.max_tokens or SHOWN_TOKENS, step_size.tokens), step_size.longest_row
    )
    name = f"activations of {bound:,} tokens{'' if method.max_tokens else ' *'}"
    play[name] = method.activations(bound)
    if start:
        start[name] = method.start_activations(bound)
    if method.engine:
        play["vLLM's weights"] = method.engine_bytes
    rows = [("memory (GiB) of a process", "start", "self-play")]
    rows += [(part, _gib(start.get(part)), _gib(size)) for part, size in play.items()]
    sums = _gib(sum(start.values()) or None), _gib(sum(play.values()))
    rows.append(("sum, without the KV cache", *sums))
    cache = step_size.batch * step_size.longest_row * method.kv_bytes
    rows.append((f"KV cache of {step_size.batch:,} replies at once", "-", _gib(cache)))
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


def gpu_table(method: Method, step_size: StepSize, num_steps: int) -> list[str]:
    """Settings and hours by card."""
    heads = ["GPU", "tokens", "share", "replies at once", "hours: play", "training"]
    columns = [0, 1, 2, 3, 4, 5] if method.engine else [0, 1, 3, 4, 5]
    rows = [[heads[i] for i in columns]]
    for gpu in GPUS:
        settings = gpu_settings(method, step_size, gpu.gib)
        cells = [f"{gpu.name}, {gpu.gib} GiB", "does not fit", *["-"] * 4]
        if settings.tokens:
            playing, training = hours(
                method, step_size, num_steps, gpu, settings.replies
            )
            cells[1:] = [f"{settings.tokens}", f"{settings.share:.2f}"]
            cells += [f"{settings.replies}", f"{playing:,.1f}", f"{training:,.1f}"]
        rows.append([cells[i] for i in columns])
    legend = f"calculated; tokens: max_tokens_per_forward; hours: of {num_steps} steps"
    if method.engine:
        legend += "; share: vllm_gpu_memory_utilization"
    if (num := method.machine.processes) > 1:
        legend += f"; on {num} GPUs that train"
    if method.machine.server:
        legend += f", {method.machine.server} with the server"
    return [*_table(rows), *textwrap.wrap(legend, WIDTH)]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    """Columns with two spaces between them; all but the first are right-aligned."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join([row[0].ljust(widths[0]), *map(str.rjust, row[1:], widths[1:])])
        for row in rows
    ]


def _hanging(head: str, text: str) -> list[str]:
    indent = " " * len(head)
    return textwrap.wrap(text, WIDTH, initial_indent=head, subsequent_indent=indent)


def _bullets(items: Sequence[str]) -> list[str]:
    return [line for item in items for line in _hanging("- ", item)]
