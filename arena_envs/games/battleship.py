"""Battleship: find and sink ships that the other player has hidden on a board.

| Property    | Value                                                                  |
|-------------|------------------------------------------------------------------------|
| Create      | `arena_envs.make("battleship-v0")`; parameters: see `Battleship`       |
| Agents      | `player_0` and `player_1`                                              |
| Kind        | competitive, imperfect information, zero-sum; mixed and not zero-sum   |
|             | if `loss_multiplier` is not 1                                          |
| Actions     | `Discrete(3WH)` on W x H squares: shots "a1", "b1" to "d4", then ships |
|             | across, "a1-c1", and ships down, "a1-a3", by their first square        |
| Rewards     | at the end: value of the ships sunk, less that of the ships lost       |
| Length      | at most 2 turns per ship and 2 per shot: 24 by default; 23.739 on      |
|             | average of 2,000 random games (seed 0)                                 |
| Known value | 2 x 2 squares, one ship of size 2, 3 shots: 5/16 for `player_0`; there |
|             | uniform play has 5/36 and NashConv 1/2                                 |
| Source      | traditional; OpenSpiel's game is by G. Farina                          |

In turn, both players place ships of the same sizes, one at a time, unseen by the other. Ships
lie along a row or a column and may touch. Then the players shoot at each other's boards in
turn, `num_shots` shots each. The shooter is told "miss", "hit", or "sunk" if no square of
the ship is left, but not which ship it was. The episode ends when all shots are fired or a
player has lost all ships. A ship sunk pays its value to the shooter and costs its owner
`loss_multiplier` times its value. Actions, seats and rules are
OpenSpiel's; our default board is smaller and a square cannot be shot at again.
"""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

import arena_envs.games._battleship_views as views
from arena_envs.game import TERMINAL, BaseGame, IllegalAction, Information, Kind, fold
from arena_envs.games._battleship_board import Board, State
from arena_envs.games._battleship_fleets import draw_fleet

SHOT = re.compile(r"(?:(?:shoot|fire)(?: at)? )?\[?([a-j])(10|[1-9])\]?")
ENDS = re.compile(r"(?:place )?([a-j])(10|[1-9])(?: ?- ?| to | |:|,)([a-j])(10|[1-9])")


@dataclass(frozen=True)
class Battleship(Board, BaseGame[State, int]):
    """Battleship.

    Args:
        board_width: columns, 1 to 10.
        board_height: rows, 1 to 10.
        ship_sizes: squares of each ship, in the order of placement; 1 to 5 ships.
        ship_values: what each ship counts, from 0 on; None is 1 each.
        num_shots: of each player, at least 1.
        allow_repeated_shots: whether a square can be shot at again.
        loss_multiplier: weight of the ships lost, from 0 on.

    Raises:
        ValueError: a parameter is none of these, or the ships do not fit on the board, or
            there are more shots than squares where none can be shot at again.
    """

    num_players = 2
    information: ClassVar[Information] = "imperfect"
    max_chance_nodes = 0

    @property
    def num_actions(self) -> int:
        return 3 * self.num_squares

    @property
    def kind(self) -> Kind:
        return "competitive" if self.zero_sum else "mixed"

    @property
    def zero_sum(self) -> bool:  # type: ignore[override]  # depends on a parameter
        return self.loss_multiplier == 1

    @property
    def min_return(self) -> float:
        return 0.0 - self.loss_multiplier * self.most_damage

    @property
    def max_return(self) -> float:
        return float(self.most_damage)

    @property
    def max_turns(self) -> int:
        # a player who has shot at all squares has sunk all ships, which ends the episode
        all_squares = (
            self.num_shots == self.num_squares and not self.allow_repeated_shots
        )
        return 2 * (len(self.ship_sizes) + self.num_shots) - all_squares

    def initial_state(self) -> State:
        return State()

    def current_player(self, state: State) -> int:
        if self.is_over(state):
            return TERMINAL
        return (len(state.placed) + len(state.shots)) % 2

    def chance_outcomes(self, state: State) -> Sequence[tuple[int, float]]:
        return ()

    def legal_actions(self, state: State) -> Sequence[int]:
        if len(state.placed) < 2 * len(self.ship_sizes):
            return self._legal_placements(state)
        if self.is_over(state):
            return ()
        squares = range(self.num_squares)
        if self.allow_repeated_shots:
            return squares
        own = {*state.shots[len(state.shots) % 2 :: 2]}
        return [square for square in squares if square not in own]

    def apply(self, state: State, action: int) -> State:
        if len(state.placed) < 2 * len(self.ship_sizes):
            return State((*state.placed, action))
        return State(state.placed, (*state.shots, action))

    def returns(self, state: State) -> Sequence[float]:
        if not self.is_over(state):
            return (0.0, 0.0)
        lost = [self._value_lost(state, seat) for seat in (0, 1)]
        weight = self.loss_multiplier
        return (lost[1] - weight * lost[0], lost[0] - weight * lost[1])

    def observe(self, state: State, seat: int) -> str:
        return views.text(self, state, seat)

    def information_state(
        self, state: State, seat: int
    ) -> tuple[tuple[int, ...], int, tuple[int, ...], str]:
        """Own placements, number of all placements, all shots, outcomes of the own."""
        told = self.outcomes(self.ships(state, 1 - seat), state.shots[seat::2])
        return (state.placed[seat::2], len(state.placed), state.shots, told)

    def features(self, state: State, seat: int) -> NDArray[np.float32]:
        return views.features(self, state, seat)

    def action_text(self, state: State, action: int) -> str:
        if len(state.placed) == 2 * len(self.ship_sizes):
            return self.square_name(action)
        return self.placement_name(self._next_placements(state)[action])

    def parse(self, state: State, text: str) -> int:
        """Reads "shoot at b2" for "b2", and the ends of a ship in any order."""
        answer, legal = fold(text), self.legal_actions(state)
        names = {self.action_text(state, action): action for action in legal}
        if match := SHOT.fullmatch(answer):
            name = match[1] + match[2]
        elif match := ENDS.fullmatch(answer):
            ends = [(match[1], int(match[2])), (match[3], int(match[4]))]
            name = "-".join(f"{column}{row}" for column, row in sorted(ends))
        else:
            name = answer
        if name not in names:
            raise IllegalAction(f"want one of {list(names)}, got {text[:80]!r}")
        return names[name]

    def rules(self, seat: int) -> str:
        return views.rules(self, seat)

    def resample(self, state: State, seat: int, rng: random.Random) -> State:
        """Places the other's ships anew, as all shots at them allow."""
        shots, placed = state.shots[seat::2], list(state.placed)
        told = self.outcomes(self.ships(state, 1 - seat), shots)
        num_placed = len(placed[1 - seat :: 2])
        placed[1 - seat :: 2] = draw_fleet(self, shots, told, rng)[:num_placed]
        return State(tuple(placed), state.shots)

    def _legal_placements(self, state: State) -> list[int]:
        seat, num_placed = len(state.placed) % 2, len(state.placed) // 2
        taken = sum(self.ships(state, seat))
        return [
            action
            for action, squares in self._next_placements(state).items()
            if not squares & taken
            and self.can_place(self.ship_sizes[num_placed + 1 :], taken | squares)
        ]

    def _next_placements(self, state: State) -> dict[int, int]:
        return self.placements[self.ship_sizes[len(state.placed) // 2]]

    def _value_lost(self, state: State, seat: int) -> float:
        sunk = zip(self.values, self.is_sunk(state, seat), strict=True)
        return sum((value for value, is_sunk in sunk if is_sunk), 0.0)
