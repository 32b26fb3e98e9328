"""Tests of a measure: the promises that evaluations rely on.

from arena_trainers.evaluate.testing import check_measure

def test_my_measure_keeps_its_promises():
    check_measure(my_measure)
"""

import copy
import math
import random
from collections.abc import Sequence

from arena_envs.doors import BrokenPromise, broken
from arena_trainers.evaluate.intervals import Estimate
from arena_trainers.evaluate.measures import Measure
from arena_wrappers import Episode, play
from arena_wrappers.play import game_of

__all__ = ["BrokenPromise", "check_measure"]


def check_measure(measure: Measure, episodes: Sequence[Episode] | None = None) -> None:
    """Measures recorded episodes, and looks at the estimates.

    | promise | what is checked |
    |---|---|
    | nothing of nothing | no episodes give no estimates |
    | estimates | names, and `Estimate`s: a finite value within its interval, `num` of at least 1 |
    | same again | equal calls give equal estimates |
    | order | the order of the episodes does not matter |
    | arguments | the episodes are left as they are |

    Args:
        measure: a function of episodes, game and seat.
        episodes: of one game; by default Kuhn poker by random play.

    Raises:
        BrokenPromise: names the first promise that is broken.
    """
    given = list(
        play("kuhn_poker", "random", range(24)) if episodes is None else episodes
    )
    game, before = game_of(given[0]), copy.deepcopy(given)
    mixed = random.Random(0).sample(given, len(given))
    for seat in range(game.num_players):
        if found := dict(measure([], game, seat)):
            broken("nothing of nothing", f"no episodes give {sorted(found)}")
        found = dict(measure(given, game, seat))
        if given != before:
            broken("arguments", "the episodes have changed")
        for name, one in found.items():
            _check_estimate(name, one)
        if dict(measure(given, game, seat)) != found:
            broken("same again", "two calls give different estimates")
        if dict(measure(mixed, game, seat)) != found:
            broken("order", "the episodes in another order give different estimates")


def _check_estimate(name: str, one: Estimate) -> None:
    if not isinstance(name, str) or not isinstance(one, Estimate):
        broken("estimates", f"want an Estimate by name, got {name!r}: {one!r:.80}")
    low = -math.inf if one.low is None else one.low
    high = math.inf if one.high is None else one.high
    if not (math.isfinite(one.value) and low <= one.value <= high and one.num >= 1):
        broken("estimates", f"want a value within its interval, got {name}: {one}")
