"""Critics: values of turns or tokens for estimators that read them.

docs/plugins.md lists them.

`arena_trainers.train.critics.registry.critics` is their registry: a critic of yours is a class, which gets the
arguments that it names of `make_critic`, and keeps the promises of `check_critic`.
"""

from typing import TYPE_CHECKING

from arena_envs.extras import lazy_names

if TYPE_CHECKING:
    from arena_trainers.train.critics.check import check_critic as check_critic
    from arena_trainers.train.critics.exact import ExactCritic as ExactCritic
    from arena_trainers.train.critics.features import FeatureCritic as FeatureCritic
    from arena_trainers.train.critics.features import scorer as scorer
    from arena_trainers.train.critics.make import make_critic as make_critic
    from arena_trainers.train.critics.protocol import Critic as Critic
    from arena_trainers.train.critics.tokens import TokenCritic as TokenCritic
    from arena_trainers.train.critics.utterances import (
        UtteranceCritic as UtteranceCritic,
    )


__getattr__ = lazy_names(__name__, __file__)
