"""`RolloutPlayer`: plays the generation batches of a process."""

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from arena_trainers.matchmaking import SELF, Seats
from arena_trainers.train.clock import Clock
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.matching import EVAL, TRAIN, Matching
from arena_trainers.train.metrics import num_played
from arena_trainers.train.played import PlayedBatch, per_episode
from arena_trainers.train.prepared import PreparedGames
from arena_trainers.train.tasks import Tasks
from arena_wrappers import Branching, Episode, EpisodePlan, Policy, play_plans
from arena_wrappers.play import EnvCaches

REPLAY = 2**40  # between the samples of an episode that is played again


class RolloutPlayer:
    """The part of `TurnGRPOTrainer` that plays generation batches.

    Args:
        args: the trainer's settings.
        games: the games.
        matching: assigns the seats of starts.
        tasks: assigns the games of starts.
        process: index of this process.
        group_sizes: episodes of a start, in evaluation and in training.
        clock: counts the time.
    """

    def __init__(
        self,
        args: TurnGRPOConfig,
        games: PreparedGames,
        matching: Matching,
        tasks: Tasks,
        process: int,
        group_sizes: tuple[int, int],
        clock: Clock,
    ) -> None:
        self.args, self.games, self.matching, self.tasks = args, games, matching, tasks
        self.process, self.group_sizes, self.clock = process, group_sizes, clock
        self._generation = (-1, 0)  # optimizer step, and number within it
        self._envs = EnvCaches()

    def play(
        self, starts: Sequence[Mapping[str, Any]], step: int, trains: bool
    ) -> PlayedBatch:
        """Plays this process's episodes of the generation batch: one per start, or a tree.

        Args:
            starts: rows of the data set.
            step: optimizer steps so far.
            trains: whether the batch is trained.
        """
        with self.clock.part("environment"):
            number = self.generation_number(step) if trains else 0
            played = self.begin(starts, step, number, trains)
            self.end(played, self.episodes(played, range(len(starts))), step)
        return played

    def begin(
        self, starts: Sequence[Mapping[str, Any]], step: int, number: int, trains: bool
    ) -> PlayedBatch:
        """A generation batch before it is played, with its tasks and who plays each seat."""
        if trains:
            starts = self.tasks.assign(starts, step, number)
        purpose = TRAIN if trains else EVAL
        assigned = self.matching.assign(starts, step, number, purpose)
        return PlayedBatch(starts, [], [], assigned, [], number, trains)

    def end(self, played: PlayedBatch, episodes: list[Episode], step: int) -> None:
        """Gives a batch its episodes, and reports them if it is trained."""
        games = [start["game"] for start in played.starts]
        played.games = per_episode(episodes, games)
        played.seats = per_episode(episodes, played.seats)
        played.episodes = played.first_episodes = episodes
        if played.trains:
            self.matching.report(episodes, played.games, played.seats, step)
            self.tasks.report(episodes, played.games, played.seats, step)

    def play_again(
        self, played: PlayedBatch, starts: Collection[tuple[int, int]], attempt: int
    ) -> None:
        """Plays the episodes of some groups again, with the same seats and other samples.

        Matchmaker and curriculum get no results of them, because they were selected.

        Args:
            played: the batch; its episodes are replaced.
            starts: game and seed of the groups.
            attempt: number of the repetition, from 1.
        """
        with self.clock.part("environment"):
            indices = [
                n
                for n, row in enumerate(played.starts)
                if (row["game"], int(row["seed"])) in starts
            ]
            replays = self.episodes(played, indices, attempt)
            played.episodes = list(played.episodes)
            for n, episode in zip(indices, replays, strict=True):
                played.episodes[n] = episode

    def episodes(
        self, played: PlayedBatch, indices: Sequence[int], attempt: int = 0
    ) -> list[Episode]:
        """Plays some of the starts of a batch."""
        seatings = {played.seats[n] for n in indices}
        policies = {seats: self.matching.policies(seats) for seats in seatings}
        branches = {seats: self._branching(played, seats) for seats in seatings}
        plans = []
        for n in indices:
            seats = played.seats[n]
            plan = self._plan(played, n, attempt, policies[seats], branches[seats])
            plans.append(plan)
        episodes = play_plans(plans, on_error="raise", caches=self._envs)
        self.clock.counts.update(num_played(episodes))
        return episodes

    def _plan(
        self,
        played: PlayedBatch,
        index: int,
        attempt: int,
        policies: Sequence[Policy],
        branch: Branching | None,
    ) -> EpisodePlan:
        """The episode, or tree, of one start of this process."""
        group = self.group_sizes[played.trains]
        place = self.process * len(played.starts) + index
        sample = played.number * group + place % group + attempt * REPLAY
        return self.games.episode_plan(played.starts[index], policies, sample, branch)

    def _branching(self, played: PlayedBatch, seats: Seats) -> Branching | None:
        """The branching of the episodes with these seats, if they are trained."""
        learner_seats = [seat for seat, policy in enumerate(seats) if policy == SELF]
        return self.args.branching(learner_seats) if played.trains else None

    def generation_number(self, step: int) -> int:
        """Numbers generation batches, so that a start that comes again is played anew.

        It follows from the optimizer step, so that a resumed run counts on alike.
        """
        within = self._generation[1] + 1 if self._generation[0] == step else 0
        self._generation = (step, within)
        return int(step * math.ceil(self.args.generations_per_step)) + within
