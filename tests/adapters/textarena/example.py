"""TextArena's loop on a game of ours, and our `play` on a game of TextArena's."""

import textarena

from arena_envs import GameEnv
from arena_wrappers import play
from arena_wrappers.adapters.textarena import from_textarena


def main() -> tuple[dict[int, float], list[float]]:
    """Rewards of our game there, and returns of their game here."""
    env, done = textarena.make("arena/kuhn_poker-v0"), False
    env.reset(num_players=2, seed=0)
    while not done:
        _, text = env.get_observation()
        done, _ = env.step("[bet]" if "hold K" in text else "[pass]")
    rewards, _ = env.close()
    theirs = from_textarena("TicTacToe-v0")
    (episode,) = play(lambda: GameEnv(theirs), "random", [0])
    return rewards, list(episode.returns)


if __name__ == "__main__":
    print(*main())
