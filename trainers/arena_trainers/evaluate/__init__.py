"""Evaluation of policies.

| Name | Result |
|---|---|
| `evaluate` | mean returns against named opponents in every seat, on fixed seeds, with 95 % intervals and the game's baselines |
| `exploitability` | exact NashConv, in games that can be enumerated |
| `sampled_exploitability` | an estimate of NashConv, for policies that can only be sampled |

The intervals of `evaluate` need scipy (extra `eval`).
"""

from arena_trainers.evaluate.exploit import (
    Exploitability,
    SampledExploitability,
    exploitability,
    legal_rate,
    sampled_exploitability,
    tabular,
)
from arena_trainers.evaluate.matches import (
    Evaluation,
    EvaluationPlan,
    evaluate,
)
from arena_trainers.evaluate.result_rows import ResultRow

__all__ = [
    "Evaluation",
    "EvaluationPlan",
    "Exploitability",
    "ResultRow",
    "SampledExploitability",
    "evaluate",
    "exploitability",
    "legal_rate",
    "sampled_exploitability",
    "tabular",
]
