"""Past selves: the learner plays its own snapshots, each equally often.

With a window, this is the opponent sampling of "Emergent Complexity via Multi-Agent
Competition" (https://arxiv.org/abs/1710.03748), section 3.2, whose δ is 1 - window / snapshots.
Over the whole history it is fictitious self-play, where one responds to the mean of all past
policies: "Fictitious Self-Play in Extensive-Form Games"
(https://proceedings.mlr.press/v37/heinrich15.html). Departure: the mean is over snapshots,
and the response is a gradient step.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from arena_trainers.matchmaking.history import History
from arena_trainers.matchmaking.protocol import BaseMatchmaker, Floats, Seats, Start


@dataclass(kw_only=True, eq=False)
class PastSelves(BaseMatchmaker):
    """Each start against one snapshot, drawn uniformly; a random seat learns.

    Args:
        every: steps between snapshots.
        window: draws from this many of the newest; None for the whole history.
        max_kept: most snapshots that are kept without a window, see `History`.
        max_live: how many snapshots stay in memory.
    """

    every: int = 20
    window: int | None = None
    max_kept: int = 32
    max_live: int = 4

    def __post_init__(self) -> None:
        self.history = History(
            every=self.every,
            window=self.window,
            max_kept=self.max_kept,
            max_live=self.max_live,
        )

    def snapshots(self, step: int) -> Sequence[int]:
        return self.history.steps(step)

    def assign(
        self, starts: Sequence[Start], step: int, rng: np.random.Generator
    ) -> list[Seats]:
        return self.history.assign(starts, step, rng, self.weights)

    def weights(self, game: str, steps: Sequence[int]) -> Floats | None:
        """float64[n], the probability of each snapshot in a game; None for equal ones."""
        return None
