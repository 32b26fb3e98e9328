"""What `TurnGRPOConfig` refuses: numbers out of range, and settings that are not supported."""

import math
import os
from typing import Any

ABSOLUTE_POSITIONS = ("gpt2", "gpt_neo", "gpt_bigcode", "opt", "codegen")
LOSS_TYPES = ("grpo", "bnpo", "dr_grpo", "dapo", "cispo", "sapo", "luspo", "vespo")


def check_ranges(args: Any) -> None:
    """Holds numbers to their ranges where a mistake would show late or never."""
    length = args.max_completion_length
    ranges = {
        "seed": (0 <= args.seed < 2**32, "from 0 to 2**32 - 1"),
        "temperature": (0 < args.temperature < math.inf, "above 0"),
        "top_p": (0 < args.top_p <= 1, "above 0 and at most 1"),
        "learning_rate": (0 <= args.learning_rate < math.inf, "of at least 0"),
        "max_completion_length": (length is None or length >= 1, "of at least 1"),
        "num_starts": (args.num_starts is None or args.num_starts >= 1, "above 0"),
        "rollout_batch_size": (
            args.rollout_batch_size is None or args.rollout_batch_size >= 1,
            "above 0",
        ),
        "loss_type": (args.loss_type in LOSS_TYPES, f"from {LOSS_TYPES}"),
    }
    for name, (holds, wanted) in ranges.items():
        if not holds:
            raise ValueError(f"want {name} {wanted}, got {getattr(args, name)!r}")


def refuse_what_is_not_supported(args: Any) -> None:
    """Refuses options of TRL that rollouts or credit would pass over."""
    deepspeed = getattr(args, "hf_deepspeed_config", None)  # set where it is used
    untested = "its rollouts have not been tested with it"
    bypassed = "advantages come from credit; see credit_args and part_weights"
    refused = {
        "use_vllm": (args.use_vllm, untested),
        "use_transformers_continuous_batching": (
            args.use_transformers_continuous_batching,
            untested,
        ),
        "fsdp": (
            bool(args.fsdp) or os.environ.get("ACCELERATE_USE_FSDP") == "true",
            untested,
        ),
        "deepspeed stage 3": (
            deepspeed is not None and deepspeed.is_zero3(),
            untested,
        ),
        "min_p": (bool(args.min_p), untested),
        "repetition_penalty": (args.repetition_penalty != 1.0, untested),
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
            raise ValueError(f"TurnGRPOTrainer does not support {name}: {reason}")


def refuse_absolute_positions(model_type: str) -> None:
    """Refuses models whose positions the loss would get wrong."""
    if model_type in ABSOLUTE_POSITIONS:
        raise ValueError(
            f"TurnGRPOTrainer does not support {model_type}: TRL's loss shifts its "
            "absolute positions by the padding"
        )


def refuse_saving_between_generations(args: Any) -> None:
    """A generation batch is not in a checkpoint, so none may be in use at one."""
    window = round(1 / min(args.generations_per_step, 1.0))
    saves = args.save_strategy == "steps" and args.save_steps >= 1
    if saves and args.save_steps % window:
        raise ValueError(
            f"want save_steps divisible by {window}, the optimizer steps that share a "
            f"generation batch, got {args.save_steps}"
        )
