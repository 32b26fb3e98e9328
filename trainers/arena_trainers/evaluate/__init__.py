"""How good a policy is, in numbers that can be trusted.

`evaluate` plays a policy against named opponents, every seat, fixed seeds, with confidence
intervals, beside the baselines of the same game. `exploitability` says exactly how much a
policy loses to best responses, in games small enough to enumerate, and
`sampled_exploitability` estimates it for policies that can only be sampled.
`evaluate_suite` follows a published protocol. Intervals of `evaluate` need scipy, which the
extra `eval` brings.
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
