"""DQN learns tic-tac-toe against random play with Tianshou's own PettingZoo wrapper."""

import numpy as np
import torch
from tianshou.algorithm import (
    DQN,
    MARLRandomDiscreteMaskedOffPolicyAlgorithm,
    MultiAgentOffPolicyAlgorithm,
)
from tianshou.algorithm.modelfree.dqn import DiscreteQLearningPolicy
from tianshou.algorithm.optim import AdamOptimizerFactory
from tianshou.data import Collector, VectorReplayBuffer
from tianshou.env import DummyVectorEnv
from tianshou.env.pettingzoo_env import PettingZooEnv
from tianshou.trainer import OffPolicyTrainerParams
from tianshou.utils.net.common import Net

import arena_envs


def make() -> PettingZooEnv:
    return PettingZooEnv(arena_envs.make("tic_tac_toe", observation="features"))


def main(num_steps: int = 3000) -> tuple[float, float]:
    """Mean return of player_0 before and after."""
    torch.manual_seed(0)
    np.random.seed(0)  # Tianshou samples with numpy's global generator
    env = make()
    space, played = env.observation_space["observation"], env.action_space
    net = Net(state_shape=space.shape, action_shape=played.n, hidden_sizes=[128, 128])
    policy = DiscreteQLearningPolicy(
        model=net, action_space=played, eps_training=0.1, eps_inference=0.0
    )
    dqn = DQN(
        policy=policy, optim=AdamOptimizerFactory(lr=1e-3), target_update_freq=200
    )
    other = MARLRandomDiscreteMaskedOffPolicyAlgorithm(played)
    both = MultiAgentOffPolicyAlgorithm(algorithms=[dqn, other], env=env)
    buffer = VectorReplayBuffer(20_000, 8)
    train = Collector(both, DummyVectorEnv([make] * 8), buffer, exploration_noise=True)
    test = Collector(both, DummyVectorEnv([make] * 8))

    def mean_return() -> float:
        test.reset()
        return float(test.collect(n_episode=200).returns[:, 0].mean())

    before = mean_return()
    train.reset()
    train.collect(n_step=512)
    both.run_training(
        OffPolicyTrainerParams(
            training_collector=train,
            max_epochs=1,
            epoch_num_steps=num_steps,
            collection_step_num_env_steps=64,
            batch_size=64,
            update_step_num_gradient_steps_per_sample=0.3,
            multi_agent_return_reduction=lambda returns: returns[:, 0],
            show_progress=False,
        )
    )
    return before, mean_return()


if __name__ == "__main__":
    print("mean return before and after: {:.2f}, {:.2f}".format(*main()))
