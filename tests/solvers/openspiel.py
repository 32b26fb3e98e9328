"""Games of OpenSpiel, played by our protocol, so that solvers can be tested on them."""

from collections.abc import Hashable, Sequence
from typing import Any

from arena_envs.game import BaseGame, Information


class SpielGame(BaseGame[tuple[int, ...], int]):
    """A sequential game of OpenSpiel; a state is the tuple of all actions so far."""

    def __init__(self, name: str, **params: Any) -> None:
        import pyspiel

        self.theirs = pyspiel.load_game(name, params)
        about = self.theirs.get_type()
        perfect = about.information == about.Information.PERFECT_INFORMATION
        self.information: Information = "perfect" if perfect else "imperfect"
        self.zero_sum = about.utility == about.Utility.ZERO_SUM
        self.num_players: int = self.theirs.num_players()
        self.min_return: float = self.theirs.min_utility()
        self.max_return: float = self.theirs.max_utility()
        self._states = {(): self.theirs.new_initial_state()}

    def __repr__(self) -> str:
        return f"SpielGame({self.theirs})"

    def initial_state(self) -> tuple[int, ...]:
        return ()

    def current_player(self, state: tuple[int, ...]) -> int:
        return self._states[state].current_player()

    def chance_outcomes(self, state: tuple[int, ...]) -> Sequence[tuple[int, float]]:
        return self._states[state].chance_outcomes()

    def legal_actions(self, state: tuple[int, ...]) -> Sequence[int]:
        return self._states[state].legal_actions()

    def apply(self, state: tuple[int, ...], action: int) -> tuple[int, ...]:
        following = (*state, action)
        if following not in self._states:
            self._states[following] = self._states[state].child(action)
        return following

    def returns(self, state: tuple[int, ...]) -> Sequence[float]:
        return self._states[state].returns()

    def information_state(self, state: tuple[int, ...], seat: int) -> Hashable:
        return self._states[state].information_state_string(seat)
