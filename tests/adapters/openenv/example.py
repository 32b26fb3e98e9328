"""Random play in a game behind a server: arena serve openenv kuhn_poker --seat 0"""

import random

from openenv.core import GenericEnvClient


def main(url: str = "http://127.0.0.1:8000", num_episodes=200) -> tuple[float, int]:
    """Mean return, and the number of steps."""
    rng, returns, num_steps = random.Random(0), [], 0
    with GenericEnvClient(base_url=url).sync() as client:
        for seed in range(num_episodes):
            result = client.reset(seed=seed)
            while not result.done:
                legal = result.observation["legal_actions"]
                reply = f"<answer>{rng.choice(legal)}</answer>"
                result = client.step({"text": reply})
                num_steps += 1
            returns.append(result.observation["returns"][0])
    return sum(returns) / num_episodes, num_steps


if __name__ == "__main__":
    print("mean return:", main()[0])
