"""Masked REINFORCE in one file, as CleanRL writes it, on 16 environments at once."""

import tempfile
from typing import Any

import gymnasium
import numpy as np
import torch

from arena_envs import make_game
from arena_eval import exploitability
from arena_wrappers import make_policy


class Agent(torch.nn.Module):
    """The actor of CleanRL's `ppo.py`."""

    def __init__(self, envs: Any) -> None:
        super().__init__()
        sizes = envs.single_observation_space.shape[0], envs.single_action_space.n
        first, last = torch.nn.Linear(sizes[0], 64), torch.nn.Linear(64, sizes[1])
        self.actor = torch.nn.Sequential(first, torch.nn.Tanh(), last)


def learn(game: str, num_updates: int, **options: str) -> tuple[Agent, list[float]]:
    """The agent, and the mean return in each update."""
    torch.manual_seed(0)
    same_step = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
    options = {"observation": "array", **options}
    envs = gymnasium.make_vec(game, 16, vector_kwargs=same_step, **options)
    (seen, info), agent, means = envs.reset(seed=0), Agent(envs), []
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-3)
    for _ in range(num_updates):
        logps, entropy, paid, going_on = [], [], [], []
        for _ in range(32):
            illegal = torch.as_tensor(info["action_mask"] == 0)
            logits = agent.actor(torch.as_tensor(seen)).masked_fill(illegal, -1e9)
            policy = torch.distributions.Categorical(logits=logits)
            action = policy.sample()
            seen, reward, ended, cut, info = envs.step(action.numpy())
            logps.append(policy.log_prob(action))
            entropy.append(policy.entropy())
            paid.append(reward)
            going_on.append(~(ended | cut))
        to_go = [np.zeros(16)]
        for reward, more in zip(paid[::-1], going_on[::-1], strict=True):
            to_go.append(reward + more * to_go[-1])
        gain = torch.as_tensor(np.array(to_go[:0:-1]), dtype=torch.float32)
        loss = -((gain - gain.mean()) * torch.stack(logps)).mean()
        optimizer.zero_grad()
        (loss - 0.05 * torch.stack(entropy).mean()).backward()
        optimizer.step()
        means.append(np.sum(paid) / (~np.array(going_on)).sum())
    return agent, means


def main(num_updates: int = 150) -> tuple[float, float]:
    """Mean return against random play in the first and in the last ten updates."""
    means = learn("arena_envs:arena/TicTacToe-v0", num_updates)[1]
    return float(np.mean(means[:10])), float(np.mean(means[-10:]))


def nash_conv(num_updates: int) -> float:
    """Exact NashConv of an agent that learned both seats of Kuhn poker against CFR."""
    seats = {"seat": "random", "opponents": "cfr"}
    agent, _ = learn("arena_envs:arena/KuhnPoker-v0", num_updates, **seats)
    with tempfile.NamedTemporaryFile() as file:
        torch.save(agent.state_dict(), file.name)  # as `ppo.py` saves an agent
        policy = make_policy(f"array:cleanrl:{file.name}")
        return exploitability(policy, make_game("kuhn_poker")).nash_conv


if __name__ == "__main__":
    print("mean return at the start and at the end: {:.2f}, {:.2f}".format(*main()))
    print("NashConv after 0 and 100 updates:", nash_conv(0), nash_conv(100))
