"""A run of `arena train`: self-play, rows, or rounds, as stages over one run folder.

The names of this module are imported when they are first used.
"""

from typing import TYPE_CHECKING

from arena_trainers.extras import lazy_names

if TYPE_CHECKING:
    from arena_trainers.runs.checks.preflight import check_policies
    from arena_trainers.runs.results.close import closing_lines, read_metrics
    from arena_trainers.runs.rounds import RoundError, Rounds, checked
    from arena_trainers.runs.self_play import SelfPlay
    from arena_trainers.runs.settings import (
        JobConfig,
        build_configs,
        load_recipe,
        overridden,
        read_loop,
        recipes,
    )
    from arena_trainers.runs.start import tiny_model, tiny_tokenizer, words_of
    from arena_trainers.runs.watch import NASH_CONV, read_best, training_groups

__all__ = [
    "NASH_CONV",
    "JobConfig",
    "RoundError",
    "Rounds",
    "SelfPlay",
    "build_configs",
    "check_policies",
    "checked",
    "closing_lines",
    "load_recipe",
    "overridden",
    "read_best",
    "read_loop",
    "read_metrics",
    "recipes",
    "tiny_model",
    "tiny_tokenizer",
    "training_groups",
    "words_of",
]

__getattr__ = lazy_names(__name__, __file__)
