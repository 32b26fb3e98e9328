"""Exact arithmetic on games small enough to enumerate, and learning in larger ones.

| You want                                   | Use                                      |
|--------------------------------------------|------------------------------------------|
| a policy's distance from equilibrium       | `nash_conv`, `exploitability`            |
| a best response to a policy                | `best_response`                          |
| an equilibrium, two players, zero-sum      | `solve_zero_sum`, `CFRPlus`; `MCCFR`     |
| the value of each action under a policy    | `action_values`                          |
| equilibria of a small matrix               | `pure_equilibria`, `mixed_equilibria`    |
| perfect play with perfect information      | `minimax`                                |
| a best policy of a team                    | `optimal_joint_policy`                   |

Solvers that enumerate have a limit, `max_states`. A larger game raises `TooLarge`, a `ValueError`
with the size of the game, as far as it is known, and a solver for it.
"""

from arena_envs.solvers.cfr import CFR, MCCFR, CFRPlus
from arena_envs.solvers.enumeration import (
    MAX_STATES,
    Key,
    Table,
    TooLarge,
    refuse_hopeless,
)
from arena_envs.solvers.linear_program import (
    MatrixSolution,
    ZeroSumSolution,
    solve_matrix,
    solve_zero_sum,
)
from arena_envs.solvers.matrix import (
    JointPolicy,
    MixedEquilibrium,
    iterated_best_response,
    mixed_equilibria,
    normal_form,
    optimal_joint_policy,
    pure_equilibria,
)
from arena_envs.solvers.perfect_information import Minimax, PerfectInformation, minimax
from arena_envs.solvers.tabular import (
    BestResponse,
    action_values,
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
    "MCCFR",
    "BestResponse",
    "CFRPlus",
    "JointPolicy",
    "Key",
    "MatrixSolution",
    "Minimax",
    "MixedEquilibrium",
    "PerfectInformation",
    "Table",
    "TooLarge",
    "ZeroSumSolution",
    "action_values",
    "best_response",
    "best_response_value",
    "complete_table",
    "expected_returns",
    "exploitability",
    "information_states",
    "iterated_best_response",
    "minimax",
    "mixed_equilibria",
    "nash_conv",
    "normal_form",
    "optimal_joint_policy",
    "pure_equilibria",
    "refuse_hopeless",
    "solve_matrix",
    "solve_zero_sum",
    "uniform_table",
]
