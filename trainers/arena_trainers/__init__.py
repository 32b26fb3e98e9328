"""The learning side: credit, the language-model policy, the trainer, evaluation.

`arena_credit` needs no extra. `arena_eval` and
`arena_eval.tournament` need the extra `eval`, which the extra `train` includes. The names
of this module need `train`; each is imported when it is first used.
"""

from typing import TYPE_CHECKING

from arena_envs.extras import lazy_names

if TYPE_CHECKING:
    from arena_trainers.lm.policy import LMPolicy as LMPolicy
    from arena_trainers.train.config import TurnGRPOConfig as TurnGRPOConfig
    from arena_trainers.train.trainer import TurnGRPOTrainer as TurnGRPOTrainer


__getattr__ = lazy_names(__name__, __file__)
