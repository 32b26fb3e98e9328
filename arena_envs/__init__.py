"""Cooperative and competitive text games as standard PettingZoo AEC environments.

>>> import arena_envs
>>> env = arena_envs.make("kuhn_poker")
>>> env.reset(seed=1)
>>> env.legal_actions()
(0, 1)
"""

from typing import TYPE_CHECKING, Any

from arena_envs.game import CHANCE as CHANCE
from arena_envs.game import TERMINAL as TERMINAL
from arena_envs.game import BaseGame as BaseGame
from arena_envs.game import Game as Game
from arena_envs.game import IllegalAction as IllegalAction
from arena_envs.registration import GameInfo as GameInfo
from arena_envs.registration import game_infos as game_infos
from arena_envs.registration import make as make
from arena_envs.registration import make_game as make_game
from arena_envs.registration import missing_games as missing_games
from arena_envs.registration import register as register

if TYPE_CHECKING:
    from arena_envs.env import GameEnv as GameEnv


def __getattr__(name: str) -> Any:
    """`GameEnv`, imported when it is first used: rules do without PettingZoo."""
    if name == "GameEnv":
        from arena_envs.env import GameEnv

        return GameEnv
    raise AttributeError(f"module 'arena_envs' has no attribute {name!r}")
