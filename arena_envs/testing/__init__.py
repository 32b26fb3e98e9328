"""The conformance kit: whether a game keeps what `arena_envs.game.Game` promises.

    from arena_envs.testing import check_game

    def test_my_game_keeps_the_contract():
        check_game(MyGame())

It plays random episodes, so it finds what they can show and proves nothing about rules:
compare those with an independent implementation, or with a value known in closed form.
"""

from arena_envs.testing.check import CHECKS, check_game
from arena_envs.testing.page import PAGE_ROWS, page_of
from arena_envs.testing.sample import BrokenRule

__all__ = ["CHECKS", "PAGE_ROWS", "BrokenRule", "check_game", "page_of"]
