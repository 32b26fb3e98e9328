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

from arena_envs.game import InfosetKey as InfosetKey
from arena_envs.solvers.cfr import CFR as CFR
from arena_envs.solvers.cfr import MCCFR as MCCFR
from arena_envs.solvers.cfr import CFRPlus as CFRPlus
from arena_envs.solvers.enumeration import MAX_STATES as MAX_STATES
from arena_envs.solvers.enumeration import InfosetTable as InfosetTable
from arena_envs.solvers.enumeration import TooLarge as TooLarge
from arena_envs.solvers.enumeration import refuse_hopeless as refuse_hopeless
from arena_envs.solvers.equilibria import JointPolicy as JointPolicy
from arena_envs.solvers.equilibria import MatrixSolution as MatrixSolution
from arena_envs.solvers.equilibria import MixedEquilibrium as MixedEquilibrium
from arena_envs.solvers.equilibria import ZeroSumSolution as ZeroSumSolution
from arena_envs.solvers.equilibria import (
    iterated_best_response as iterated_best_response,
)
from arena_envs.solvers.equilibria import mixed_equilibria as mixed_equilibria
from arena_envs.solvers.equilibria import normal_form as normal_form
from arena_envs.solvers.equilibria import optimal_joint_policy as optimal_joint_policy
from arena_envs.solvers.equilibria import pure_equilibria as pure_equilibria
from arena_envs.solvers.equilibria import solve_matrix as solve_matrix
from arena_envs.solvers.equilibria import solve_zero_sum as solve_zero_sum
from arena_envs.solvers.perfect_information import (
    PerfectInformation as PerfectInformation,
)
from arena_envs.solvers.perfect_information import Solution as Solution
from arena_envs.solvers.perfect_information import minimax as minimax
from arena_envs.solvers.tabular import BestResponse as BestResponse
from arena_envs.solvers.tabular import action_values as action_values
from arena_envs.solvers.tabular import best_response as best_response
from arena_envs.solvers.tabular import best_response_value as best_response_value
from arena_envs.solvers.tabular import complete_table as complete_table
from arena_envs.solvers.tabular import expected_returns as expected_returns
from arena_envs.solvers.tabular import exploitability as exploitability
from arena_envs.solvers.tabular import information_states as information_states
from arena_envs.solvers.tabular import nash_conv as nash_conv
from arena_envs.solvers.tabular import uniform_table as uniform_table
