"""Cooperative and competitive text games as standard PettingZoo AEC environments.

>>> import arena_envs
>>> env = arena_envs.make("kuhn_poker")
>>> env.reset(seed=1)
>>> env.legal_actions()
(0, 1)
"""

from arena_envs.env import GameEnv
from arena_envs.game import CHANCE, TERMINAL, BaseGame, Game, IllegalAction
from arena_envs.registration import (
    GameInfo,
    games,
    make,
    make_game,
    register,
    register_plugins,
)

__all__ = [
    "CHANCE",
    "TERMINAL",
    "BaseGame",
    "Game",
    "GameEnv",
    "GameInfo",
    "IllegalAction",
    "games",
    "make",
    "make_game",
    "register",
]

register("kuhn_poker-v0", "arena_envs.games.kuhn_poker:KuhnPoker")
register("tic_tac_toe-v0", "arena_envs.games.tic_tac_toe:TicTacToe")
register(
    "mini_hanabi-v0",
    "arena_envs.games.hanabi:Hanabi",
    num_colors=2,
    num_ranks=2,
    hand_size=3,
    max_information_tokens=3,
    max_life_tokens=3,
)
register_plugins()
