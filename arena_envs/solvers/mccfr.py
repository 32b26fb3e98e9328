"""Counterfactual regret minimisation by sampling, for games too large to enumerate."""

import random
from typing import Any

from arena_envs.game import CHANCE, TERMINAL, AnyGame
from arena_envs.sampling import sample_chance
from arena_envs.solvers.enumeration import Key


class MCCFR:
    """External-sampling Monte Carlo CFR.

    An iteration walks once for each seat: chance and the other seats are sampled, all
    actions of the seat are tried. The average policy approaches a Nash equilibrium in
    two-player zero-sum games. Lanctot et al., *Monte Carlo Sampling for Regret
    Minimization in Extensive Games* (2009), https://papers.nips.cc/paper/3713. Departs
    from it by adding to the average where the seat before walks and this one is sampled,
    as OpenSpiel does.

    Args:
        game: the rules.
        seed: of the samples.

    Attributes:
        num_iterations: iterations so far.

    >>> from arena_envs import make_game
    >>> from arena_envs.solvers import complete_table, nash_conv
    >>> game = make_game("kuhn_poker")
    >>> solver = MCCFR(game, seed=0)
    >>> solver.run(2000)
    >>> nash_conv(game, complete_table(game, solver.average_policy())) < 0.1
    True
    """

    def __init__(self, game: AnyGame, seed: int = 0) -> None:
        self._game = game
        self._rng = random.Random(seed)
        self._regrets: dict[Key, list[float]] = {}
        self._sums: dict[Key, list[float]] = {}
        self.num_iterations = 0

    def run(self, num_iterations: int) -> None:
        """Plays this many iterations more."""
        for _ in range(num_iterations):
            self.num_iterations += 1
            for seat in range(self._game.num_players):
                self._walk(self._game.initial_state(), seat)

    def average_policy(self) -> dict[Key, list[float]]:
        """The average over the iterations, of the information states that were met."""
        return {key: _normalise(sums) for key, sums in self._sums.items()}

    def _walk(self, state: Any, seat: int) -> float:
        """An estimate of what the state is worth to the seat."""
        game, rng = self._game, self._rng
        while (player := game.current_player(state)) != TERMINAL:
            if player == CHANCE:
                state = game.apply(state, sample_chance(game, state, rng))
                continue
            key = (player, game.information_state(state, player))
            legal = game.legal_actions(state)
            regrets = self._regrets.setdefault(key, [0.0] * len(legal))
            sums = self._sums.setdefault(key, [0.0] * len(legal))
            policy = _normalise([max(regret, 0.0) for regret in regrets])
            if player == seat:
                values = [self._walk(game.apply(state, a), seat) for a in legal]
                value = sum(p * v for p, v in zip(policy, values, strict=True))
                for i, of_action in enumerate(values):
                    regrets[i] += of_action - value
                return value
            if player == (seat + 1) % game.num_players:
                for i, probability in enumerate(policy):
                    sums[i] += probability
            state = game.apply(state, rng.choices(legal, policy)[0])
        return float(game.returns(state)[seat])


def _normalise(weights: list[float]) -> list[float]:
    total = sum(weights)
    if total <= 0:
        return [1 / len(weights)] * len(weights)
    return [weight / total for weight in weights]
