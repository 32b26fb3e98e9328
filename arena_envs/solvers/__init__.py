"""Exact arithmetic on games small enough to enumerate."""

from arena_envs.solvers.cfr import CFR, CFRPlus
from arena_envs.solvers.enumeration import MAX_STATES, Key, Table
from arena_envs.solvers.tabular import (
    BestResponse,
    best_response,
    best_response_value,
    complete_table,
    expected_returns,
    exploitability,
    information_states,
    nash_conv,
    uniform_table,
)

__all__ = [
    "CFR",
    "MAX_STATES",
    "BestResponse",
    "CFRPlus",
    "Key",
    "Table",
    "best_response",
    "best_response_value",
    "complete_table",
    "expected_returns",
    "exploitability",
    "information_states",
    "nash_conv",
    "uniform_table",
]
