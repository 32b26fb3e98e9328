"""The conformance kit, which checks a game against the contract of `arena_envs.game.Game`.

    from arena_envs.testing import check_game

    def test_my_game_keeps_the_contract():
        check_game(MyGame())

It plays random episodes, so it finds what these show. It does not know the rules of a game:
compare them with an independent implementation (`same_game`) or with a value known in closed form. Where
information is imperfect, it does not find a text that leaves out a public fact (see
`check_game`).
"""

from arena_envs.doors import BrokenPromise
from arena_envs.testing.check import CHECKS, PAGE_ROWS, check_game, page_of
from arena_envs.testing.sample import Sample, draw_sample, random_episode
from arena_envs.testing.twin import Difference, EnvTwin, same_game, twin, twin_values

__all__ = [
    "CHECKS",
    "PAGE_ROWS",
    "BrokenPromise",
    "Difference",
    "EnvTwin",
    "Sample",
    "check_game",
    "draw_sample",
    "page_of",
    "random_episode",
    "same_game",
    "twin",
    "twin_values",
]
