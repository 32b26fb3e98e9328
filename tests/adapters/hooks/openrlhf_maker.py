"""Prints the advantages of OpenRLHF's experience maker with our hook, for `test_openrlhf.py`."""

import json
from types import SimpleNamespace
from typing import Any

import torch
from openrlhf.trainer.ppo_utils import experience_maker
from openrlhf.trainer.ppo_utils.experience import Experience

from arena_credit.hooks.openrlhf import use

use("mars_loo")
use("mars_loo")  # once more changes nothing
args = SimpleNamespace(
    algo=SimpleNamespace(
        advantage=SimpleNamespace(estimator="reinforce", gamma=1.0, no_std_norm=False)
    ),
    rollout=SimpleNamespace(n_samples_per_prompt=2),
    reward=SimpleNamespace(
        clip_range=None, overlong_buffer_len=None, stop_properly_penalty_coef=None
    ),
)
maker = object.__new__(experience_maker.RemoteExperienceMaker)
maker.strategy = SimpleNamespace(args=args)
maker.advantage_estimator = "reinforce"
maker.kl_ctl = SimpleNamespace(value=0.5)
experience_maker.apply_length_penalties = lambda *_: None


def made(index: int, reward: float, mask: list[int], kl: list[float]) -> Any:
    return Experience(
        index=[index],
        rewards=torch.tensor([reward]),
        action_mask=torch.tensor([mask]),
        kl=torch.tensor([kl]),
        info={},
    )


# the second row of the prompt comes first; its first turn is penalized by 0.5 · 2
experiences = [
    made(1, 1.0, [1, 0, 1, 0], [2.0, 0, 0, 0]),
    made(0, 4.0, [1, 1, 0, 0], [0.0, 0, 0, 0]),
    made(2, 7.0, [1, 0, 0, 0], [0.0, 0, 0, 0]),
    made(3, 7.0, [1, 0, 0, 0], [0.0, 0, 0, 0]),
]
made_again = maker.compute_advantages_and_returns(experiences)
found = [(e.advantages * e.action_mask)[0].tolist() for e in made_again]
print("advantages:", json.dumps(found))
