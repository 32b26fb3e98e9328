"""`TurnGRPOTrainer`: settings, rollouts, credit columns, training rows, critics.

The names of this module are imported when they are first used.
"""

from typing import TYPE_CHECKING

from arena_trainers.extras import lazy_names

if TYPE_CHECKING:
    from arena_trainers.train.critics import ExactCritic, FeatureCritic
    from arena_trainers.train.games import GamePlan, opponents
    from arena_trainers.train.matching import MATCHMAKING_FILE, check_exact
    from arena_trainers.train.metrics import Clock, Meter
    from arena_trainers.train.records import (
        RewardColumn,
        TrainingRow,
        TurnRecord,
        load_functions,
        loss_weighted,
        trajectory_rows,
        turn_batch,
        turn_records,
        weighted,
    )
    from arena_trainers.train.saved import CREDIT_STATE, CRITIC
    from arena_trainers.train.settings import check_credit

__all__ = [
    "CREDIT_STATE",
    "CRITIC",
    "MATCHMAKING_FILE",
    "Clock",
    "ExactCritic",
    "FeatureCritic",
    "GamePlan",
    "Meter",
    "RewardColumn",
    "TrainingRow",
    "TurnRecord",
    "check_credit",
    "check_exact",
    "load_functions",
    "loss_weighted",
    "opponents",
    "trajectory_rows",
    "turn_batch",
    "turn_records",
    "weighted",
]

__getattr__ = lazy_names(__name__, __file__)
