"""The memory that learners with whole models take."""

from collections.abc import Mapping
from typing import Any, Protocol

GIB = 2**30


class LearnerOptions(Protocol):
    """The settings that say how many learners there are, and which are trained."""

    roles: dict[Any, Any]
    update: Any  # as a file of settings holds it

    @property
    def reads_reference(self) -> bool:
        """Whether the loss reads a reference model."""
        ...

    def learner_starts(self, model: Any) -> list[Any]:
        """What the learners begin as: models of their own, or the given one."""
        ...


def whole_memory(args: LearnerOptions, size: float) -> dict[str, float]:
    """Bytes, by part, of the learners of settings, whole models of `size` bytes."""
    frozen = set()
    if isinstance(args.update, Mapping):
        frozen = set(args.update.get("freeze", ()))
    num_learners = len(args.roles)
    num_references = len(set(args.learner_starts(None))) if args.reads_reference else 0
    return {
        "weights": num_learners * size,
        "gradients and AdamW": 3 * (num_learners - len(frozen)) * size,
        "reference models": num_references * size,
    }


def check_memory(parts: Mapping[str, float], free: float) -> None:
    """Raises ValueError if parts, in bytes, are more than is free."""
    if (total := sum(parts.values())) > free:
        sizes = ", ".join(f"{part} {size / GIB:.3g}" for part, size in parts.items())
        raise ValueError(
            f"want {total / GIB:.3g} GiB of memory for whole models ({sizes}), got "
            f"{free / GIB:.3g} free; give each role lora_r: 8, or choose a smaller model"
        )
