"""Parts of the reward, by name, with weights by step or multipliers that keep a limit.

A reward is `def reward(episode, turn, state, game, **options) -> float`, called for each turn that
learns, with the state before it. The last call of an agent's turn gets it. To pay each call its own part, a
reward is `def reward(calls, **options) -> list[float]`, called once for all `Call`s of a batch.

In the option `rewards` the name of a reward becomes a part of the reward:

| entry | meaning |
|---|---|
| `weight`, `over`, `until` | see `arena_trainers.options.Weight` |
| `at_most` or `at_least`, `rate` | in place of a weight: a limit of the mean over turns, m, and a step size |
| others | options of the reward |

With a limit b the weight is -λ for `at_most`, λ for `at_least`. The mean is over turns, of what all calls of
a turn are paid. After each batch that is trained

    λ ← max(0, λ + rate (m - b)),   or with b - m for `at_least`,   from λ = 0

| reward | pays | optimum of the game |
|---|---|---|
| `milestones` | Φ' - Φ, Φ the game's `progress`, 0 at the end | kept: the sum of a seat depends on its first state alone |
| `milestones` with `potential: false` | the same, with Φ of the last state | may change |
| `belief_gain` | Φ' - Φ, Φ the log-probability of the hidden card by the exact posterior | kept |
| `partner_gain` | V' - V, V what the others can expect, and get at the end | may change: the sum has their return |
| `expert_match` | 1 for what the solver would play | may change |
| `length` | each call: its tokens; with `role` the calls of this role alone, the cost of a plan | may change |
| `judge` | each call: the grade of a policy, from 0 to 1; `role` as for `length` | may change |

*Kept*: whatever the others play, a seat's best policies are those of the game, and so are the equilibria
(https://eprints.whiterose.ac.uk/id/eprint/75111), but for truncated episodes. In games of secrets
`milestones: {of: information}` pays what a guess tells.
"""

from arena_trainers.rewards.by_name import NUM_TRIED as NUM_TRIED
from arena_trainers.rewards.by_name import Part as Part
from arena_trainers.rewards.by_name import parts_of as parts_of
from arena_trainers.rewards.by_name import rewards as rewards
from arena_trainers.rewards.calls import Call as Call
from arena_trainers.rewards.calls import calls_of as calls_of
from arena_trainers.rewards.calls import reads_calls as reads_calls
from arena_trainers.rewards.expert import expert_match as expert_match
from arena_trainers.rewards.judged import judge as judge
from arena_trainers.rewards.progress import milestones as milestones
from arena_trainers.rewards.testing import check_reward as check_reward
from arena_trainers.rewards.tokens import length as length
