"""Checks of settings before training, those of TRL too; what TRL would refuse later or not at all.

This module imports neither TRL nor torch.
"""

import math
import os

from arena_envs.game import check_int
from arena_trainers.engines import check_engine
from arena_trainers.engines.settings import by_server, changes_draws, engine_of
from arena_trainers.options import refuse_unknown
from arena_trainers.processes import splits_weights
from arena_trainers.train.settings import SelfPlay
from arena_trainers.train.trl_options import TRLOptions

LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo")


def check_ranges(args: SelfPlay) -> None:
    """Raises ValueError for numbers out of range, if TRL would not or only later."""
    length = args.max_completion_length
    ranges = {
        "seed": (0 <= args.seed < 2**32, "from 0 to 2**32 - 1"),
        "max_steps": (
            args.max_steps >= 1 or args.max_steps == -1,
            "of at least 1 (or -1 for num_train_epochs)",
        ),
        "logging_steps": (args.logging_steps > 0, "above 0"),
        "save_steps": (args.save_steps > 0, "above 0"),
        "beta": (0 <= args.beta < math.inf, "of at least 0"),
        "temperature": (0 < args.temperature < math.inf, "above 0"),
        "top_p": (0 < args.top_p <= 1, "above 0 and at most 1"),
        "min_p": (args.min_p is None or 0 <= args.min_p <= 1, "from 0 to 1"),
        "repetition_penalty": (0 < args.repetition_penalty < math.inf, "above 0"),
        "learning_rate": (0 <= args.learning_rate < math.inf, "of at least 0"),
        "max_completion_length": (length is None or length >= 1, "of at least 1"),
        "loss_type": (args.loss_type in LOSS_TYPES, f"from {LOSS_TYPES}"),
    }
    for name, (holds, range_text) in ranges.items():
        if not holds:
            raise ValueError(f"want {name} {range_text}, got {getattr(args, name)!r}")


def check_batches(args: SelfPlay) -> None:
    """Raises ValueError for sizes of batches that TRL refuses in terms of other options.

    Args:
        args: the options, before TRL has derived some of them from others.
    """
    _check_counts(args)
    rows, steps = args.generation_batch_size, args.steps_per_generation
    if rows is not None and steps is not None:
        raise ValueError(
            f"want generation_batch_size or steps_per_generation, got both, {rows} and {steps}; "
            "leave one out"
        )
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    share = args.per_device_train_batch_size * processes
    size = "per_device_train_batch_size times processes"
    if args.episodes_per_step is not None:
        share = max(args.episodes_per_step // args.gradient_accumulation_steps, 1)
        size = "episodes_per_step / gradient_accumulation_steps"
    if rows is not None and (rows < 1 or rows % share):
        raise ValueError(
            f"want generation_batch_size as a multiple of {share} ({size}), got {rows}; give "
            f"{share} or {2 * share}, or leave it out"
        )
    check_episodes_per_step(args)
    whole = rows or share * (steps or args.gradient_accumulation_steps)
    if whole % args.num_generations:
        raise ValueError(
            f"want a generation batch divisible by num_generations ({args.num_generations}), got "
            f"{whole} episodes; give --episodes_per_step {args.num_generations * 4} alone, or "
            f"another multiple of {args.num_generations}"
        )
    group = args.num_generations_eval or args.num_generations
    eval_rows = args.per_device_eval_batch_size * processes
    if args.eval_strategy != "no" and eval_rows % group:
        raise ValueError(
            f"want per_device_eval_batch_size as a multiple of num_generations ({group}), got "
            f"{args.per_device_eval_batch_size}; give {group}, or leave eval_strategy out"
        )


def _check_counts(args: SelfPlay) -> None:
    """Raises ValueError for counts of batches below the least."""
    names = ["gradient_accumulation_steps", "num_iterations", "steps_per_generation"]
    if args.episodes_per_step is None:
        names.append("per_device_train_batch_size")
    for name in names:
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ValueError(f"want {name} of at least 1, got {value}")
    if args.num_generations < 2:
        raise ValueError(
            f"want num_generations of at least 2, to compare, got {args.num_generations}"
        )


def check_episodes_per_step(args: SelfPlay) -> None:
    """Raises unless a step has whole groups of episodes, and equal shares of them everywhere."""
    episodes, unit = args.episodes_per_step, args.episodes_unit
    if episodes is None or unit < 1:
        return
    if episodes % unit:
        below = episodes - episodes % unit
        fits = " or ".join(str(n) for n in (below, below + unit) if n)
        raise ValueError(
            f"want episodes_per_step divisible by {unit} (groups of {args.num_generations}, "
            f"shares of processes and of {args.gradient_accumulation_steps} "
            f"gradient_accumulation_steps), got {episodes}; give --episodes_per_step {fits}"
        )
    per_pass = episodes // max(args.gradient_accumulation_steps, 1)
    size = args.generation_batch_size
    if size is not None and args.steps_per_generation is None and size % per_pass:
        raise ValueError(
            f"want generation_batch_size divisible by {per_pass} (the episodes of a forward "
            f"and backward pass), got {size}; leave it out, or give a multiple"
        )


def check_supported(args: SelfPlay) -> None:
    """Raises ValueError for options of TRL that rollouts or credit would ignore."""
    untested = "its rollouts have not been tested with it"
    bypassed = "advantages come from credit; see credit_args and part_weights"
    engine = "an engine in the training process has not been tested with it"
    colocated = args.use_vllm and args.vllm_mode == "colocate"
    several = args.multi_objective_aggregation != "sum_then_normalize"
    batching = "use_transformers_continuous_batching"
    refused = [
        (batching, getattr(args, batching), untested),
        ("use_vllm in sharded training", colocated and splits_weights(args), engine),
        ("auto_find_batch_size", args.auto_find_batch_size, untested),
        ("generation_kwargs", args.generation_kwargs, untested),
        ("cache_implementation", args.cache_implementation is not None, untested),
        ("scale_rewards", args.scale_rewards != "group", bypassed),
        ("reward_weights", args.reward_weights is not None, bypassed),
        ("multi_objective_aggregation", several, bypassed),
    ]
    for name, is_set, reason in refused:
        if is_set:
            raise ValueError(
                f"TurnGRPOTrainer does not support {name}: {reason}; leave it out"
            )
    check_precision(args)
    check_engine(args)


def check_precision(args: TRLOptions) -> None:
    """Raises ValueError for float16 on a CPU."""
    if not args.fp16:
        return
    import torch  # importing it takes seconds, and most refusals of options do without

    if args.use_cpu or not torch.accelerator.is_available():
        raise ValueError(
            "want fp16 on a GPU alone, got it on a CPU; leave it out, or give --bf16 true"
        )


def check_warm_start(args: SelfPlay) -> None:
    """Raises ValueError under FSDP or DeepSpeed, where supervised starts are untested."""
    if splits_weights(args) or os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        raise ValueError(
            "want warm_start_steps 0 under FSDP or DeepSpeed: the supervised start has "
            "not been tested with it; run it before, with arena train --max_steps 1 "
            "and no accelerate, and give the folder start/ of that run as --model with "
            "--warm_start steps=0"
        )


def check_save_steps(args: SelfPlay) -> None:
    """Raises if a checkpoint, which saves no generation batch, could fall inside one."""
    saves = args.save_strategy == "steps" and args.save_steps >= 1
    if saves and args.save_steps % args.window:
        less = int(args.save_steps) // args.window * args.window
        fits = " or ".join(str(n) for n in (less, less + args.window) if n)
        raise ValueError(
            f"want save_steps divisible by {args.window} (the optimizer steps that "
            f"share a generation batch), got {args.save_steps:g}; give --save_steps "
            f"{fits}"
        )


def check_asynchronous(args: SelfPlay) -> None:
    """Raises ValueError for settings with which play cannot run beside training."""
    if args.asynchronous is None:
        return
    limits = {"max_staleness": (0, 1), "in_flight": (2, 64)}
    refuse_unknown("asynchronous", args.asynchronous, limits)
    options = {"max_staleness": 1, "in_flight": 2, **args.asynchronous}
    for name, limit in limits.items():
        check_int(f"{name} in asynchronous", options[name], *limit)
    args.asynchronous = options if options["max_staleness"] else None
    if args.asynchronous is None:
        return
    cut = changes_draws(args)
    reuse = (args.steps_per_generation or 1) * args.num_iterations
    updates = args.gradient_accumulation_steps % reuse != 0
    processes = int(os.environ.get("WORLD_SIZE", "1")) > 1
    refused = [
        (str(cut), cut, "importance ratios are of the whole distribution"),
        ("vllm_mode 'colocate'", engine_of(args) == "vllm", "it shares the GPU"),
        ("a generation batch of several updates", updates, "its turns grow older"),
        (
            "several processes without vllm_mode 'server'",
            processes and not by_server(args),
            "each would play in one more process",
        ),
    ]
    for name, is_set, reason in refused:
        if is_set:
            raise ValueError(
                f"asynchronous does not support {name}: {reason}; leave it out"
            )


def check_sequential(args: SelfPlay) -> None:
    """Raises ValueError unless each learner has whole optimizer steps on the same episodes."""
    if args.update != "sequential":
        return
    num, accumulated = len(args.roles), args.gradient_accumulation_steps
    reused = args.steps_per_generation or accumulated  # TRL fills it in
    passes = reused * args.num_iterations
    if args.num_iterations % num or passes // num % accumulated:
        raise ValueError(
            f"want update sequential with num_iterations divisible by {num} (the "
            "roles, which train one after the other on the same episodes), each with "
            f"whole steps of {accumulated} micro-batches, got {passes} in all; give "
            f"num_iterations {num} and leave steps_per_generation out"
        )


def check_dtype(args: SelfPlay, is_adapted: bool) -> None:
    """Raises ValueError for settings that train weights directly in half precision.

    DeepSpeed keeps float32 copies itself.
    """
    dtype = str((args.model_init_kwargs or {}).get("dtype", "float32"))
    dtype = dtype.removeprefix("torch.")
    by_deepspeed = os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true"
    is_half = dtype in ("bfloat16", "float16")
    if is_half and not (is_adapted or args.deepspeed or by_deepspeed):
        raise ValueError(half_precision_error(dtype, args.learning_rate))


def half_precision_error(dtype: str, learning_rate: float) -> str:
    """The sentence of the checks before and after the model is loaded."""
    return (
        f"want float32 for weights that are trained directly, got {dtype}, which rounds "
        f"an update of {learning_rate:g} away; train an adapter (--lora r=16), or all "
        "weights in float32 with passes in bfloat16 (--model_init_kwargs "
        "'{dtype: float32}' --bf16 true)"
    )
