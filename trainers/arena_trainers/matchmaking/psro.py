"""PSRO: snapshots are met by an equilibrium of the matches between them.

"A Unified Game-Theoretic Approach to Multiagent Reinforcement Learning"
(https://arxiv.org/abs/1711.00832). The population is the snapshots. Its payoff matrix is
filled by matches, a meta-strategy solves that matrix game, and the learner trains as a best
response to it. Departures: the response starts from the last weights, and joins the
population after `every` steps, whether or not it has converged; the matrix is that of the
symmetrised game, in which each pair plays both seats.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from arena_envs.checks import check_count
from arena_envs.game import AnyGame
from arena_envs.solvers import solve_matrix
from arena_trainers.matchmaking.past_selves import PastSelves
from arena_trainers.matchmaking.protocol import (
    EpisodeReturns,
    Floats,
    Match,
    snapshot_name,
    snapshot_step,
)

PolicyPair = tuple[int, int]  # the steps of two snapshots, in ascending order

METAS = ("nash", "replicator")


@dataclass(kw_only=True, eq=False)
class PSRO(PastSelves):
    """Each start against one snapshot, drawn from the meta-strategy of its game.

    Args:
        meta: `"nash"`, an exact equilibrium by linear programming (`solve_matrix`), or
            `"replicator"`, `projected_replicator_dynamics`, which gives every snapshot some
            probability.
        num_matches: episodes between two snapshots in each order of seats.
        every: steps between snapshots.
        max_kept: most snapshots in the population, see `History`.
        max_live: how many snapshots stay in memory.
    """

    meta: str = "nash"
    num_matches: int = 16
    window: None = field(default=None, init=False)
    max_kept: int = 16

    def __post_init__(self) -> None:
        if self.meta not in METAS:
            raise ValueError(f"want meta among {', '.join(METAS)}, got {self.meta!r}")
        check_count("num_matches", self.num_matches)
        super().__post_init__()
        self._games: list[str] = []
        self._payoffs: dict[str, dict[PolicyPair, list[float]]] = {}  # sum and episodes
        self._solved: dict[tuple[str, tuple[int, ...]], Floats] = {}

    def prepare(self, games: Mapping[str, AnyGame]) -> None:
        """Refuses games other than zero-sum games of two seats."""
        for name, game in games.items():
            if game.num_players != 2 or not game.zero_sum:
                raise ValueError(
                    f"matchmaker 'psro' wants zero-sum games of two seats, got {name}; "
                    "use past_selves"
                )
        if self.meta == "nash":
            solve_matrix([[0.0]])  # says now that scipy is missing
        self._games = list(games)

    def matches(self, step: int) -> list[Match]:
        """Both orders of seats for each pair of snapshots that has not met."""
        matches = []
        for game in self._games:
            for pair in combinations(self.history.steps(step), 2):
                if pair not in self._payoffs.get(game, {}):
                    earlier, later = map(snapshot_name, pair)
                    matches.append(Match(game, (earlier, later), self.num_matches))
                    matches.append(Match(game, (later, earlier), self.num_matches))
        return matches

    def payoffs(self, game: str, steps: Sequence[int]) -> Floats:
        """float64[n, n], mean return of row against column; 0 for pairs that have not met."""
        matrix = np.zeros((len(steps), len(steps)))
        for (i, first), (j, second) in combinations(enumerate(steps), 2):
            total, episodes = self._payoffs.get(game, {}).get((first, second), (0.0, 0))
            matrix[i, j] = total / max(episodes, 1)
        return matrix - matrix.T

    def weights(self, game: str, steps: Sequence[int]) -> Floats:
        """float64[n], the meta-strategy: the probability of each snapshot in a game."""
        key = game, tuple(steps)
        if key not in self._solved:
            payoffs = self.payoffs(game, steps)
            if self.meta == "replicator":
                self._solved[key] = projected_replicator_dynamics(payoffs)
            else:
                row = solve_matrix(payoffs).row
                self._solved[key] = row / row.sum()
        return self._solved[key]

    def update(self, results: Sequence[EpisodeReturns], step: int) -> None:
        for result in results:
            first, second = map(snapshot_step, result.seats)
            if first is None or second is None or first == second:
                continue
            records = self._payoffs.setdefault(result.game, {})
            pair = min(first, second), max(first, second)
            seat = 0 if first < second else 1  # of the earlier snapshot
            record = records.setdefault(pair, [0.0, 0.0])
            record[0] += result.returns[seat]
            record[1] += 1
            self._solved.clear()

    def state_dict(self) -> dict[str, Any]:
        return {
            game: [[*pair, *record] for pair, record in sorted(records.items())]
            for game, records in self._payoffs.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._payoffs = {
            game: {(int(first), int(second)): record for first, second, *record in rows}
            for game, rows in state.items()
        }
        self._solved.clear()


def projected_replicator_dynamics(
    payoffs: Floats, *, floor: float = 0.01, rate: float = 0.1, num_steps: int = 2000
) -> Floats:
    """A strategy of a symmetric matrix game in which no row falls below a floor.

        π ← P(π + rate · π ⊙ (A π - πᵀ A π))

    Section 3.1 of https://arxiv.org/abs/1711.00832. P raises entries to floor / n and scales
    what lies above it, so that the sum is 1. The paper's P is the nearest such point: it takes
    the same amount from all entries, which can hold a good row at the floor for ever. The
    result is the mean over all steps. Payoffs are divided by the largest, so that their unit
    does not matter.

    Args:
        payoffs: float64[n, n], what the row gets against the column.
        floor: n times the smallest entry.
        rate: size of a step.
        num_steps: number of steps.

    Returns:
        float64[n], from uniform play.

    >>> payoffs = np.array([[0.0, 1.0], [-1.0, 0.0]])  # row 0 dominates
    >>> projected_replicator_dynamics(payoffs).round(2).tolist()
    [0.99, 0.01]
    """
    n = len(payoffs)
    scaled = payoffs / max(float(np.abs(payoffs).max()), 1e-12)
    least = floor / n
    strategy = np.full(n, 1 / n)
    total = np.zeros(n)
    for _ in range(num_steps):
        fitness = scaled @ strategy
        strategy = strategy + rate * strategy * (fitness - strategy @ fitness)
        above = np.maximum(strategy - least, 0)
        strategy = least + (1 - floor) * above / above.sum()
        total += strategy
    mean: Floats = total / total.sum()
    return mean
