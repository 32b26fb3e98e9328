"""The matchmakers of this package, their papers, and how they depart from these.

Past selves: the learner plays its own snapshots, each equally often.

With a window, this is the opponent sampling of "Emergent Complexity via Multi-Agent
Competition" (https://arxiv.org/abs/1710.03748), section 3.2, whose δ is 1 - window / snapshots.
Over the whole history it is fictitious self-play, where one responds to the mean of all past
policies: "Fictitious Self-Play in Extensive-Form Games"
(https://proceedings.mlr.press/v37/heinrich15.html). Departure: the mean is over snapshots,
and the response is a gradient step.

Prioritised fictitious self-play: snapshots that beat the learner come more often.

"Grandmaster level in StarCraft II using multi-agent reinforcement learning"
(https://doi.org/10.1038/s41586-019-1724-z), methods: an opponent's weight is f(x) = (1 - x)^p,
where x is the learner's rate of wins against it. Departures: there is one learner and no
league; x counts a draw as half a win, forgets at a rate, and starts from one draw.

PSRO: snapshots are met by an equilibrium of the matches between them.

"A Unified Game-Theoretic Approach to Multiagent Reinforcement Learning"
(https://arxiv.org/abs/1711.00832). The population is the snapshots. Its payoff matrix is
filled by matches, a meta-strategy solves that matrix game, and the learner trains as a best
response to it. Departures: the response starts from the last weights, and joins the
population after `every` steps, whether or not it has converged; the matrix is that of the
symmetrised game, in which each pair plays both seats.

A mixture of opponents: itself, past selves, bots, models and endpoints, by weights.

The default, 80 % self-play and 20 % past selves, is that of "Dota 2 with Large Scale Deep
Reinforcement Learning" (https://arxiv.org/abs/1912.06680), section 3.4. Departure: past selves
are uniform unless `options` or another matchmaker say otherwise.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

import numpy as np

from arena_envs.checks import check_count
from arena_envs.game import AnyGame, check_number
from arena_envs.solvers import solve_matrix
from arena_trainers.curricula.protocol import check_weights
from arena_trainers.matchmaking.protocol import (
    SELF,
    BaseMatchmaker,
    Floats,
    History,
    Match,
    Matchmaker,
    Result,
    Seats,
    Start,
    against,
    make_matchmaker,
    matchmakers,
    snapshot_name,
    snapshot_step,
)


@dataclass(kw_only=True, eq=False)
class PastSelves(BaseMatchmaker):
    """Each start against one snapshot, drawn uniformly; a random seat learns.

    Args:
        every: steps between snapshots.
        window: draws from this many of the newest; None for the whole history.
        max_kept: most snapshots that are kept without a window, see `History`.
        max_live: how many snapshots stay in memory.
    """

    every: int = 20
    window: int | None = None
    max_kept: int = 32
    max_live: int = 4

    def __post_init__(self) -> None:
        shared = self.every, self.window, self.max_kept, self.max_live
        self.history = History(*shared)

    def snapshots(self, step: int) -> Sequence[int]:
        return self.history.steps(step)

    def assign(
        self, starts: Sequence[Start], step: int, rng: np.random.Generator
    ) -> list[Seats]:
        return self.history.assign(starts, step, rng, self.weights)

    def weights(self, game: str, steps: Sequence[int]) -> Floats | None:
        """float64[n], the probability of each snapshot in a game; None for equal ones."""
        return None


Record = list[float]  # wins and episodes, both decayed


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
        self._records: dict[str, dict[int, Record]] = {}

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

    def update(self, results: Sequence[Result], step: int) -> None:
        trained = [result for result in results if SELF in result.seats]
        if trained:  # else they are of matches
            for records in self._records.values():
                for record in records.values():
                    record[:] = [self.decay * number for number in record]
        for result in trained:
            learns = np.array([who == SELF for who in result.seats])
            paid = np.array(result.returns)
            steps = sorted(
                {s for who in result.seats if (s := snapshot_step(who)) is not None}
            )
            for opponent in steps:
                known = self._records.setdefault(result.game, {})
                record = known.setdefault(opponent, [0.0, 0.0])
                lead = paid[learns].mean() - paid[~learns].mean()
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


Pair = tuple[int, int]  # the steps of two snapshots, in ascending order
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
        self._payoffs: dict[str, dict[Pair, list[float]]] = {}  # sum and episodes
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
        return [
            Match(game, (snapshot_name(one), snapshot_name(other)), self.num_matches)
            for game in self._games
            for pair in combinations(self.history.steps(step), 2)
            if pair not in self._payoffs.get(game, {})
            for one, other in (pair, pair[::-1])
        ]

    def payoffs(self, game: str, steps: Sequence[int]) -> Floats:
        """float64[n, n], mean return of row against column; 0 for pairs that have not met."""
        matrix = np.zeros((len(steps), len(steps)))
        for (i, one), (j, other) in combinations(enumerate(steps), 2):
            total, episodes = self._payoffs.get(game, {}).get((one, other), (0.0, 0))
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

    def update(self, results: Sequence[Result], step: int) -> None:
        for result in results:
            one, other = map(snapshot_step, result.seats)
            if one is None or other is None or one == other:
                continue
            known = self._payoffs.setdefault(result.game, {})
            record = known.setdefault((min(one, other), max(one, other)), [0.0, 0.0])
            record[0] += result.returns[int(one > other)]
            record[1] += 1
            self._solved.clear()

    def state_dict(self) -> dict[str, Any]:
        return {
            game: [[*pair, *record] for pair, record in sorted(known.items())]
            for game, known in self._payoffs.items()
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._payoffs = {
            game: {(int(one), int(other)): record for one, other, *record in rows}
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


DEFAULT = {SELF: 0.8, "past_selves": 0.2}


class Mixture(BaseMatchmaker):
    """Each start against one of several opponents, drawn by weight.

    Args:
        weights: by opponent: `"self"` for self-play, in which every seat learns, another
            matchmaker such as `"past_selves"`, or a policy string such as `"random"`.
        options: options of the matchmakers among them, by name.

    Raises:
        ValueError: a weight is negative, no weight is above 0, the mixture is a part of
            itself, or options are given for what is no part of it.
    """

    def __init__(
        self,
        *,
        weights: Mapping[str, float] = DEFAULT,
        options: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        check_weights("weights of opponents", weights, "self")
        if "mixture" in weights:
            raise ValueError(
                "matchmaker 'mixture' names itself in its weights; give the weights of "
                "its parts in one mapping"
            )
        named = [name for name in weights if name in matchmakers.names()]
        given = dict(options or {})
        for name in given:
            if name not in named:
                raise ValueError(
                    f"want options of matchmakers among the weights {list(weights)}, "
                    f"got options of {name!r}; leave them out, or give it a weight"
                )
        self.parts: dict[str, Matchmaker] = {
            name: make_matchmaker({name: given.get(name)}) for name in named
        }
        self.opponents = list(weights)
        total = math.fsum(weights.values())
        self.chances = [weight / total for weight in weights.values()]
        own = [name for name in weights if name != SELF and name not in self.parts]
        self.policies = (*own, *(p for m in self.parts.values() for p in m.policies))
        self.max_live = sum(part.max_live for part in self.parts.values())

    def prepare(self, games: Mapping[str, AnyGame]) -> None:
        for part in self.parts.values():
            part.prepare(games)

    def snapshots(self, step: int) -> list[int]:
        return sorted({s for part in self.parts.values() for s in part.snapshots(step)})

    def matches(self, step: int) -> list[Match]:
        found = [m for part in self.parts.values() for m in part.matches(step)]
        return list(dict.fromkeys(found))

    def assign(
        self, starts: Sequence[Start], step: int, rng: np.random.Generator
    ) -> list[Seats]:
        drawn = rng.choice(len(self.opponents), size=len(starts), p=self.chances)
        found: dict[int, Seats] = {}
        for number, name in enumerate(self.opponents):
            places = np.flatnonzero(drawn == number).tolist()
            own = [starts[place] for place in places]
            if name in self.parts:
                seats = self.parts[name].assign(own, step, rng)
            elif name == SELF:
                seats = [(SELF,) * start.num_seats for start in own]
            else:
                seats = [against(name, start, rng) for start in own]
            found |= dict(zip(places, seats, strict=True))
        return [found[place] for place in range(len(starts))]

    def update(self, results: Sequence[Result], step: int) -> None:
        """Hands all results to every matchmaker of the mixture."""
        for part in self.parts.values():
            part.update(results, step)

    def state_dict(self) -> dict[str, Any]:
        return {name: part.state_dict() for name, part in self.parts.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        for name, part in self.parts.items():
            part.load_state_dict(state[name])
