"""The conformance kit, which checks a game against the contract of `arena_envs.game.Game`.

    from arena_envs.testing import check_game

    def test_my_game_keeps_the_contract():
        check_game(MyGame())

It plays random episodes, so it finds what these show. It does not know the rules of a game:
compare them with an independent implementation (`same_game`) or with a value known in closed form. Where
information is imperfect, it does not find a text that leaves out a public fact (see
`check_game`).
"""

from arena_envs.doors import BrokenPromise as BrokenPromise
from arena_envs.testing.check import CHECKS as CHECKS
from arena_envs.testing.check import PAGE_ROWS as PAGE_ROWS
from arena_envs.testing.check import check_game as check_game
from arena_envs.testing.check import page_of as page_of
from arena_envs.testing.sample import Sample as Sample
from arena_envs.testing.sample import draw_sample as draw_sample
from arena_envs.testing.sample import random_episode as random_episode
from arena_envs.testing.twin import Difference as Difference
from arena_envs.testing.twin import EnvTwin as EnvTwin
from arena_envs.testing.twin import same_game as same_game
from arena_envs.testing.twin import twin as twin
from arena_envs.testing.twin import twin_values as twin_values
