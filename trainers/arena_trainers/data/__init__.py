"""Rows for trainers that imitate: what was asked for, and the reply that is to be learned."""

from arena_trainers.data.examples import Example, examples_of
from arena_trainers.data.legal_play import FixedRandomBot, legal_play
from arena_trainers.data.solver_replies import solver_replies
from arena_trainers.data.supervised import supervised_rows

__all__ = [
    "Example",
    "FixedRandomBot",
    "examples_of",
    "legal_play",
    "solver_replies",
    "supervised_rows",
]
