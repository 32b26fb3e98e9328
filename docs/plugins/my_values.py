"""Values of states, which take luck out of evaluations.

- **Protocol**: `arena_eval.values.StateValues`: made with `game`, `seat` and `opponent`; a
  function of states that are not terminal, with `seconds`, the CPU time of its fit. Poor values
  add no bias, but save no games.
- **Name**: `arena eval --values my_values:Material`; the group is `arena.values`.
- **Check**: `check_values`.
"""

import numpy as np

from arena_envs import make_game
from arena_eval.values import check_values


class Material:
    """The seat's return so far."""

    seconds = 0.0
    num_alternatives = None  # of a deal: all are averaged

    def __init__(self, game, seat, opponent):
        self.game, self.seat = game, seat

    def __call__(self, states):
        return np.array(
            [self.game.returns(state)[self.seat] for state in states], float
        )


def test_my_values_keep_their_promises():
    check_values(Material, make_game("goofspiel"))
