"""AgileRL's DQN learns by its own loop, and comes back as a policy with exact NashConv."""

import numpy as np
import torch
from agilerl.algorithms import DQN
from agilerl.components.replay_buffer import ReplayBuffer
from agilerl.training.train_off_policy import train_off_policy
from agilerl.utils.utils import make_vect_envs

from arena_envs import make_game
from arena_eval import exploitability
from arena_wrappers import ArrayPolicy, play

GAME = "arena_envs:arena/KuhnPoker-v0"


def main(num_steps: int) -> tuple[float, float]:
    """Mean return against random play in seat 0, and NashConv, after training."""
    torch.manual_seed(0)
    np.random.seed(0)
    envs = make_vect_envs(GAME, num_envs=8, observation="array", opponents="random")
    spaces = envs.single_observation_space, envs.single_action_space
    agent = DQN(*spaces, learn_step=4, lr=1e-3, tau=0.01)
    if num_steps:
        memory, sizes = ReplayBuffer(max_size=10_000), {"max_steps": num_steps}
        sizes |= {"evo_steps": num_steps, "eval_steps": 10}
        train_off_policy(envs, GAME, "DQN", [agent], memory, **sizes, verbose=False)
    envs.close()

    def probs(features: np.ndarray, masks: np.ndarray) -> np.ndarray:
        return np.eye(masks.shape[1])[agent.get_action(features, action_mask=masks)]

    policy = ArrayPolicy(probs, "agilerl")
    episodes = play("kuhn_poker", [policy, "random"], range(1000))
    found = exploitability(policy, make_game("kuhn_poker"))
    return sum(e.returns[0] for e in episodes) / len(episodes), found.nash_conv


if __name__ == "__main__":  # its environments are processes of their own
    print("mean return and NashConv before:", *main(0))
    print("and after 8,000 turns:", *main(8000))
