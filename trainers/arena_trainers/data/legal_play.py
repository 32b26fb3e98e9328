"""Episodes of random legal play, which teach a model the format of replies."""

import random
from collections.abc import Sequence
from typing import Any

from arena_envs.game import AnyGame
from arena_wrappers import BotPolicy, Episode, EpisodePlan, play_plans
from arena_wrappers.play import EnvFn


class FixedRandomBot:
    """Plays legal actions with probabilities that are fixed at random per information state.

    The probabilities are half uniform, half drawn from the simplex. Play that differs
    between information states teaches a model to read its prompt. It says nothing about
    which actions are good.

    Args:
        seed: of the probabilities.
    """

    def __init__(self, seed: int) -> None:
        self.seed = seed

    def __call__(self, game: AnyGame, state: Any, rng: random.Random) -> Any:
        seat, legal = game.current_player(state), game.legal_actions(state)
        own = random.Random(
            f"{self.seed} {seat} {game.information_state(state, seat)!r}"
        )
        weights = [own.expovariate(1.0) for _ in legal]
        total = sum(weights)
        chances = [0.5 / len(legal) + 0.5 * w / total for w in weights]
        return rng.choices(legal, chances)[0]


def legal_play(
    env_fns: Sequence[EnvFn],
    num_episodes: int,
    seed: int,
    *,
    uniform: bool = False,
) -> list[Episode]:
    """Episodes of random legal play, spread evenly over the environments.

    Args:
        env_fns: make the environments.
        num_episodes: of all environments together.
        seed: of the episodes and of the bot.
        uniform: whether every legal action is equally likely, or `FixedRandomBot` plays.
    """
    bot = _uniform if uniform else FixedRandomBot(seed)
    policy = BotPolicy(bot, name="uniform" if uniform else "fixed_random")
    return play_plans(
        plans(env_fns, policy, num_episodes, seed), batch_size=256, on_error="raise"
    )


def plans(
    env_fns: Sequence[EnvFn], policy: Any, num_episodes: int, seed: int
) -> list[EpisodePlan]:
    """Plans of episodes in which one policy plays all seats."""
    num_players = [len(env_fn().possible_agents) for env_fn in env_fns]
    return [
        EpisodePlan(
            env_fns[i % len(env_fns)],
            [policy] * num_players[i % len(env_fns)],
            seed * num_episodes + i,
        )
        for i in range(num_episodes)
    ]


def _uniform(game: AnyGame, state: Any, rng: random.Random) -> Any:
    return rng.choice(game.legal_actions(state))
