"""The curricula of this package, their papers, and how they depart from these.

Games by weights that move, step by step, from one mixture to another.

A linear schedule between two mixtures is the plainest form of curriculum: "Curriculum Learning"
(https://dl.acm.org/doi/10.1145/1553374.1553380), section 2, where the weights of examples
change over time. Departure: hard games may get weight 0 at first, and easy ones at the end.

One set of games after the other: the next stage comes by steps, or by success.

Stages with a threshold of performance follow "Curriculum Learning for Reinforcement Learning
Domains: A Framework and Survey" (https://arxiv.org/abs/2003.04960), section 3, as a sequence
of tasks with a criterion for the end of each.

Few turns first: the limit of turns grows in steps.

ScalingInter-RL of "AgentGym-RL: Training LLM Agents for Long-Horizon Decision Making through
Multi-Turn Reinforcement Learning" (https://arxiv.org/abs/2509.08755). A cut episode is truncated:
it has the rewards that were paid up to the cut.

Games whose success lies in a band: neither too hard nor too easy at this time.

"Automatic Goal Generation for Reinforcement Learning Agents" (https://arxiv.org/abs/1705.06366)
trains on goals of intermediate difficulty, with a success between R_min = 0.1 and R_max = 0.9.
Departures: the tasks are a list, and are not generated; those outside of the band keep a small
weight, so that they are noticed when they come into it.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from arena_envs.checks import check_count
from arena_envs.game import AnyGame, check_number
from arena_trainers.curricula.protocol import (
    BaseCurriculum,
    Outcome,
    Task,
    check_games,
    check_weights,
)


class Weights(BaseCurriculum):
    """The game of each start, drawn by weights that move linearly.

    Args:
        start: weights of games at step 0, by name; 0 for games that are not named.
        end: weights from step `steps` on.
        steps: length of the way.

    Raises:
        ValueError: a weight is negative, or none is above 0.
    """

    def __init__(
        self, *, start: Mapping[str, float], end: Mapping[str, float], steps: int
    ) -> None:
        check_count("steps", steps)
        for name, weights in (("start", start), ("end", end)):
            check_weights(f"{name} as weights of games", weights, "kuhn_poker")
        self.steps = steps
        self.games = list(dict.fromkeys([*start, *end]))
        self._start = self._shares(start)
        self._end = self._shares(end)

    def prepare(self, games: Mapping[str, AnyGame]) -> None:
        check_games(self.games, games)

    def propose(self, step: int, rng: np.random.Generator) -> Task:
        part = min(step / self.steps, 1.0)
        chances = (1 - part) * self._start + part * self._end
        return Task(self.games[int(rng.choice(len(self.games), p=chances))])

    def _shares(self, weights: Mapping[str, float]) -> NDArray[np.float64]:
        values = np.array([weights.get(name, 0.0) for name in self.games], float)
        shares: NDArray[np.float64] = values / values.sum()
        return shares


class Stages(BaseCurriculum):
    """The games of the current stage, each equally often.

    Args:
        stages: mappings of `games`, a list of names, and either `steps`, the optimizer steps
            of the stage, or `success`, the mean success at which it ends. The last has
            neither, and never ends.
        window: episodes of the stage over which the success is a mean.

    Raises:
        ValueError: a stage is no such mapping.
    """

    def __init__(
        self, *, stages: Sequence[Mapping[str, Any]], window: int = 200
    ) -> None:
        check_count("window", window)
        if not isinstance(stages, Sequence) or isinstance(stages, str) or not stages:
            raise ValueError(f"want stages as a list of mappings, got {stages!r}")
        for number, stage in enumerate(stages):
            _check_stage(stage, is_last=number == len(stages) - 1)
        self.stages, self.window = stages, window
        self.reads_success = any("success" in stage for stage in stages)
        self.stage, self._first_step = 0, 0
        self._recent: list[float] = []

    def prepare(self, games: Mapping[str, AnyGame]) -> None:
        check_games([name for stage in self.stages for name in stage["games"]], games)

    def propose(self, step: int, rng: np.random.Generator) -> Task:
        while step - self._first_step >= self.stages[self.stage].get("steps", math.inf):
            self._go_on(self._first_step + self.stages[self.stage]["steps"])
        games = self.stages[self.stage]["games"]
        return Task(games[int(rng.integers(len(games)))])

    def update(self, outcomes: Sequence[Outcome], step: int) -> None:
        stage = self.stages[self.stage]
        found = [o.success for o in outcomes if o.game in stage["games"]]
        self._recent = [*self._recent, *found][-self.window :]
        is_full = "success" in stage and len(self._recent) == self.window
        if is_full and np.mean(self._recent) >= stage["success"]:
            self._go_on(step + 1)

    def _go_on(self, first_step: int) -> None:
        self.stage, self._first_step, self._recent = self.stage + 1, first_step, []

    def state_dict(self) -> dict[str, Any]:
        recent = list(self._recent)
        return {"stage": self.stage, "first_step": self._first_step, "recent": recent}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.stage, self._first_step = state["stage"], state["first_step"]
        self._recent = list(state["recent"])


def _check_stage(stage: Any, is_last: bool) -> None:
    wanted = "want a stage as {games: [...], steps: N} or {games: [...], success: 0.8}"
    if is_last:
        wanted = "want the last stage as {games: [...]}, because it never ends"
    ends = {"steps", "success"}
    if not isinstance(stage, Mapping) or not stage.keys() <= {"games", *ends}:
        raise ValueError(f"{wanted}, got {stage!r}")
    games = stage.get("games")
    is_list = isinstance(games, list | tuple) and bool(games)
    if not is_list or len(ends & stage.keys()) != (0 if is_last else 1):
        raise ValueError(f"{wanted}, got {stage!r}")
    if "steps" in stage:
        check_count("steps of a stage", stage["steps"])
    if "success" in stage:
        check_number("success of a stage", stage["success"], 0, 1)


class Horizon(BaseCurriculum):
    """The games of the run, with a limit of turns that grows.

    Args:
        horizons: the limits, one after the other, in ascending order; None for no limit, at
            the end. A limit counts the turns of all seats together.
        steps: optimizer steps of each limit; the last one stays.

    Raises:
        ValueError: `horizons` is no such list.
    """

    def __init__(self, *, horizons: Sequence[int | None], steps: int = 100) -> None:
        check_count("steps", steps)
        if not isinstance(horizons, Sequence) or isinstance(horizons, str):
            raise ValueError(f"want horizons as a list, got {horizons!r}")
        limits = [limit for limit in horizons if limit is not None]
        for limit in limits:
            check_count("each limit of horizons", limit)
        ascending = sorted(set(limits))
        if not limits or list(horizons) not in (ascending, [*ascending, None]):
            raise ValueError(
                f"want horizons in ascending order, None at the end, got {horizons!r}; "
                "write [4, 8, null]"
            )
        self.horizons, self.steps = horizons, steps

    def propose(self, step: int, rng: np.random.Generator) -> Task:
        number = min(step // self.steps, len(self.horizons) - 1)
        return Task(max_turns=self.horizons[number])


class Band(BaseCurriculum):
    """The game of each start, drawn mostly from those within the band.

    Args:
        low: lowest success of the band.
        high: highest success of the band.
        outside: weight of a game outside of the band, where one within it has 1.
        decay: weight of a game's earlier outcomes in its success, per batch that played it.

    Raises:
        ValueError: a number is not from 0 to 1, or the band is empty.
    """

    reads_success = True

    def __init__(
        self,
        *,
        low: float = 0.1,
        high: float = 0.9,
        outside: float = 0.05,
        decay: float = 0.9,
    ) -> None:
        given = {"low": low, "high": high, "outside": outside, "decay": decay}
        for name, value in given.items():
            check_number(name, value, 0, 1)
        if low > high:
            raise ValueError(f"want low of at most high, got {low} and {high}")
        if outside == 0:
            raise ValueError("want outside above 0, else no game comes back, got 0")
        self.low, self.high, self.outside, self.decay = low, high, outside, decay
        self.games: list[str] = []
        self._sums: dict[str, tuple[float, float]] = {}  # of successes, and of weights

    def prepare(self, games: Mapping[str, AnyGame]) -> None:
        if len(games) < 2:
            raise ValueError(
                "want at least two games for the curriculum 'band', got "
                f"{list(games)}; name knobs of a game, list it with several params, or "
                "leave the curriculum out"
            )
        self.games = list(games)

    def propose(self, step: int, rng: np.random.Generator) -> Task:
        known = [self.success(name) for name in self.games]
        fits = [x is None or self.low <= x <= self.high for x in known]
        weights = np.array([1.0 if fit else self.outside for fit in fits])
        chosen = int(rng.choice(len(weights), p=weights / weights.sum()))
        return Task(self.games[chosen])

    def success(self, game: str) -> float | None:
        """The success in a game, a mean with decay; None before its first outcome."""
        total, weight = self._sums.get(game, (0.0, 0.0))
        return total / weight if weight > 0 else None

    def update(self, outcomes: Sequence[Outcome], step: int) -> None:
        for game in dict.fromkeys(outcome.game for outcome in outcomes):
            found = [o.success for o in outcomes if o.game == game]
            total, weight = self._sums.get(game, (0.0, 0.0))
            self._sums[game] = (
                self.decay * total + sum(found),
                self.decay * weight + len(found),
            )

    def state_dict(self) -> dict[str, Any]:
        return {"sums": {game: list(pair) for game, pair in self._sums.items()}}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self._sums = {game: (pair[0], pair[1]) for game, pair in state["sums"].items()}
