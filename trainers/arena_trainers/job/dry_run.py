"""`arena train RECIPE --dry-run`: the plan of a run, printed."""

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from arena_trainers.extras import is_installed
from arena_trainers.job import plan as plans
from arena_trainers.job.architecture import Architecture, architecture_of, known_config
from arena_trainers.job.plan import GIB, Load, Method
from arena_trainers.job.preflight import check, converted
from arena_trainers.job.settings import JobConfig
from arena_trainers.train.game_plans import GamePlan
from arena_trainers.train.options import options_of
from arena_trainers.train.own_options import Draft


def dry_run(settings: Mapping[str, Any], folder: Path, console: Console) -> None:
    """Prints what a run would train, need and take; writes nothing.

    Args:
        settings: options by name.
        folder: the run folder.
        console: where to print.

    Raises:
        ValueError: an option is unknown or of another type, or nothing is known of the
            model's sizes.
    """
    options, given = converted(settings)
    own = {o.name for o in options_of(JobConfig).values()}
    job = JobConfig(**{name: value for name, value in given.items() if name in own})
    args: Any = Draft({name: o.default for name, o in options.items()} | given)
    games = [GamePlan(spec, args) for spec in args.games]
    config = known_config(job.model)
    if config is None:
        raise ValueError(
            f"want a model whose sizes are known, got {job.model!r}, which is on no folder "
            "of this machine and not among the published ones; give a folder with its "
            "config.json (--model PATH)"
        )
    model = architecture_of(config)
    method = _method(job, args)
    tokenizer = _tokenizer(job.model)
    episodes = _episodes_per_step(args)
    longest = args.max_completion_length or 256
    load = plans.load_of(games, episodes, longest, tokenizer)
    say = _plain(console)
    say(
        f"model {job.model}: {model.num_parameters:,} parameters, {_trained(model, method)}"
    )
    say(
        f"games: {', '.join(game.name for game in games)}; per step: {load.episodes} "
        f"episodes, {load.turns} rows, {load.tokens:,} tokens; prompts of "
        f"{load.prompt_tokens:.0f} tokens on average, {load.longest_prompt} at most"
        f"{'' if tokenizer else ' (estimated: no tokenizer at hand)'}; replies of at most "
        f"{load.longest_reply}"
    )
    console.print(memory_table(model, method, load, args.max_tokens_per_forward))
    console.print(gpu_table(model, method, load))
    made, trained = plans.hours(model, method, load, args.max_steps)
    say(
        f"{args.max_steps} steps on one GPU: about {made:.1f} hours of generation and "
        f"{trained:.1f} of training"
    )
    for assumption in plans.ASSUMPTIONS:
        say(f"  assumed: {assumption}")
    for line in refused(settings, folder, args):
        say(f"refused here: {line}")


def _plain(console: Console) -> Callable[[str], None]:
    def say(text: str) -> None:
        console.print(text, markup=False, highlight=False)

    return say


def _method(job: JobConfig, args: Any) -> Method:
    dtype = str((args.model_init_kwargs or {}).get("dtype", "float32"))
    return Method(
        lora_r=job.lora_r,
        bytes_per_weight=4 if "float32" in dtype else 2,
        reference=args.beta > 0,
        checkpointing=bool(args.gradient_checkpointing),
        engine=bool(args.use_vllm),
    )


def _tokenizer(model: str) -> Any:
    if not (Path(model) / "tokenizer_config.json").is_file():
        return None
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(model)


def _episodes_per_step(args: Any) -> int:
    if args.episodes_per_step is not None:
        return int(args.episodes_per_step)
    size = args.per_device_train_batch_size * args.gradient_accumulation_steps
    return int(size) * int(os.environ.get("WORLD_SIZE", "1"))


def _trained(model: Architecture, method: Method) -> str:
    if not method.lora_r:
        return "all trained"
    return f"{model.lora_parameters(method.lora_r):,} trained (LoRA, r={method.lora_r})"


def memory_table(
    model: Architecture, method: Method, load: Load, bound: int | None
) -> Table:
    """The memory of a run by part."""
    tokens = bound or plans.BOUNDS[0]
    table = Table("part", "GiB", title="Memory")
    parts = plans.fixed_memory(model, method)
    parts[f"activations and logits of {tokens:,} tokens"] = plans.activation_memory(
        model, method, tokens, load
    )
    parts[f"keys and values of {load.episodes} episodes"] = plans.kv_memory(model, load)
    for name, size in parts.items():
        table.add_row(name, f"{size / GIB:.2f}")
    return table


def gpu_table(model: Architecture, method: Method, load: Load) -> Table:
    """Settings by the size of the GPU."""
    table = Table(
        "GPU", "max_tokens_per_forward", "rollout_batch_size", title="Settings"
    )
    for fit in plans.fits(model, method, load):
        if fit.tokens == 0:
            table.add_row(f"{fit.gib} GiB", "does not fit", "-")
        else:
            table.add_row(f"{fit.gib} GiB", str(fit.tokens), str(fit.concurrent))
    return table


def refused(settings: Mapping[str, Any], folder: Path, args: Any) -> list[str]:
    """What this machine cannot run, and why."""
    found = []
    try:
        check(settings, folder, resume=False)
    except (ValueError, ModuleNotFoundError) as error:
        found.append(str(error))
    if args.use_vllm and not is_installed("vllm"):
        found.append("use_vllm: the package vllm is not installed")
    import torch

    if not torch.cuda.is_available() and not args.use_cpu:
        found.append("no GPU: want one, or --use_cpu true for a small model")
    if math.isinf(args.max_steps) or args.max_steps < 1:
        found.append(f"max_steps: want a number of steps, got {args.max_steps}")
    return found
