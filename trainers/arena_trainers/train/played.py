"""What one process played in a generation batch, and the turns of it that are trained.

This module imports neither TRL nor torch.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np

from arena_trainers.matchmaking import Seats
from arena_trainers.train.records import TurnRecord
from arena_trainers.train.turn_batches import rows_of_process
from arena_wrappers.records import Episode

T = TypeVar("T")

RecordsByProcess = list[list[TurnRecord]]  # the records of each process


@dataclass
class PlayedBatch:
    """A generation batch that this process played.

    Attributes:
        starts: rows of the data set, with the tasks of the curriculum.
        episodes: one for each start, or a tree.
        games: index of the game of each episode.
        seats: who played each seat of each episode.
        first_episodes: the episodes before any were played again, for the metrics.
        number: of the generation batch; 0 in evaluations.
        trains: whether the batch is trained.
    """

    starts: Sequence[Mapping[str, Any]]
    episodes: list[Episode]
    games: list[int]
    seats: list[Seats]
    first_episodes: list[Episode]
    number: int
    trains: bool


class SelectedTurns(NamedTuple):
    """The turns that are trained, of seats that learn.

    Attributes:
        shares: the records of each process.
        rank: index of this process.
        metrics: of the selection: shares of flat and of dropped groups, of trained trajectories,
            of invalid replies that were left out, and of turns that reward models compare.
    """

    shares: RecordsByProcess
    rank: int
    metrics: Mapping[str, float]

    @property
    def records(self) -> list[TurnRecord]:
        """The records of this process."""
        return self.shares[self.rank]

    @property
    def rows(self) -> range:
        """The place of this process's records in the global batch."""
        return rows_of_process(self.shares, self.rank)


def per_episode(episodes: Sequence[Episode], values: Sequence[T]) -> list[T]:
    """The value of each episode's plan; an episode that branched has its parent's."""
    plans = np.cumsum([episode.parent is None for episode in episodes]) - 1
    return [values[plan] for plan in plans]
