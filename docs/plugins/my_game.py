"""A game.

- **Protocol**: `arena_envs.game.Game`; `BaseGame` has defaults, and checks parameters. A game
  is a frozen dataclass of its parameters, with pure methods over an immutable state. A game of
  words inherits `arena_envs.talk.TalkGame`.
- **Start**: `arena new-game my_game` writes one with its page and test; `--hidden`, `--talk`
  and `--players N` choose its kind.
- **Name**: `my_game:HigherNumber` wherever a game is named; the group `arena.games` gives it
  the id `higher_number-v0`.
- **Check**: `arena check my_game:HigherNumber`, or `check_game` in a test.
- **Facts** that it may declare: `heuristic` (the bot that evaluations compare with), `knobs`,
  `teams`, `pays` (`"on_the_way"` if a return is not 0 before the end), `progress` (0 to 1, for
  the reward `milestones`), `hidden` (a hidden fact and its answer, for the probe `belief`),
  `hidden_profile`, and `scene`.

A **scene** draws a state for people: a function of game, state and viewer (a seat, or None for
everything) that returns shapes of `arena_envs.scenes` (`Grid`, `Cards`, `Table`, `Track`,
`Talk`). The class names it, `scene = "my_scenes:my_game"`, or its module has a function
`scene`. Read `game.information_state` where something is hidden: `arena check` compares the
scenes of states that a seat cannot tell apart.
"""

from dataclasses import dataclass

import numpy as np

from arena_envs.game import TERMINAL, BaseGame, param
from arena_envs.testing import check_game


@dataclass(frozen=True)
class HigherNumber(BaseGame[tuple[int, ...], int]):
    """Two players in turn name a number; the higher number wins."""

    num_actions: int = param(3, 2, 100)  # from 2 to 100

    num_players, max_turns = 2, 2
    kind, information, zero_sum = "competitive", "perfect", True
    min_return, max_return = -1.0, 1.0

    def initial_state(self):
        return ()  # the numbers named so far

    def current_player(self, state):
        return TERMINAL if len(state) == 2 else len(state)

    def chance_outcomes(self, state):
        return ()

    def legal_actions(self, state):
        return range(self.num_actions) if len(state) < 2 else ()

    def apply(self, state, action):
        return (*state, action)

    def returns(self, state):
        first = float(np.sign(state[0] - state[1])) if len(state) == 2 else 0.0
        return (first, -first)

    def observe(self, state, seat):
        named = ", ".join(map(str, state)) or "none"
        return f"You are player_{seat}. Numbers named: {named}."

    def information_state(self, state, seat):
        return state

    def features(self, state, seat):
        return np.array([seat, *state, *[-1] * (2 - len(state))], np.float32)

    def action_text(self, state, action):
        return str(action)

    def rules(self, seat):
        return f"Name a number below {self.num_actions}. The higher number wins."


def test_my_game_keeps_the_contract():
    check_game(HigherNumber(), needs_page=False)  # True once the module has a page
