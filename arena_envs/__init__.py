"""Cooperative and competitive text games as standard PettingZoo AEC environments.

>>> import arena_envs
>>> env = arena_envs.make("kuhn_poker")
>>> env.reset(seed=1)
>>> env.legal_actions()
(0, 1)
"""

from typing import TYPE_CHECKING, Any

from arena_envs.game import CHANCE, TERMINAL, BaseGame, Game, IllegalAction
from arena_envs.registration import GameInfo, game_infos, make, make_game, register

if TYPE_CHECKING:
    from arena_envs.env import GameEnv

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


def __getattr__(name: str) -> Any:
    """`GameEnv`, imported when it is first used: rules do without PettingZoo."""
    if name == "GameEnv":
        from arena_envs.env import GameEnv

        return GameEnv
    raise AttributeError(f"module 'arena_envs' has no attribute {name!r}")
