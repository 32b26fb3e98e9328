"""Evaluation of policies.

| Function | Result |
|---|---|
| `evaluate` | mean returns against named opponents in every seat, on fixed seeds, with 95 % intervals and the game's baselines |
| `exploitability` | exact NashConv, in games that can be enumerated |
| `sampled_exploitability` | an estimate of NashConv, for policies that can only be sampled |
| `evaluate_suite` | the scores of a published protocol |

The intervals of `evaluate` need scipy (extra `eval`).
"""

from arena_trainers.evaluate.exploit import (
    Exploitability,
    exploitability,
    legal_rate,
    tabular,
)
from arena_trainers.evaluate.matches import Evaluation, EvaluationPlan, evaluate
from arena_trainers.evaluate.result_rows import Row
from arena_trainers.evaluate.sampled import (
    SampledExploitability,
    sampled_exploitability,
)
from arena_trainers.evaluate.suites import SuiteEvaluation, evaluate_suite

__all__ = [
    "Evaluation",
    "EvaluationPlan",
    "Exploitability",
    "Row",
    "SampledExploitability",
    "SuiteEvaluation",
    "evaluate",
    "evaluate_suite",
    "exploitability",
    "legal_rate",
    "sampled_exploitability",
    "tabular",
]
