"""The mean return of training episodes with the luck taken out, by which the best model is chosen.

The deals of training episodes differ from step to step, so a raw mean chooses lucky steps. In games
with exact values (`arena_eval.values`, `solver`) each log also has the mean with the luck taken out,
`arena/<game>/luck_out`, if its variance is smaller, computed as by `arena eval`.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import NDArray
from transformers import TrainerControl, TrainerState

from arena_eval.confidence_sequences import PLANNED
from arena_eval.luck import adjusted_returns, helps
from arena_eval.recorded_luck import EXACT_VALUES, LuckCorrections
from arena_trainers.matchmaking.protocol import SELF
from arena_trainers.processes import gather_shares
from arena_trainers.runs.callbacks.callback import Callback
from arena_trainers.train.games import GamePlan
from arena_wrappers import Episode, Policy

if TYPE_CHECKING:
    from arena_trainers.train.trainer import TurnGRPOTrainer

LUCK_OUT = "luck_out"  # end of the figure's name
Lineup = tuple[str, ...]  # who plays each seat


class LuckOut(Callback):
    """Adds the mean since the last log with the luck taken out, of the seats that learn.

    All processes take part.

    Args:
        trainer: its last episodes are read.
        plan: the only game, with exact values.
    """

    def __init__(self, trainer: "TurnGRPOTrainer", plan: GamePlan) -> None:
        self.trainer, self.plan = trainer, plan
        self._luck: dict[Lineup, LuckCorrections] = {}
        self._played: Any = None  # by the trainer, at the last step
        self._pairs: list[tuple[float, NDArray[np.float64]]] = []  # since the last log

    def stepped(self, state: TrainerState, control: TrainerControl) -> None:
        played = self.trainer.last_played
        if played is self._played:
            return
        self._played = played
        lineups: dict[Lineup, list[Episode]] = {}
        for episode, seats in zip(played.first_episodes, played.seats, strict=True):
            if episode.parent is None:  # candidates may be selected by their return
                lineups.setdefault(tuple(seats), []).append(episode)
        pairs = [
            pair
            for lineup, episodes in lineups.items()
            for pair in self._of_lineup(lineup, episodes)
        ]
        self._pairs += gather_shares(pairs)

    def logged(self, state: TrainerState, logs: dict[str, Any]) -> None:
        if "loss" not in logs:
            return  # the summary at the end
        pairs, self._pairs = self._pairs, []
        if len(pairs) < PLANNED.min_adjusted:
            return
        returns = np.array([value for value, _ in pairs])
        adjusted = adjusted_returns(returns, np.array([row for _, row in pairs]))
        if helps(returns, adjusted):
            logs[f"arena/{self.plan.name}/{LUCK_OUT}"] = float(adjusted.mean())

    def _of_lineup(
        self, lineup: Lineup, episodes: Sequence[Episode]
    ) -> list[tuple[float, NDArray[np.float64]]]:
        """The mean return of the seats that learn, and its corrections, of each episode."""
        seats = [seat for seat, name in enumerate(lineup) if name == SELF]
        others = {name for name in lineup if name != SELF}
        if lineup not in self._luck:
            learner = self.trainer.matching.learner
            opponent: Policy | Literal["self"] = "self"
            knows_seats = len(seats) == 1 and len(others) == 1
            if knows_seats:
                opponent = self.trainer.games.opponents[min(others)]
            self._luck[lineup] = LuckCorrections(
                self.plan.wrapper,
                learner,
                opponent,
                EXACT_VALUES,
                knows_seats=knows_seats,
            )
        luck = self._luck[lineup]
        rows = [luck.rows(seat, episodes, len(episodes)) for seat in seats]
        returns = [[episode.returns[seat] for seat in seats] for episode in episodes]
        return [
            *zip(np.mean(returns, axis=1).tolist(), np.mean(rows, axis=0), strict=True)
        ]
