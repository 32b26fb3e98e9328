"""The score of the learner against the model that training started from.

It is a mean over episodes with seeds of their own, the same at each measurement, so that the start
itself has score 0 on average. In a competitive or mixed game the learner has one seat, which
rotates; an episode counts with its return minus the mean return of the others. In a cooperative
game, or one with a single seat, each of the two plays all seats, and the difference of their mean
returns counts. The luck of deals is taken out where that helps, as in `arena eval`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray
from transformers import TrainerState

from arena_eval.confidence_sequences import PLANNED
from arena_eval.luck import adjusted_returns, helps
from arena_eval.recorded_luck import LuckCorrections
from arena_studio.report.collapse import START_METRIC
from arena_trainers.processes import gather_shares, process_share
from arena_trainers.runs.callbacks.measuring import Measuring
from arena_trainers.train.games import GamePlan, different_games
from arena_wrappers import EpisodePlan, Policy, play, play_plans

if TYPE_CHECKING:
    from arena_trainers.train.trainer import TurnGRPOTrainer


Floats = NDArray[np.float64]


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
    seeds = process_share(range(num_episodes))
    luck = LuckCorrections(plan.wrapper, learner, "self", knows_seats=False)
    is_team = plan.game.num_players == 1 or plan.game.kind == "cooperative"
    values_of = _team_values if is_team else _seat_values
    pairs = gather_shares(values_of(plan, learner, start, seeds, luck, num_episodes))
    values = np.array([value for value, _ in pairs])
    if luck.name is not None and num_episodes >= PLANNED.min_adjusted:
        adjusted = adjusted_returns(values, np.array([row for _, row in pairs]))
        values = adjusted if helps(values, adjusted) else values
    error = float(np.std(values, ddof=1)) / num_episodes**0.5
    return float(np.mean(values)), error


def _team_values(
    plan: GamePlan,
    learner: Policy,
    start: Policy,
    seeds: Sequence[int],
    luck: LuckCorrections,
    num_episodes: int,
) -> list[tuple[float, Floats]]:
    """The value of each seed where each of the two plays all seats, and the corrections of its luck."""
    parts = []
    for policy in (learner, start):
        played = play(plan.env_fn, policy, seeds, on_error="raise")
        returns = [float(np.mean(episode.returns)) for episode in played]
        seats = range(plan.game.num_players)
        rows = np.mean([luck.rows(s, played, num_episodes) for s in seats], axis=0)
        parts.append((returns, rows))
    (returns, rows), (start_returns, start_rows) = parts
    gaps = np.subtract(returns, start_returns).tolist()
    return [*zip(gaps, rows - start_rows, strict=True)]


def _seat_values(
    plan: GamePlan,
    learner: Policy,
    start: Policy,
    seeds: Sequence[int],
    luck: LuckCorrections,
    num_episodes: int,
) -> list[tuple[float, Floats]]:
    """As `_team_values`, where the learner has one seat, which rotates."""
    num_seats = plan.game.num_players
    plans = []
    for seed in seeds:
        seats = [start] * num_seats
        seats[seed % num_seats] = learner
        plans.append(EpisodePlan(plan.env_fn, seats, seed))
    episodes = play_plans(plans, on_error="raise")
    weights = np.full((len(seeds), num_seats), -1 / (num_seats - 1))
    for row, seed in zip(weights, seeds, strict=True):
        row[seed % num_seats] = 1.0
    all_rows = [luck.rows(s, episodes, num_episodes) for s in range(num_seats)]
    corrections = np.einsum("es,sek->ek", weights, np.array(all_rows))
    values = [
        float(row @ np.array(episode.returns))
        for row, episode in zip(weights, episodes, strict=True)
    ]
    return [*zip(values, corrections, strict=True)]
