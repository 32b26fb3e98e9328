"""Games by weights that move, step by step, from one mixture to another.

A linear schedule between two mixtures is the plainest form of curriculum: "Curriculum Learning"
(https://dl.acm.org/doi/10.1145/1553374.1553380), section 2, where the weights of examples
change over time. Departure: hard games may get weight 0 at first, and easy ones at the end.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from arena_envs.checks import check_count
from arena_envs.game import AnyGame
from arena_trainers.curricula.protocol import (
    BaseCurriculum,
    Task,
    check_game_weights,
    check_games,
)


class Weights(BaseCurriculum):
    """The game of each start, drawn by weights that move linearly.

    Args:
        start: weights of games at step 0, by name; 0 for games that are not named.
        end: weights from step `steps` on.
        steps: length of the way.

    Raises:
        ValueError: a weight is negative, or none is above 0.
    """

    def __init__(
        self, *, start: Mapping[str, float], end: Mapping[str, float], steps: int
    ) -> None:
        check_count("steps", steps)
        for name, weights in (("start", start), ("end", end)):
            check_game_weights(f"{name} as weights of games", weights, "kuhn_poker")
        self.steps = steps
        self.games = list(dict.fromkeys([*start, *end]))
        self._start = self._shares(start)
        self._end = self._shares(end)

    def prepare(self, games: Mapping[str, AnyGame]) -> None:
        check_games(self.games, games)

    def propose(self, step: int, rng: np.random.Generator) -> Task:
        progress = min(step / self.steps, 1.0)
        chances = (1 - progress) * self._start + progress * self._end
        return Task(self.games[int(rng.choice(len(self.games), p=chances))])

    def _shares(self, weights: Mapping[str, float]) -> NDArray[np.float64]:
        values = np.array([weights.get(name, 0.0) for name in self.games], float)
        shares: NDArray[np.float64] = values / values.sum()
        return shares
