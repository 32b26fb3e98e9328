"""`PlayingTrainer`: the part of `TurnGRPOTrainer` that plays the episodes of a batch."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from arena_trainers.matchmaking import SELF, Seats
from arena_trainers.train.checkpointed import CheckpointedTrainer
from arena_trainers.train.matching import EVAL, TRAIN
from arena_trainers.train.metrics import num_played
from arena_trainers.train.records import per_episode
from arena_wrappers import Episode, EpisodePlan, play_plans

REPLAY = 2**40  # between the samples of an episode that is played again


class PlayingTrainer(CheckpointedTrainer):
    """Plays generation batches.

    Attributes:
        last_episodes: the episodes of this process's latest generation batch.
        last_starts: the starts of this process's latest generation batch: rows of the data
            set, with the tasks of the curriculum.
        last_games: index of the game of each of them.
        last_seats: who played each seat of each of them.
        first_episodes: the episodes before any were played again, for the metrics.
    """

    num_generations: int
    num_generations_eval: int
    last_episodes: list[Episode]
    last_starts: Sequence[Mapping[str, Any]]
    last_games: list[int]
    last_seats: list[Seats]
    first_episodes: list[Episode]
    batch_number = 0  # of the generation batch
    _generation = (-1, 0)  # optimizer step, and number within it

    def play(self, inputs: Sequence[Mapping[str, Any]]) -> list[Episode]:
        """Plays this process's episodes of the generation batch: one per input, or a tree."""
        training = self.model.training
        self.batch_number = self._generation_number() if training else 0
        step = self.state.global_step
        purpose = TRAIN if training else EVAL
        if training:
            inputs = self.tasks.assign(inputs, step, self.batch_number)
        assigned = self.matching.assign(inputs, step, self.batch_number, purpose)
        self.last_starts = inputs
        plans = [self._plan(n, seats) for n, seats in enumerate(assigned)]
        episodes = play_plans(plans, on_error="raise")
        self.last_games = per_episode(episodes, [start["game"] for start in inputs])
        self.last_seats = per_episode(episodes, assigned)
        if training:
            played = episodes, self.last_games, self.last_seats, step
            self.matching.report(*played)
            self.tasks.report(*played)
        self.last_episodes = self.first_episodes = episodes
        self.clock.counts.update(num_played(episodes))
        return episodes

    def play_again(self, starts: Collection[tuple[int, int]], attempt: int) -> None:
        """Plays the episodes of some groups again, with the same seats and other samples.

        Matchmaker and curriculum get no results of them, because they were selected.

        Args:
            starts: game and seed of the groups.
            attempt: number of the repetition, from 1.
        """
        chosen = [
            n
            for n, row in enumerate(self.last_starts)
            if (row["game"], int(row["seed"])) in starts
        ]
        plans = [self._plan(n, self.last_seats[n], attempt) for n in chosen]
        episodes = play_plans(plans, on_error="raise")
        self.last_episodes = list(self.last_episodes)
        for n, episode in zip(chosen, episodes, strict=True):
            self.last_episodes[n] = episode
        self.clock.counts.update(num_played(episodes))

    def _plan(self, index: int, seats: Seats, attempt: int = 0) -> EpisodePlan:
        """The episode, or tree, of one start of this process."""
        training = self.model.training
        group = self.num_generations if training else self.num_generations_eval
        first = self.accelerator.process_index * len(self.last_starts)
        sample = self.batch_number * group + (first + index) % group + attempt * REPLAY
        learn = [seat for seat, who in enumerate(seats) if who == SELF]
        branch = self.args.branching(learn) if training else None
        policies = self.matching.policies(seats)
        return self.games.episode_plan(
            self.last_starts[index], policies, sample, branch
        )

    def _generation_number(self) -> int:
        """Numbers generation batches, so that a start that comes again is played anew.

        It follows from the optimizer step, so that a resumed run counts on alike.
        """
        step, within = self.state.global_step, 0
        if self._generation[0] == step:
            within = self._generation[1] + 1
        self._generation = (step, within)
        return int(step * math.ceil(self.args.generations_per_step)) + within
