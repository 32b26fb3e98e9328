"""Examples for supervised training, made by play; episodes as data sets and back."""

from arena_trainers.data.examples import (
    Example,
    FixedRandomBot,
    examples_of,
    legal_play,
    solver_replies,
)
from arena_trainers.data.turn_rows import from_dataset, to_dataset

__all__ = [
    "Example",
    "FixedRandomBot",
    "examples_of",
    "from_dataset",
    "legal_play",
    "solver_replies",
    "to_dataset",
]
