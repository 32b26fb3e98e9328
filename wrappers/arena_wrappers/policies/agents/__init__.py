"""Agents: policies whose turn takes several calls of models, each in a role.

An agent is a generator function. It yields what it asks, gets what was said, and returns the reply:

```
@roles("planner", "worker")
def planner_worker(view: TurnView) -> Asks:
    plan = yield Ask("planner", add_instruction("Plan in one line.", view.messages))
    move = yield Ask("worker", add_instruction(plan.text, view.messages), parent=plan)
    return Reply(move.text)
```

A list of `Ask` gets a list of answers. The agents of a batch advance together: one call per role
and round. An agent keeps nothing between turns but the record of its own earlier turns
(`TurnView.past`), so that branches and resumed runs play alike.

| String | Turn |
|---|---|
| `agent:planner_worker(POLICY)` | a plan in a line, then the move |
| `agent:reflect(POLICY, num_notes=4)` | beliefs and a lesson, then the move; keeps its last notes |
| `agent:candidates(POLICY, num=3, scorer=rollouts:16)` | several proposals; the chooser, or a scorer, picks one |
| `agent:verify(POLICY, tries=3, least=0.5)` | asks again until the judge, or a scorer, is content |
| `agent:debate(POLICY, num=2, rounds=1)` | several debaters read each other; most votes win |
| `agent:tree_search(POLICY, num=3, sims=64)` | several proposals; a search of the game picks one |
| `agent:by_seat(seat_0=POLICY, seat_1=POLICY)` | the move of the seat's policy |
| `agent:tools(POLICY, calls=4)` | may call a calculator, the list of legal moves, and a trial of a move |

| Scorer | Rates a reply by |
|---|---|
| `critic:RUN` | random play to the seat's next turn, and its value by the critic of a run |
| `judge` | a grade from 0 to 1 that the role `judge` writes; other numbers count as 0 |
| `legal` | whether it names a legal action |
| `reward:PATH` | a reward model |
| `rollouts:16` | random play after it |
| `solver` | its value by a solver; `solver(sees_hidden=true)` knows hidden cards, the others do not |

`agent:planner_worker(planner=api:MODEL, worker=lm:PATH)` gives each role its own policy, and
`agent:module:name(POLICY)` is an agent of your own. Where one policy is given, it plays all roles.
"""

from arena_wrappers.policies.agents.built_in import by_seat as by_seat
from arena_wrappers.policies.agents.built_in import candidates as candidates
from arena_wrappers.policies.agents.built_in import debate as debate
from arena_wrappers.policies.agents.built_in import grade_of as grade_of
from arena_wrappers.policies.agents.built_in import grading as grading
from arena_wrappers.policies.agents.built_in import planner_worker as planner_worker
from arena_wrappers.policies.agents.built_in import reflect as reflect
from arena_wrappers.policies.agents.built_in import tree_search as tree_search
from arena_wrappers.policies.agents.built_in import verify as verify
from arena_wrappers.policies.agents.by_name import agent_of as agent_of
from arena_wrappers.policies.agents.by_name import agents as agents
from arena_wrappers.policies.agents.by_name import load as load
from arena_wrappers.policies.agents.policy import AgentPolicy as AgentPolicy
from arena_wrappers.policies.agents.protocol import JUDGE as JUDGE
from arena_wrappers.policies.agents.protocol import MAX_CALLS as MAX_CALLS
from arena_wrappers.policies.agents.protocol import Agent as Agent
from arena_wrappers.policies.agents.protocol import Ask as Ask
from arena_wrappers.policies.agents.protocol import Asks as Asks
from arena_wrappers.policies.agents.protocol import Scorer as Scorer
from arena_wrappers.policies.agents.protocol import TurnView as TurnView
from arena_wrappers.policies.agents.protocol import add_instruction as add_instruction
from arena_wrappers.policies.agents.protocol import fenced as fenced
from arena_wrappers.policies.agents.protocol import quoted_reply as quoted_reply
from arena_wrappers.policies.agents.protocol import roles as roles
from arena_wrappers.policies.agents.scoring import Rollouts as Rollouts
from arena_wrappers.policies.agents.scoring import SolverValues as SolverValues
from arena_wrappers.policies.agents.scoring import legal as legal
from arena_wrappers.policies.agents.scoring import scorers as scorers
from arena_wrappers.policies.agents.tool_use import calculated as calculated
from arena_wrappers.policies.agents.tool_use import tools as tools
