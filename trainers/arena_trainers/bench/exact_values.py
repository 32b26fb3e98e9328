"""Exact values of the policy, for the estimators that need them."""

from dataclasses import replace

import numpy as np

from arena_envs.solvers import action_values, complete_table
from arena_trainers.bench.tabular import Played, TabularPolicy
from arena_trainers.credit import TurnBatch

EXACT = frozenset({"action_value", "rewards.judge"})
ROUNDING = 1e-9  # values that differ by less are equal


def with_exact_values(table: TabularPolicy, played: Played) -> TurnBatch:
    """The batch with the exact values of the policy, in a game that pays at its end.

    Sets the columns `value` and `action_value`, and the part `judge` of the rewards: 1 if
    `action_value` >= `value`, else -1.
    """
    values = action_values(table.game, complete_table(table.game, table.table()))
    worth = np.zeros_like(table.logits)
    legal = np.isfinite(table.logits)
    for key, row in table.rows.items():
        worth[row, legal[row]] = values[key]
    chances = table.probabilities(played.row)
    value = (chances * worth[played.row]).sum(axis=1)
    action_value = worth[played.row, played.action]
    judge = np.where(action_value >= value - ROUNDING, 1.0, -1.0)
    rewards = {**(played.turns.rewards or {}), "judge": judge}
    return replace(
        played.turns, value=value, action_value=action_value, rewards=rewards
    )
