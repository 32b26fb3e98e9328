"""Checks of `TurnGRPOConfig`: ranges of numbers, and settings that are not supported."""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from arena_envs.checks import did_you_mean
from arena_trainers.train.engines import check_engine

LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo")


def check_ranges(args: Any) -> None:
    """Raises ValueError for numbers out of range, if TRL would not or only later."""
    length = args.max_completion_length
    ranges = {
        "seed": (0 <= args.seed < 2**32, "from 0 to 2**32 - 1"),
        "max_steps": (
            args.max_steps >= 1 or args.max_steps == -1,
            "of at least 1 (or -1 for num_train_epochs)",
        ),
        "num_generations": (args.num_generations >= 2, "of at least 2, to compare"),
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
    for name, (holds, wanted) in ranges.items():
        if not holds:
            raise ValueError(f"want {name} {wanted}, got {getattr(args, name)!r}")
    _check_groups(args.episodes_per_step, args.num_generations, args)


def _check_groups(episodes: int | None, size: int, args: Any) -> None:
    """Raises unless a step has whole groups of episodes."""
    by_hand = args.generation_batch_size or args.steps_per_generation
    if episodes is None or by_hand or episodes % size == 0:
        return  # TRL checks these two options
    below = episodes - episodes % size
    fits = [n for n in (below, below + size) if n]
    raise ValueError(
        f"want episodes_per_step divisible by num_generations ({size}), got {episodes}; "
        f"give --episodes_per_step {' or '.join(map(str, fits))}"
    )


def refuse_what_is_not_supported(args: Any) -> None:
    """Raises ValueError for options of TRL that rollouts or credit would ignore."""
    untested = "its rollouts have not been tested with it"
    bypassed = "advantages come from credit; see credit_args and part_weights"
    refused = {
        "use_transformers_continuous_batching": (
            args.use_transformers_continuous_batching,
            untested,
        ),
        "use_vllm in sharded training": (
            args.use_vllm and args.vllm_mode == "colocate" and splits_weights(args),
            "an engine in the training process has not been tested with it",
        ),
        "generation_kwargs": (bool(args.generation_kwargs), untested),
        "cache_implementation": (args.cache_implementation is not None, untested),
        "scale_rewards": (args.scale_rewards != "group", bypassed),
        "reward_weights": (args.reward_weights is not None, bypassed),
        "multi_objective_aggregation": (
            args.multi_objective_aggregation != "sum_then_normalize",
            bypassed,
        ),
    }
    for name, (used, reason) in refused.items():
        if used:
            raise ValueError(
                f"TurnGRPOTrainer does not support {name}: {reason}; leave it out"
            )
    check_engine(args)


def splits_weights(args: Any) -> bool:
    """Whether the run was started under FSDP or DeepSpeed's ZeRO-3."""
    if args.fsdp or os.environ.get("ACCELERATE_USE_FSDP") == "true":
        return True
    if not args.deepspeed and os.environ.get("ACCELERATE_USE_DEEPSPEED") != "true":
        return False
    # takes seconds
    from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

    return bool(is_deepspeed_zero3_enabled())


def refuse_warm_start(args: Any) -> None:
    """Raises ValueError under FSDP or DeepSpeed, where supervised starts are untested."""
    if splits_weights(args) or os.environ.get("ACCELERATE_USE_DEEPSPEED") == "true":
        raise ValueError(
            "want warm_start_steps 0 under FSDP or DeepSpeed: the supervised start has not "
            "been tested with it; run it before, with arena train --max_steps 1 and no "
            "accelerate, and give the folder start/ of that run as --model with "
            "--warm_start_steps 0"
        )


def refuse_saving_between_generations(args: Any) -> None:
    """Raises if a checkpoint, which saves no generation batch, could fall inside one."""
    saves = args.save_strategy == "steps" and args.save_steps >= 1
    if saves and args.save_steps % args.window:
        raise ValueError(
            f"want save_steps divisible by {args.window} (the optimizer steps that share a "
            f"generation batch), got {args.save_steps}"
        )


def check_critic(critic: str | None, options: Mapping[str, Any]) -> None:
    """Raises ValueError for options that a critic does not have."""
    _check_known(options, ("hidden_size", "learning_rate", "num_steps"))
    if critic is None and options:
        raise ValueError(
            f"want critic_args only with a critic, got {dict(options)!r}; set "
            "critic='features'"
        )
    if critic == "exact" and options:
        raise ValueError(
            f"critic='exact' has no options, got {dict(options)!r}; leave critic_args out"
        )


def _check_known(options: Iterable[str], known: Sequence[str]) -> None:
    for option in options:
        if option not in known:
            raise ValueError(
                f"critic has no option {option!r}; {did_you_mean(str(option), known)}"
            )
