"""`PlayingTrainer`: the part of `TurnGRPOTrainer` that plays the episodes of a batch."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

from arena_trainers.matchmaking import SELF, Seats
from arena_trainers.train.checkpointed import CheckpointedTrainer
from arena_trainers.train.matching import EVAL, TRAIN
from arena_trainers.train.turn_records import per_episode
from arena_wrappers import Episode, play_plans


class PlayingTrainer(CheckpointedTrainer):
    """Plays generation batches.

    Attributes:
        last_episodes: the episodes of this process's latest generation batch.
        last_games: index of the game of each of them.
        last_seats: who played each seat of each of them.
    """

    num_generations: int
    num_generations_eval: int
    last_episodes: list[Episode]
    last_games: list[int]
    last_seats: list[Seats]
    _generation = (-1, 0)  # optimizer step, and number within it

    def play(self, inputs: Sequence[Mapping[str, Any]]) -> list[Episode]:
        """Plays this process's episodes of the generation batch: one per input, or a tree."""
        training = self.model.training
        group = self.num_generations if training else self.num_generations_eval
        first = self.accelerator.process_index * len(inputs)
        number = self._generation_number() if training else 0
        step = self.state.global_step
        purpose = TRAIN if training else EVAL
        assigned = self.matching.assign(inputs, step, number, purpose)
        plans = []
        for index, (start, seats) in enumerate(zip(inputs, assigned, strict=True)):
            learn = [seat for seat, who in enumerate(seats) if who == SELF]
            branch = self.args.branching(learn) if training else None
            sample = number * group + (first + index) % group
            policies = self.matching.policies(seats)
            plans.append(self.games.episode_plan(start, policies, sample, branch))
        episodes = play_plans(plans, on_error="raise")
        self.last_games = per_episode(episodes, [start["game"] for start in inputs])
        self.last_seats = per_episode(episodes, assigned)
        if training:
            self.matching.report(episodes, self.last_games, self.last_seats, step)
        return episodes

    def _generation_number(self) -> int:
        """Numbers generation batches, so that a start that comes again is played anew.

        It follows from the optimizer step, so that a resumed run counts on alike.
        """
        step, within = self.state.global_step, 0
        if self._generation[0] == step:
            within = self._generation[1] + 1
        self._generation = (step, within)
        return int(step * math.ceil(self.args.generations_per_step)) + within
