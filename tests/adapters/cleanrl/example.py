"""Masked REINFORCE in one file, as CleanRL writes it, on 16 environments at once."""

import gymnasium
import numpy as np
import torch


def main(num_updates: int = 150) -> tuple[float, float]:
    """Mean return against random play in the first and in the last ten updates."""
    torch.manual_seed(0)
    same_step = {"autoreset_mode": gymnasium.vector.AutoresetMode.SAME_STEP}
    game = "arena_envs:arena/TicTacToe-v0"
    envs = gymnasium.make_vec(game, num_envs=16, vector_kwargs=same_step)
    seen, _ = envs.reset(seed=0)
    sizes = seen["observation"].shape[1], seen["action_mask"].shape[1]
    layers = (
        torch.nn.Linear(sizes[0], 64),
        torch.nn.ReLU(),
        torch.nn.Linear(64, sizes[1]),
    )
    net, means = torch.nn.Sequential(*layers), []
    optimizer = torch.optim.Adam(net.parameters(), lr=3e-3)
    for _ in range(num_updates):
        logps, paid, going_on = [], [], []
        for _ in range(32):
            logits = net(torch.as_tensor(seen["observation"]))
            illegal = torch.as_tensor(seen["action_mask"] == 0)
            policy = torch.distributions.Categorical(
                logits=logits.masked_fill(illegal, -1e9)
            )
            action = policy.sample()
            seen, reward, ended, cut, _ = envs.step(action.numpy())
            logps.append(policy.log_prob(action))
            paid.append(reward)
            going_on.append(~(ended | cut))
        to_go = [np.zeros(16)]
        for reward, more in zip(paid[::-1], going_on[::-1], strict=True):
            to_go.append(reward + more * to_go[-1])
        gain = torch.as_tensor(np.array(to_go[:0:-1]), dtype=torch.float32)
        loss = -((gain - gain.mean()) * torch.stack(logps)).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        means.append(np.sum(paid) / (~np.array(going_on)).sum())
    return float(np.mean(means[:10])), float(np.mean(means[-10:]))


if __name__ == "__main__":
    print("mean return at the start and at the end: {:.2f}, {:.2f}".format(*main()))
