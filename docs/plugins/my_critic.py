"""A critic.

- **Protocol**: `arena_trainers.train.critics.Critic`: a class, which gets those of `games`,
  `discount`, `seed`, `seats`, `options` (of prompts), `weight` and `trainer` that it names; its
  other arguments are options. `supplies` names its columns (default `value` and `next_value`),
  `reads` what records shall hold, such as `features`.
- **Name**: `critic: my_critic:MyCritic`, with `critic_args`; the group is `arena.critics`.
- **Check**: `check_critic`.
"""

from dataclasses import replace

import numpy as np

from arena_trainers.train import check_critic


class MyCritic:
    """The value of every turn is the mean reward of a turn so far."""

    def __init__(self, games, *, start=0.0):
        self.known = [start]

    def with_values(self, batch, records):
        value = np.full(len(records), np.mean(self.known))
        return replace(batch, value=value, next_value=value)

    def after(self, batch, records, trains):
        self.known += batch.reward.tolist() if trains else []
        return {"arena/known": float(len(self.known))}

    def state_dict(self):
        return {"known": self.known}

    def load_state_dict(self, state):
        self.known = list(state["known"])


def test_my_critic_keeps_its_promises():
    check_critic(MyCritic, start=0.5)
