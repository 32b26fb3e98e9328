"""Games whose success lies in a band: neither too hard nor too easy at this time.

"Automatic Goal Generation for Reinforcement Learning Agents" (https://arxiv.org/abs/1705.06366)
trains on goals of intermediate difficulty, with a success between R_min = 0.1 and R_max = 0.9.
Departures: the tasks are a list, and are not generated; those outside of the band keep a small
weight, so that they are noticed when they come into it.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena_envs.game import AnyGame, check_number
from arena_trainers.curricula.protocol import (
    BaseCurriculum,
    Outcome,
    Task,
)


class Band(BaseCurriculum):
    """The game of each start, drawn mostly from those within the band.

    Args:
        low: lowest success of the band.
        high: highest success of the band.
        outside: weight of a game outside of the band, where one within it has 1.
        decay: weight of a game's earlier outcomes in its success, per batch that played it.

    Raises:
        ValueError: a number is not from 0 to 1, or the band is empty.
    """

    reads_success = True

    def __init__(
        self,
        *,
        low: float = 0.1,
        high: float = 0.9,
        outside: float = 0.05,
        decay: float = 0.9,
    ) -> None:
        numbers = {"low": low, "high": high, "outside": outside, "decay": decay}
        for name, value in numbers.items():
            check_number(name, value, 0, 1)
        if low > high:
            raise ValueError(f"want low of at most high, got {low} and {high}")
        if outside == 0:
            raise ValueError("want outside above 0, else no game comes back, got 0")
        self.low, self.high, self.outside, self.decay = low, high, outside, decay
        self.games: list[str] = []
        self._sums: dict[str, tuple[float, float]] = {}  # of successes, and of weights

    def prepare(self, games: Mapping[str, AnyGame]) -> None:
        if len(games) < 2:
            raise ValueError(
                "want at least two games for the curriculum 'band', got "
                f"{list(games)}; name knobs of a game, list it with several params, or "
                "leave the curriculum out"
            )
        self.games = list(games)

    def propose(self, step: int, rng: np.random.Generator) -> Task:
        successes = [self.success(name) for name in self.games]
        in_band = [
            success is None or self.low <= success <= self.high for success in successes
        ]
        weights = np.array([1.0 if is_in else self.outside for is_in in in_band])
        index = int(rng.choice(len(weights), p=weights / weights.sum()))
        return Task(self.games[index])

    def success(self, game: str) -> float | None:
        """The success in a game, a mean with decay; None before its first outcome."""
        total, weight = self._sums.get(game, (0.0, 0.0))
        return total / weight if weight > 0 else None

    def update(self, outcomes: Sequence[Outcome], step: int) -> None:
        for game in dict.fromkeys(outcome.game for outcome in outcomes):
            successes = [end.success for end in outcomes if end.game == game]
            total, weight = self._sums.get(game, (0.0, 0.0))
            self._sums[game] = (
                self.decay * total + sum(successes),
                self.decay * weight + len(successes),
            )

    def state_dict(self) -> dict[str, Any]:
        return {"sums": {game: list(pair) for game, pair in self._sums.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._sums = {game: (pair[0], pair[1]) for game, pair in state["sums"].items()}
