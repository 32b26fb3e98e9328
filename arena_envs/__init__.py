"""Cooperative and competitive text games as standard PettingZoo AEC environments.

>>> import arena_envs
>>> env = arena_envs.make("kuhn_poker")
>>> env.reset(seed=1)
>>> env.legal_actions()
(0, 1)
"""

from arena_envs.env import GameEnv
from arena_envs.game import CHANCE, TERMINAL, BaseGame, Game, IllegalAction
from arena_envs.registration import GameInfo, game_infos, make, make_game, register

__all__ = [
    "CHANCE",
    "TERMINAL",
    "BaseGame",
    "Game",
    "GameEnv",
    "GameInfo",
    "IllegalAction",
    "game_infos",
    "make",
    "make_game",
    "register",
]
