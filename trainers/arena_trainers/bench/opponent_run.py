"""A training run of the comparison of opponents, measured as it goes."""

from functools import lru_cache

from arena_trainers.bench.opponents import REFERENCE, SETTINGS, measured, options
from arena_trainers.bench.tiny_runs import (
    Measured,
    Point,
    Start,
    learn_by_grpo,
    make_saved_start,
)


def play(setting: str, name: str, seed: int) -> list[Point]:
    """Trains; the measures at the start and every `every` steps.

    Args:
        setting: a key of `SETTINGS`.
        name: of a variant.
        seed: of the run.
    """
    start = _start(setting, seed)
    points = learn_by_grpo(
        options(setting, name, seed),
        start.folder,
        start.tokenizer,
        SETTINGS[setting].every,
        _measures(setting),
    )
    return [start.point, *points]


@lru_cache(maxsize=2)  # one of each setting
def _start(setting: str, seed: int) -> Start:
    return make_saved_start(options(setting, REFERENCE, seed), _measures(setting))


def _measures(setting: str) -> Measured:
    return lambda policy: measured(policy, setting)
