"""Curricula by name: those of this package, and those of other distributions."""

from collections.abc import Mapping
from typing import Any

from arena_trainers.curricula.band import Band
from arena_trainers.curricula.horizon import Horizon
from arena_trainers.curricula.protocol import Curriculum
from arena_trainers.curricula.stages import Stages
from arena_trainers.curricula.weights import Weights
from arena_trainers.extras import PlugIns

KEY = "curriculum"  # of a mapping: the name; the other keys are its options
_KNOWN: PlugIns[Curriculum] = PlugIns(
    "curriculum",
    "arena.curricula",
    {"band": Band, "horizon": Horizon, "stages": Stages, "weights": Weights},
)


def names() -> list[str]:
    """Names of all curricula; a built-in hides a plug-in of its name."""
    return _KNOWN.names()


def make_curriculum(spec: str | Mapping[str, Any]) -> Curriculum:
    """The curriculum of a name, or of a mapping with its name and options.

    Args:
        spec: a name, or `{"curriculum": NAME, ...}` with options.

    Raises:
        ValueError: an unknown curriculum or option, or an option out of range.
        ImportError: the curriculum's plug-in cannot be imported.

    >>> curriculum = make_curriculum({"curriculum": "horizon", "horizons": [4, None]})
    >>> curriculum.propose(0, None), curriculum.propose(100, None)
    (Task(game=None, max_turns=4), Task(game=None, max_turns=None))
    """
    options = {KEY: spec} if isinstance(spec, str) else spec
    name = options.get(KEY) if isinstance(options, Mapping) else None
    if not isinstance(name, str):
        raise ValueError(
            f"want a curriculum as a name or a mapping with the key {KEY!r}, got {spec!r}; "
            "write {curriculum: horizon, horizons: [4, 8, null]}"
        )
    given = {key: value for key, value in options.items() if key != KEY}
    return _KNOWN.make(name, given)
