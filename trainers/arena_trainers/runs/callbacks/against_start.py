"""The score of the learner against the model that training started from.

It is a mean over episodes with seeds of their own, the same at each measurement, so that the start
itself has score 0 on average. In a competitive or mixed game the learner has one seat, which
rotates; an episode counts with its return minus the mean return of the others. In a cooperative
game, or one with a single seat, each of the two plays all seats, and the difference of their mean
returns counts.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from transformers import TrainerState

from arena_studio.report.collapse import START_METRIC
from arena_trainers.processes import gather_shares, process_share
from arena_trainers.runs.callbacks.measuring import Measuring
from arena_trainers.train.games import GamePlan, different_games
from arena_wrappers import EpisodePlan, Policy, play, play_plans

if TYPE_CHECKING:
    from arena_trainers.train.trainer import TurnGRPOTrainer


class AgainstStart(Measuring):
    """Measures the learner against the start every so many steps.

    Every process plays its share. The start's model stays in its memory.

    Args:
        trainer: its policy learns.
        start: the policy of the start.
        every: steps between measurements.
        num_episodes: of each measurement and game.
    """

    def __init__(
        self,
        trainer: "TurnGRPOTrainer",
        start: Policy,
        every: int,
        num_episodes: int,
    ) -> None:
        super().__init__(every, trainer.sharded_weights.weights_for_play)
        self.trainer, self.start, self.num_episodes = trainer, start, num_episodes

    def measure(self, state: TrainerState) -> dict[str, float]:
        figures: dict[str, float] = {}
        for plan in different_games(self.trainer.games.plans):
            learner = self.trainer.matching.learner
            mean, error = score_against(plan, learner, self.start, self.num_episodes)
            name = f"arena/{plan.name}/{START_METRIC}"
            figures |= {name: mean, f"{name}_error": error}
        return figures


def score_against(
    plan: GamePlan, learner: Policy, start: Policy, num_episodes: int
) -> tuple[float, float]:
    """The score of one policy against another in a game, with its standard error.

    All processes call it, and play their shares.
    """
    own_values = _values(plan, learner, start, process_share(range(num_episodes)))
    values = gather_shares(own_values)
    error = float(np.std(values, ddof=1)) / num_episodes**0.5
    return float(np.mean(values)), error


def _values(
    plan: GamePlan, learner: Policy, start: Policy, seeds: Sequence[int]
) -> list[float]:
    """What the episode of each seed counts."""
    num_seats = plan.game.num_players
    if num_seats == 1 or plan.game.kind == "cooperative":
        of_learner = play(plan.env_fn, learner, seeds, on_error="raise")
        of_start = play(plan.env_fn, start, seeds, on_error="raise")
        return [
            float(np.mean(a.returns) - np.mean(b.returns))
            for a, b in zip(of_learner, of_start, strict=True)
        ]
    plans = []
    for seed in seeds:
        seats = [start] * num_seats
        seats[seed % num_seats] = learner
        plans.append(EpisodePlan(plan.env_fn, seats, seed))
    values = []
    for seed, episode in zip(seeds, play_plans(plans, on_error="raise"), strict=True):
        returns = list(episode.returns)
        learner_return = returns.pop(seed % num_seats)
        values.append(learner_return - float(np.mean(returns)))
    return values
