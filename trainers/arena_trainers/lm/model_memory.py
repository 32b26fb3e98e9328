"""The memory that learners with whole models take."""

from collections.abc import Mapping
from typing import Any

GIB = 2**30


def whole_memory(args: Any, size: float) -> dict[str, float]:
    """Bytes, by part, of the learners of settings, whole models of `size` bytes."""
    frozen = args.update.get("freeze", ()) if isinstance(args.update, Mapping) else ()
    num, starts = len(args.roles), {*args.learner_starts(None)}
    return {
        "weights": num * size,
        "gradients and AdamW": 3 * (num - len({*frozen})) * size,
        "reference models": args.reads_reference * len(starts) * size,
    }


def check_memory(parts: Mapping[str, float], free: float) -> None:
    """Raises ValueError if parts, in bytes, are more than is free."""
    if (total := sum(parts.values())) > free:
        sizes = ", ".join(f"{part} {size / GIB:.3g}" for part, size in parts.items())
        raise ValueError(
            f"want {total / GIB:.3g} GiB of memory for whole models ({sizes}), got "
            f"{free / GIB:.3g} free; give each role lora_r: 8, or choose a smaller model"
        )
