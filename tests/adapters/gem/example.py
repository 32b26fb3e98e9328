"""Random play in GEM: a vector of games whose observations hold the whole conversation."""

from functools import partial

import gem
from gem.wrappers.observation_wrapper import ObservationWrapper

import arena_wrappers.adapters.gem  # noqa: F401  # registers the games


def main(num_steps: int = 300) -> list[float]:
    """The reward of each episode's last step."""
    joined = partial(ObservationWrapper, include_chat_template=False)
    envs = gem.make_vec(["arena:tic_tac_toe-v0"] * 4, wrappers=[joined], seed=0)
    envs.reset()
    rewards = []
    for _ in range(num_steps):
        replies = [env.unwrapped.sample_random_action() for env in envs.envs]
        _, reward, terminated, _, _ = envs.step(replies)
        rewards.extend(reward[terminated].tolist())
    return rewards


if __name__ == "__main__":
    print("rewards:", main())
