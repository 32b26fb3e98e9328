"""The learning side: credit, the language-model policy, the trainer, evaluation.

`arena_trainers.credit` needs no extra. `arena_trainers.evaluate` and
`arena_trainers.tournament` need the extra `eval`, which the extra `train` includes. The names
of this module need `train`; each is imported when it is first used.
"""

import importlib
from typing import TYPE_CHECKING, Any

from arena_envs.doors import missing_extra

if TYPE_CHECKING:
    from arena_trainers.lm.policy import LMPolicy
    from arena_trainers.train.config import TurnGRPOConfig
    from arena_trainers.train.trainer import TurnGRPOTrainer

__all__ = ["LMPolicy", "TurnGRPOConfig", "TurnGRPOTrainer"]

_MODULES = {
    "LMPolicy": "arena_trainers.lm.policy",
    "TurnGRPOConfig": "arena_trainers.train.config",
    "TurnGRPOTrainer": "arena_trainers.train.trainer",
}


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        return getattr(importlib.import_module(_MODULES[name]), name)
    except ModuleNotFoundError as error:
        raise missing_extra(error) from error
