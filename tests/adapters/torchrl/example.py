"""A masked random rollout of Kuhn poker, one row per turn, in TorchRL."""

import torch
from torchrl.envs import PettingZooWrapper
from torchrl.envs.utils import check_env_specs

import arena_envs
from arena_wrappers.adapters import OpenMasks


def main(num_steps: int = 200) -> torch.Tensor:
    """The return of player_0 in each episode."""
    game = arena_envs.make("kuhn_poker", observation="features")
    env = PettingZooWrapper(OpenMasks(game), use_mask=True, seed=0)
    check_env_specs(env)
    steps = env.rollout(num_steps, break_when_any_done=False)
    paid = steps["next", "player_0", "reward"].flatten().cumsum(0)  # [T]
    paid = paid[steps["next", "done"].flatten()]
    return torch.diff(paid, prepend=torch.zeros(1))


if __name__ == "__main__":
    print("mean return of player_0:", float(main().mean()))
