"""Evaluation of policies.

| Name | Result |
|---|---|
| `evaluate` | mean returns against named opponents in every seat, on fixed seeds, with 95 % intervals and the game's baselines |
| `exploitability` | exact NashConv, in games that can be enumerated |
| `sampled_exploitability` | an estimate of NashConv, for policies that can only be sampled |

The intervals of `evaluate` need scipy (extra `eval`).
"""

from arena_eval.exploit import Exploitability as Exploitability
from arena_eval.exploit import (
    SampledExploitability as SampledExploitability,
)
from arena_eval.exploit import exploitability as exploitability
from arena_eval.exploit import legal_rate as legal_rate
from arena_eval.exploit import (
    sampled_exploitability as sampled_exploitability,
)
from arena_eval.exploit import tabular as tabular
from arena_eval.matches import Evaluation as Evaluation
from arena_eval.matches import EvaluationPlan as EvaluationPlan
from arena_eval.matches import evaluate as evaluate
from arena_eval.result_rows import ResultRow as ResultRow
