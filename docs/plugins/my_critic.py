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
        self.rewards = [start]

    def with_values(self, batch, records):
        value = np.full(len(records), np.mean(self.rewards))
        return replace(batch, value=value, next_value=value)

    def after(self, batch, records, trains):
        self.rewards += batch.reward.tolist() if trains else []
        return {"arena/num_rewards": float(len(self.rewards))}

    def state_dict(self):
        return {"rewards": self.rewards}

    def load_state_dict(self, state):
        self.rewards = list(state["rewards"])


def test_my_critic_keeps_its_promises():
    check_critic(MyCritic, start=0.5)
