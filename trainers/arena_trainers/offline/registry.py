"""Trainers by name: those of this project, and those of other distributions."""

from collections.abc import Callable
from importlib import import_module

from arena_envs.checks import did_you_mean
from arena_trainers.extras import PlugIns
from arena_trainers.job.run_folder import SELF_PLAY
from arena_trainers.offline.protocol import RowTrainer


def _lazily(name: str) -> Callable[[], RowTrainer]:
    """A function that imports TRL when it is called: that takes seconds."""

    def made() -> RowTrainer:
        module = import_module(f"arena_trainers.offline.{name}")
        found: RowTrainer = getattr(module, name)()
        return found

    return made


_KNOWN: PlugIns[RowTrainer] = PlugIns(
    "trainer",
    "arena.trainers",
    {name: _lazily(name) for name in ("dpo", "kto", "reward", "sft")},
)


def names() -> list[str]:
    """Names of all trainers; `turn_grpo` learns by self-play, the others from rows."""
    return sorted([*_KNOWN.names(), SELF_PLAY])


def check_name(name: str) -> None:
    """Raises ValueError for an unknown trainer."""
    if name not in _KNOWN.names():
        raise ValueError(f"no trainer {name!r}; {did_you_mean(str(name), names())}")


def row_trainer(name: str) -> RowTrainer:
    """The trainer of a name; imports its libraries.

    Raises:
        ValueError: there is no such trainer, or its plug-in gives something else.
        ImportError: its plug-in cannot be imported.
    """
    check_name(name)
    made = _KNOWN.make(name, {})
    if not isinstance(made, RowTrainer):
        raise ValueError(
            f"trainer {name!r}: want a function that returns a RowTrainer, got {made!r:.60}"
        )
    return made
