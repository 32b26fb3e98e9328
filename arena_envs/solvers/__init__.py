"""Exact arithmetic on games small enough to enumerate."""

from arena_envs.solvers.tabular import (
    Table,
    best_response_value,
    expected_returns,
    information_states,
    nash_conv,
    uniform_table,
)

__all__ = [
    "Table",
    "best_response_value",
    "expected_returns",
    "information_states",
    "nash_conv",
    "uniform_table",
]
