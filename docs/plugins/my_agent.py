"""An agent: a policy whose turn takes several calls of models.

- **Protocol**: a generator function of a `TurnView` (what the seat sees, and its earlier turns)
  and options. It yields `Ask`s, one or a list, gets `Generation`s alike, and returns a `Reply`.
- **Name**: `agent:NAME(POLICY)` or `agent:NAME(role=POLICY, ...)`; the group is `arena.agents`.
  `arena_wrappers.policies.agents` lists those built in.
- **Scorers** rate replies for `candidates`, `verify` and `best_of`: `critic:RUN`, `judge`,
  `legal`, `reward:PATH`, `rollouts:16`, `solver`, or a name of the group `arena.scorers`. A
  judge may obey a reply that asks for a high grade.
- **Check**: play a game. With `on_error="lose"` an agent that raises, or asks more than 64
  times, loses the episode. `Turn.generations` records each call.
- **Training**: `--agent my_agent:critic` ([roles](tasks.md#several-learners)).
"""

from arena_wrappers import AgentPolicy, Ask, RandomPolicy, Reply, play
from arena_wrappers.policies import add_instruction, quoted_reply, roles


@roles("actor", "critic")
def critic(view):
    """The critic reads a first move; the actor then moves."""
    first = yield Ask("actor", view.messages)
    instruction = f"Criticise this move in a line: {quoted_reply(first.text)}"
    prompt = add_instruction(instruction, view.messages)
    criticism = yield Ask("critic", prompt, parent=first)
    prompt = add_instruction(quoted_reply(criticism.text), view.messages)
    move = yield Ask("actor", prompt, parent=criticism)
    return Reply(move.text)


def test_every_turn_has_three_calls():
    policies = [AgentPolicy(critic, RandomPolicy()), "random"]
    (episode,) = play("kuhn_poker", policies, [3], on_error="raise")
    assert [len(turn.generations) for turn in episode.turns if turn.seat == 0] == [3]
