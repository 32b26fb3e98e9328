"""`misere(game)` and `goal(game, at=MODULE:FUNCTION)`: other returns and ends."""

import random
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from arena_envs.doors import imported
from arena_envs.game import TERMINAL, BaseGame, over_text
from arena_envs.transforms import Transform


@dataclass(frozen=True)
class Misere(Transform):
    """`misere(game)`: the returns of a duel with their signs changed; a forfeit still loses.

    Nim is misère by default, so that `misere(nim)` is normal play.
    """

    def __post_init__(self) -> None:
        one = self.game
        holds = one.num_players == 2 and one.zero_sum and one.information == "perfect"
        holds = holds and not one.simultaneous and one.max_chance_nodes == 0
        self._want(holds, "a zero-sum game of two seats without chance")

    def __getattr__(self, name: str) -> Any:
        other = {"min_return": "max_return", "max_return": "min_return"}.get(name)
        return 0.0 - getattr(self.game, other) if other else super().__getattr__(name)

    def returns(self, state: Any) -> Sequence[float]:
        return [0.0 - paid for paid in self.game.returns(state)]

    forfeit = BaseGame.forfeit

    def rules(self, seat: int) -> str:
        return (
            f"{self.game.rules(seat)} But the result is reversed: your score is that of "
            "these rules with the other sign, so who would win by them loses."
        )

    def observe(self, state: Any, seat: int) -> str:
        text: str = self.game.observe(state, seat)
        if self.game.current_player(state) != TERMINAL:
            return text
        return f"{text} The result is reversed. {over_text(self.returns(state)[seat])}"


@dataclass(frozen=True)
class Goal(Transform):
    """`goal(game, at="module:function")`: the game ends where a function says so.

    Args:
        game: the inner game.
        at: `"module:function"` of game and state: the return of each seat where the game is to
            end, else None. Returns keep to the bounds of the game, and to a sum of 0 where it has
            one. It is asked where a seat is to move, in simultaneous games between rounds. The
            docstring of the function tells players the goal.
    """

    at: str

    def __post_init__(self) -> None:
        if not callable(self._reached_at) or self._paid(self.game.initial_state()):
            raise ValueError(
                f"want a function of game and state that ends no game at its start, got {self.at!r}"
            )

    def current_player(self, state: Any) -> int:
        return TERMINAL if self._paid(state) else int(self.game.current_player(state))

    def chance_outcomes(self, state: Any) -> Sequence[tuple[Any, float]]:
        return () if self._paid(state) else list(self.game.chance_outcomes(state))

    def legal_actions(self, state: Any) -> Sequence[Any]:
        return () if self._paid(state) else list(self.game.legal_actions(state))

    def returns(self, state: Any) -> Sequence[float]:
        return self._paid(state) or list(self.game.returns(state))

    def rules(self, seat: int) -> str:
        goal = " ".join((self._reached_at.__doc__ or "a goal is reached.").split())
        return f"{self.game.rules(seat)} The game also ends when this holds: {goal}"

    def observe(self, state: Any, seat: int) -> str:
        text: str = self.game.observe(state, seat)
        paid = self._paid(state)
        return f"{text} The goal is reached. {over_text(paid[seat])}" if paid else text

    def information_state(self, state: Any, seat: int) -> Hashable:
        key, paid = self.game.information_state(state, seat), self._paid(state)
        return (key, paid[seat]) if paid else key

    def resample(self, state: Any, seat: int, rng: random.Random) -> Any:
        for _ in range(100):
            drawn = self.game.resample(state, seat, rng)
            if self._paid(drawn) == self._paid(state):
                return drawn
        return state

    @property
    def _reached_at(self) -> Any:
        return imported(self.at, "a function of a game and a state")

    def _paid(self, state: Any) -> Sequence[float] | None:
        """The returns if the goal is reached in this state."""
        player = self.game.current_player(state)
        if player < 0 or (self.game.simultaneous and player > 0):
            return None
        found = self._reached_at(self.game, state)
        if found is None:
            return None
        paid, game = [float(r) for r in found], self.game
        low, high = game.min_return, game.max_return
        fits = len(paid) == game.num_players and low <= min(paid) <= max(paid) <= high
        if not fits or (self.game.zero_sum and abs(sum(paid)) > 1e-9):
            raise ValueError(
                f"want None or a return of each seat from {low} to {high}"
                f"{', with the sum 0,' * self.game.zero_sum} from {self.at!r}, got {found!r:.100}"
            )
        return paid
