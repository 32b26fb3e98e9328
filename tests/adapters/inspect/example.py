"""Two models play Kuhn poker, and a model plays it against a solver's policy.

inspect eval example.py@self_play --model MODEL --model-role player_1=OTHER_MODEL
inspect eval example.py@against_cfr --model MODEL --epochs 4
"""

from inspect_ai import Task, task

from arena_wrappers.adapters.inspect import game_task


@task
def self_play(num_episodes: int = 20) -> Task:
    return game_task("kuhn_poker", num_episodes=num_episodes)


@task
def against_cfr(num_episodes: int = 20) -> Task:
    return game_task("kuhn_poker", ["model", "cfr"], num_episodes=num_episodes)
