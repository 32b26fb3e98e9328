"""Engines of the model that learns: transformers, vLLM in the process, a vLLM server.

`ENGINES` has an entry for each: a check of its settings and a maker of its backend. This package
imports neither TRL nor torch; `engines.weights`, which sends weights to a server, does.
"""

from arena_trainers.engines.adapters import with_adapters
from arena_trainers.engines.precision import training_dtype
from arena_trainers.engines.settings import (
    ENGINES,
    Engine,
    by_server,
    changes_draws,
    check_engine,
    check_engine_columns,
    check_installed,
    correction_mode,
    engine_backend,
    without_client,
)

__all__ = [
    "ENGINES",
    "Engine",
    "by_server",
    "changes_draws",
    "check_engine",
    "check_engine_columns",
    "check_installed",
    "correction_mode",
    "engine_backend",
    "training_dtype",
    "with_adapters",
    "without_client",
]
