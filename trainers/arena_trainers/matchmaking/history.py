"""`History`: which snapshots of a run are taken and kept, and starts drawn against them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from arena_envs.checks import check_count
from arena_trainers.matchmaking.protocol import (
    Floats,
    Seats,
    Start,
    against,
    snapshot_name,
)


@dataclass(frozen=True)
class History:
    """The snapshots of a run: one after every `every` steps, from step 0.

    Rule of deletion: with a `window`, the newest `window` snapshots are kept. Without it,
    when there are more than `max_kept`, every second one is dropped, and from then on half
    as many are taken. So those that are kept are always spread evenly over the run.

    Args:
        every: steps between snapshots.
        window: how many of the newest are kept; None for the whole history.
        max_kept: most snapshots without a window.
        max_live: how many stay in memory; the others are read from disk.

    Raises:
        ValueError: a number is no integer of at least 1.

    >>> History(every=10, max_kept=4).steps(45)  # of 0, 10, 20, 30, 40
    [0, 20, 40]
    >>> History(every=10, window=2).steps(45)
    [30, 40]
    """

    every: int = 20
    window: int | None = None
    max_kept: int = 32
    max_live: int = 4

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name != "window" or value is not None:
                check_count(name, value)

    def steps(self, step: int) -> list[int]:
        """The steps of the snapshots that are kept at a step, in ascending order."""
        snapshots = range(0, step + 1, self.every)
        if self.window is not None:
            return list(snapshots[-self.window :])
        while len(snapshots) > self.max_kept:
            snapshots = snapshots[::2]
        return list(snapshots)

    def assign(
        self,
        starts: Sequence[Start],
        step: int,
        rng: np.random.Generator,
        weights: Callable[[str, Sequence[int]], Floats | None],
    ) -> list[Seats]:
        """Each start against one snapshot.

        For each game, `max_live` snapshots (or its share of them) are drawn by weight, with
        repetition, and then one of these for each start. So a start plays each snapshot with
        exactly its weight, and few snapshots have to be in memory for one batch.

        Args:
            starts: the starts.
            step: the current step.
            rng: the source of all choices.
            weights: of the snapshots in a game, by its name and their steps; None if all
                are equal.
        """
        steps = self.steps(step)
        games = list(dict.fromkeys(start.game for start in starts))
        share = max(self.max_live // max(len(games), 1), 1)
        live_steps = {}
        for game in games:
            live_steps[game] = rng.choice(steps, size=share, p=weights(game, steps))
        return [
            against(snapshot_name(int(rng.choice(live_steps[start.game]))), start, rng)
            for start in starts
        ]
