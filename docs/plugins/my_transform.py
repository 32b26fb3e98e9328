"""A transform.

- **Protocol**: a function or class that takes its arguments and `game`, and returns a game; a
  dataclass that inherits `Transform` passes on whatever it does not define.
- **Name**: the group `arena.transforms`; `bonus:0.5(nim)` then stands wherever a game does.
  `my_transform:Bonus(nim, points=2.0)` needs no package.
- **Check**: `arena check "my_transform:Bonus(nim)"`. A game whose rules are about letters
  (`is_spelled`) cannot be disguised.
"""

from dataclasses import dataclass

from arena_envs.game import TERMINAL
from arena_envs.testing import check_game
from arena_envs.transforms import Transform


@dataclass(frozen=True)
class Bonus(Transform):
    """Every seat gets a number of points more at the end."""

    points: float = 1.0
    zero_sum = False
    kind = "mixed"

    @property
    def max_return(self):
        return self.game.max_return + self.points

    def returns(self, state):
        bonus = self.points if self.game.current_player(state) == TERMINAL else 0.0
        return [value + bonus for value in self.game.returns(state)]

    def rules(self, seat):
        return f"{self.game.rules(seat)} {self.points:g} is added to every score."


def test_my_transform_keeps_the_contract():
    check_game("my_transform:Bonus(nim)")
