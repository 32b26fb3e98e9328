"""`TurnGRPOTrainer`: settings, rollouts, credit columns, training rows, critics.

The names of this module are imported when they are first used.
"""

from typing import TYPE_CHECKING

from arena_envs.extras import lazy_names

if TYPE_CHECKING:
    from arena_trainers.train.checkpoint import CREDIT_STATE as CREDIT_STATE
    from arena_trainers.train.checkpoint import CRITIC as CRITIC
    from arena_trainers.train.clock import Clock as Clock
    from arena_trainers.train.clock import Meter as Meter
    from arena_trainers.train.columns import RewardColumn as RewardColumn
    from arena_trainers.train.columns import load_functions as load_functions
    from arena_trainers.train.credit_check import check_credit as check_credit
    from arena_trainers.train.critics.check import check_critic as check_critic
    from arena_trainers.train.critics.exact import ExactCritic as ExactCritic
    from arena_trainers.train.critics.exact import (
        check_exact_opponents as check_exact_opponents,
    )
    from arena_trainers.train.critics.features import FeatureCritic as FeatureCritic
    from arena_trainers.train.critics.tokens import TokenCritic as TokenCritic
    from arena_trainers.train.critics.utterances import (
        UtteranceCritic as UtteranceCritic,
    )
    from arena_trainers.train.games import GamePlan as GamePlan
    from arena_trainers.train.matching import MATCHMAKING_FILE as MATCHMAKING_FILE
    from arena_trainers.train.opponent_policies import opponents as opponents
    from arena_trainers.train.records import TurnRecord as TurnRecord
    from arena_trainers.train.records import turn_records as turn_records
    from arena_trainers.train.rows import TrainingRow as TrainingRow
    from arena_trainers.train.rows import loss_weighted as loss_weighted
    from arena_trainers.train.rows import trajectory_rows as trajectory_rows
    from arena_trainers.train.rows import weighted as weighted
    from arena_trainers.train.turn_batches import turn_batch as turn_batch


__getattr__ = lazy_names(__name__, __file__)
