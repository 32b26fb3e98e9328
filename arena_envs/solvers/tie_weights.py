"""Weights of equally good actions, by how much they punish errors of the other seat."""

from collections.abc import Callable, Sequence
from statistics import fmean
from typing import Any

from arena_envs.game import CHANCE, TERMINAL, AnyGame
from arena_envs.sampling import possible_outcomes

TOLERANCE = 1e-9  # values that differ by less are equal; relative to values above 1
NUM_REPLIES = 2  # replies of the other seat that are taken to be random


class TieWeights:
    """Weights of best actions in a two-player zero-sum game of perfect information.

    Args:
        game: the rules.
        best: the best actions in a state.
        value: the minimax value of a state to seat 0.
    """

    def __init__(
        self,
        game: AnyGame,
        best: Callable[[Any], Sequence[Any]],
        value: Callable[[Any], float],
    ) -> None:
        self.game = game
        self._best = best
        self._value = value
        self._hopes: dict[tuple[Any, int, int], float] = {}

    def weights(self, state: Any, best: Sequence[Any]) -> dict[Any, float]:
        """Probabilities of the best actions, see `PerfectInformation.policy`."""
        value, game = self._value(state), self.game
        player = game.current_player(state)
        gains = [
            abs(self._hoped(game.apply(state, action), player, NUM_REPLIES) - value)
            for action in best
        ]
        total = sum(gain**2 for gain in gains)
        if total < TOLERANCE:
            return dict.fromkeys(best, 1 / len(best))
        return {a: gain**2 / total for a, gain in zip(best, gains, strict=True)}

    def forget(self) -> None:
        """Frees the memory of what was met."""
        self._hopes.clear()

    def _hoped(self, state: Any, player: int, num_replies: int) -> float:
        """The value if the next replies to this player are uniform, and all else is best."""
        key = (state, player, num_replies)
        if key not in self._hopes:
            self._hopes[key] = self._hope(state, player, num_replies)
        return self._hopes[key]

    def _hope(self, state: Any, player: int, num_replies: int) -> float:
        game = self.game
        mover = game.current_player(state)
        if mover == TERMINAL or num_replies == 0:
            return self._value(state)
        if mover == CHANCE:
            return sum(
                p * self._hoped(game.apply(state, a), player, num_replies)
                for a, p in possible_outcomes(game, state)
            )
        if mover == player:
            actions = self._best(state)
        else:
            actions, num_replies = game.legal_actions(state), num_replies - 1
        return fmean(
            self._hoped(game.apply(state, action), player, num_replies)
            for action in actions
        )
