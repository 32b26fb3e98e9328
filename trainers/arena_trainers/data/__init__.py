"""Examples for supervised training, made by play."""

from arena_trainers.data.examples import (
    Example,
    FixedRandomBot,
    examples_of,
    legal_play,
    solver_replies,
)

__all__ = [
    "Example",
    "FixedRandomBot",
    "examples_of",
    "legal_play",
    "solver_replies",
]
