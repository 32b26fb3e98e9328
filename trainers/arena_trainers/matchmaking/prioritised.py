"""Prioritised fictitious self-play: snapshots that beat the learner come more often.

"Grandmaster level in StarCraft II using multi-agent reinforcement learning"
(https://doi.org/10.1038/s41586-019-1724-z), methods: an opponent's weight is f(x) = (1 - x)^p,
where x is the learner's rate of wins against it. Departures: there is one learner and no
league; x counts a draw as half a win, forgets at a rate, and starts from one draw.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from arena_envs.game import AnyGame, check_number
from arena_trainers.matchmaking.past_selves import PastSelves
from arena_trainers.matchmaking.protocol import (
    SELF,
    EpisodeReturns,
    Floats,
    snapshot_step,
)

WinRecord = list[float]  # wins and episodes, both decayed


@dataclass(kw_only=True, eq=False)
class Prioritised(PastSelves):
    """Each start against one snapshot, drawn by (1 - rate of wins) ** power.

    Args:
        power: 0 for equal weights; larger values prefer the hardest opponents more.
        decay: factor of old results at each batch.
        every: steps between snapshots.
        window: draws from this many of the newest; None for the whole history.
        max_kept: most snapshots that are kept without a window, see `History`.
        max_live: how many snapshots stay in memory.
    """

    power: float = 2.0
    decay: float = 0.95

    def __post_init__(self) -> None:
        check_number("power", self.power, 0, 100)
        check_number("decay", self.decay, 0, 1)
        super().__post_init__()
        self._records: dict[str, dict[int, WinRecord]] = {}

    def prepare(self, games: Mapping[str, AnyGame]) -> None:
        """Refuses cooperative games, where no opponent is harder than another."""
        for name, game in games.items():
            if game.kind == "cooperative":
                raise ValueError(
                    f"matchmaker 'prioritised' wants games with opponents, got {name}, "
                    "which is cooperative; use past_selves"
                )

    def win_rate(self, game: str, step: int) -> float:
        """The learner's rate of wins against a snapshot; 1/2 where nothing is known."""
        wins, episodes = self._records.get(game, {}).get(step, (0.0, 0.0))
        return (wins + 0.5) / (episodes + 1)

    def update(self, results: Sequence[EpisodeReturns], step: int) -> None:
        training_results = [result for result in results if SELF in result.seats]
        if training_results:  # else they are of matches
            for records in self._records.values():
                for record in records.values():
                    record[:] = [self.decay * number for number in record]
        for result in training_results:
            learns = np.array([player == SELF for player in result.seats])
            returns = np.array(result.returns)
            steps = {snapshot_step(player) for player in result.seats}
            for opponent in sorted(step for step in steps if step is not None):
                game_records = self._records.setdefault(result.game, {})
                record = game_records.setdefault(opponent, [0.0, 0.0])
                lead = returns[learns].mean() - returns[~learns].mean()
                record[0] += float(np.sign(lead) + 1) / 2  # a win, or half of one
                record[1] += 1

    def state_dict(self) -> dict[str, Any]:
        return {
            game: [[step, *record] for step, record in sorted(records.items())]
            for game, records in self._records.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._records = {
            game: {int(step): [wins, episodes] for step, wins, episodes in rows}
            for game, rows in state.items()
        }

    def weights(self, game: str, steps: Sequence[int]) -> Floats:
        rates = np.array([self.win_rate(game, step) for step in steps])
        losses = 1 - rates  # above 0
        weights = (losses / losses.max()) ** self.power  # else a power may make all 0
        chances: Floats = weights / weights.sum()
        return chances
