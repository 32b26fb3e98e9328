"""The model that learns against the model that self-play started from, during training.

A score is a mean over episodes with seeds of their own, the same at each measurement. So the
start itself has score 0 on average. In an episode of a competitive or mixed game the learner
has one seat, which rotates, and the start has the others; the episode counts with the
learner's return minus the mean return of the others. In a cooperative game, or one with a
single seat, each of the two plays all seats; an episode counts with the difference of their
mean returns.
"""

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_trainers.lm.policy import LMPolicy
from arena_trainers.train.games import GamePlan, different_games
from arena_wrappers import EpisodePlan, Policy, play, play_plans

if TYPE_CHECKING:
    from arena_trainers.train.trainer import TurnGRPOTrainer

SCORE = "against_start"  # of metrics: arena/<game>/against_start


class Score(NamedTuple):
    """A mean difference of returns, and its standard error."""

    mean: float
    error: float


class AgainstStart(TrainerCallback):
    """Measures the learner against the start every so many steps.

    Every process has it; the main one plays. The start's model stays in its memory.

    Args:
        trainer: its policy learns.
        start: the policy of the start; None in other processes.
        every: steps between measurements.
        num_episodes: of each measurement and game.
    """

    def __init__(
        self,
        trainer: "TurnGRPOTrainer",
        start: LMPolicy | None,
        every: int,
        num_episodes: int,
    ) -> None:
        self.trainer, self.start = trainer, start
        self.every, self.num_episodes = every, num_episodes
        self._found: tuple[int, dict[str, float]] = (-1, {})

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> TrainerControl:
        if state.global_step % self.every == 0:
            with self.trainer.shards.weights_for_play():
                if self.start is not None:
                    self._found = state.global_step, self._measure(self.start)
            control.should_log = True
        return control

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        step, found = self._found
        if logs is not None and step == state.global_step:
            logs.update(found)

    def _measure(self, start: LMPolicy) -> dict[str, float]:
        found = {}
        for plan in different_games(self.trainer.games.plans):
            own = self.trainer.policy
            score = score_against(plan, own, start, self.num_episodes)
            found[f"arena/{plan.name}/{SCORE}"] = score.mean
            found[f"arena/{plan.name}/{SCORE}_error"] = score.error
        return found


def score_against(
    plan: GamePlan, learner: Policy, start: Policy, num_episodes: int
) -> Score:
    """The score of one policy against another in a game.

    Args:
        plan: the game.
        learner: the policy that is measured.
        start: the other policy.
        num_episodes: at least 2.
    """
    num_seats, seeds = plan.game.num_players, range(num_episodes)
    if num_seats == 1 or plan.game.kind == "cooperative":
        one, other = (
            play(plan.env_fn, who, seeds, on_error="raise") for who in (learner, start)
        )
        values = [
            float(np.mean(a.returns) - np.mean(b.returns))
            for a, b in zip(one, other, strict=True)
        ]
    else:
        plans = []
        for seed in seeds:
            seats = [start] * num_seats
            seats[seed % num_seats] = learner
            plans.append(EpisodePlan(plan.env_fn, seats, seed))
        values = []
        for seed, episode in zip(
            seeds, play_plans(plans, on_error="raise"), strict=True
        ):
            returns = list(episode.returns)
            own = returns.pop(seed % num_seats)
            values.append(own - float(np.mean(returns)))
    error = float(np.std(values, ddof=1)) / num_episodes**0.5
    return Score(float(np.mean(values)), error)
