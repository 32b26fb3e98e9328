"""`Tasks`: the games and limits of starts, by a curriculum."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from accelerate.utils import gather_object

from arena_trainers.curricula import Outcome, Task
from arena_trainers.matchmaking import SELF, Seats
from arena_trainers.train.assigners import is_constant
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.prepared import PreparedGames
from arena_trainers.train.state_files import read_owned
from arena_wrappers import Episode
from arena_wrappers.records import write_whole

CURRICULUM_FILE = "curriculum.json"  # of a checkpoint
CHOICES = 3  # what is drawn for, beside the purposes of `Matching`


class Tasks:
    """The tasks of starts, by a curriculum; without one, starts stay as they are.

    All processes make the same calls, and get the same tasks.

    Args:
        games: the games, with their curriculum if there is one.
        args: the trainer's settings.
    """

    def __init__(self, games: PreparedGames, args: TurnGRPOConfig) -> None:
        self.games, self.args, self.curriculum = games, args, games.curriculum

    def assign(
        self, starts: Sequence[Mapping[str, Any]], step: int, batch: int
    ) -> list[Mapping[str, Any]]:
        """This process's starts with the game and `max_turns` of their tasks.

        Args:
            starts: rows of the data set, one for each episode.
            step: optimizer steps so far.
            batch: number of the generation batch.
        """
        curriculum = self.curriculum
        if curriculum is None:
            return list(starts)
        keys = [(row["game"], int(row["seed"])) for row in starts]
        rng = np.random.default_rng([self.args.seed, batch, CHOICES])
        numbers = {name: number for number, name in enumerate(self.games.names)}
        tasks: dict[tuple[int, int], dict[str, Any]] = {}
        for key in dict.fromkeys(gather_object(keys)):
            task = self._checked(curriculum.propose(step, rng))
            game = key[0] if task.game is None else numbers[task.game]
            tasks[key] = {"game": game, "max_turns": task.max_turns}
        return [{**row, **tasks[key]} for row, key in zip(starts, keys, strict=True)]

    def report(
        self,
        episodes: Sequence[Episode],
        games: Sequence[int],
        seats: Sequence[Seats],
        step: int,
    ) -> None:
        """Tells the curriculum how the episodes of all processes ended."""
        if self.curriculum is None:
            return
        outcomes = [
            self._outcome(episode, game, policies)
            for episode, game, policies in zip(episodes, games, seats, strict=True)
            if episode.parent is None
            and not is_constant(self.games.rules[game].zero_sum, policies)
        ]
        self.curriculum.update(
            [Outcome(*fields) for fields in gather_object(outcomes)], step
        )

    def save(self, checkpoint: Path) -> None:
        """Writes the curriculum's state; only the main process calls it."""
        if self.curriculum is not None:
            content = {**self._owner, "state": self.curriculum.state_dict()}
            write_whole(checkpoint / CURRICULUM_FILE, json.dumps(content))

    def load(self, checkpoint: Path) -> None:
        """Goes on from a checkpoint.

        Raises:
            ValueError: it is of another curriculum, or of other games.
        """
        if self.curriculum is None:
            return
        content = read_owned(checkpoint / CURRICULUM_FILE, self._owner)
        self.curriculum.load_state_dict(content["state"])

    @property
    def _owner(self) -> dict[str, Any]:
        """The curriculum and the games whose outcomes a state is made of."""
        return {"curriculum": self.args.curriculum, "games": self.games.names}

    def _outcome(self, episode: Episode, game: int, seats: Seats) -> Outcome:
        rules = self.games.rules[game]
        pairs = zip(episode.returns, seats, strict=True)
        mean = float(np.mean([value for value, policy in pairs if policy == SELF]))
        share = (mean - rules.min_return) / (rules.max_return - rules.min_return)
        return Outcome(self.games.names[game], min(max(share, 0.0), 1.0))

    def _checked(self, task: Task) -> Task:
        """A task that a curriculum gave.

        Raises:
            ValueError: an unknown game, or a limit that is no integer above 0.
        """
        limit = task.max_turns
        is_limit = limit is None or (isinstance(limit, int) and limit > 0)
        if is_limit and task.game in (None, *self.games.names):
            return task
        raise ValueError(
            f"curriculum {self.args.curriculum!r}: want a game of {self.games.names} "
            f"and max_turns above 0, or None, got {task!r}; see "
            "arena_trainers.curricula.testing.check_curriculum"
        )
