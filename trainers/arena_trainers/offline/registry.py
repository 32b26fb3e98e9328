"""Trainers by name: those of this project, and those of other distributions."""

from arena_trainers.job.run_folder import SELF_PLAY
from arena_trainers.offline.protocol import RowTrainer
from arena_wrappers.plug_ins import PlugIns


def _sft() -> RowTrainer:
    from arena_trainers.offline.sft import sft

    return sft()


def _dpo() -> RowTrainer:
    from arena_trainers.offline.dpo import dpo

    return dpo()


_KNOWN: PlugIns[RowTrainer] = PlugIns(
    "trainer", "arena.trainers", {"sft": _sft, "dpo": _dpo}
)


def names() -> list[str]:
    """Names of all trainers; `turn_grpo` learns by self-play, the others from rows."""
    return sorted([*_KNOWN.names(), SELF_PLAY])


def check_name(name: str) -> None:
    """Raises ValueError for an unknown trainer."""
    from arena_envs.checks import did_you_mean

    if name not in _KNOWN.names():
        raise ValueError(f"no trainer {name!r}; {did_you_mean(str(name), names())}")


def row_trainer(name: str) -> RowTrainer:
    """The trainer of a name; imports its libraries.

    Raises:
        ValueError: there is no such trainer.
        ImportError: its plug-in cannot be imported.
        TypeError: the plug-in gives something else than a `RowTrainer`.
    """
    check_name(name)
    made = _KNOWN.make(name, {})
    if not isinstance(made, RowTrainer):
        raise TypeError(
            f"trainer {name!r}: want a function that returns a RowTrainer, got {made!r:.60}"
        )
    return made
