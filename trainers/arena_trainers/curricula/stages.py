"""One set of games after the other: the next stage comes by steps, or by success.

Stages with a threshold of performance follow "Curriculum Learning for Reinforcement Learning
Domains: A Framework and Survey" (https://arxiv.org/abs/2003.04960), section 3, as a sequence
of tasks with a criterion for the end of each.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from arena_envs.checks import check_count
from arena_envs.game import AnyGame, check_number
from arena_trainers.curricula.protocol import (
    BaseCurriculum,
    Outcome,
    Task,
    check_games,
)


class Stages(BaseCurriculum):
    """The games of the current stage, each equally often.

    Args:
        stages: mappings of `games`, a list of names, and either `steps`, the optimizer steps
            of the stage, or `success`, the mean success at which it ends. The last has
            neither, and never ends. None: each game of the run is a stage, in the order of the
            run, such as the games of a ladder.
        window: episodes of the stage over which the success is a mean.
        steps: without `stages`, the optimizer steps of each.
        success: without `stages`, the mean success at which each ends.

    Raises:
        ValueError: a stage is no such mapping, or there are `stages` beside `steps` or `success`.
    """

    def __init__(
        self,
        *,
        stages: Sequence[Mapping[str, Any]] | None = None,
        window: int = 200,
        steps: int | None = None,
        success: float | None = None,
    ) -> None:
        check_count("window", window)
        ends = {"steps": steps, "success": success}
        self._ends = {name: end for name, end in ends.items() if end is not None}
        if len(self._ends) + (stages is not None) != 1:
            raise ValueError(
                "want stages, or one of steps and success where each game is a stage, got "
                f"{stages!r:.200}, {steps} and {success}; give one of the three"
            )
        if stages is None:
            _check_stage({"games": ["game"], **self._ends}, is_last=False)
        else:
            _check_stages(stages)
        self.stages = stages or ()
        self.reads_success = success is not None or any(
            "success" in stage for stage in self.stages
        )
        self.window = window
        self.stage, self._first_step = 0, 0
        self._recent: list[float] = []

    def prepare(self, games: Mapping[str, AnyGame]) -> None:
        if self._ends:
            *first, last = games
            self.stages = [{"games": [name], **self._ends} for name in first]
            self.stages = [*self.stages, {"games": [last]}]
        check_games([name for stage in self.stages for name in stage["games"]], games)

    def propose(self, step: int, rng: np.random.Generator) -> Task:
        while step - self._first_step >= self.stages[self.stage].get("steps", math.inf):
            self._begin_stage(self._first_step + self.stages[self.stage]["steps"])
        games = self.stages[self.stage]["games"]
        return Task(games[int(rng.integers(len(games)))])

    def update(self, outcomes: Sequence[Outcome], step: int) -> None:
        stage = self.stages[self.stage]
        successes = [
            outcome.success for outcome in outcomes if outcome.game in stage["games"]
        ]
        self._recent = [*self._recent, *successes][-self.window :]
        is_full = "success" in stage and len(self._recent) == self.window
        if is_full and np.mean(self._recent) >= stage["success"]:
            self._begin_stage(step + 1)

    def _begin_stage(self, first_step: int) -> None:
        self.stage, self._first_step, self._recent = self.stage + 1, first_step, []

    def state_dict(self) -> dict[str, Any]:
        recent = list(self._recent)
        return {"stage": self.stage, "first_step": self._first_step, "recent": recent}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.stage, self._first_step = state["stage"], state["first_step"]
        self._recent = list(state["recent"])


def _check_stages(stages: Sequence[Mapping[str, Any]]) -> None:
    if not isinstance(stages, Sequence) or isinstance(stages, str) or not stages:
        raise ValueError(f"want stages as a list of mappings, got {stages!r}")
    for number, stage in enumerate(stages):
        _check_stage(stage, is_last=number == len(stages) - 1)


def _check_stage(stage: Mapping[str, Any], is_last: bool) -> None:
    expected = (
        "want a stage as {games: [...], steps: N} or {games: [...], success: 0.8}"
    )
    if is_last:
        expected = "want the last stage as {games: [...]}, because it never ends"
    ends = {"steps", "success"}
    if not isinstance(stage, Mapping) or not stage.keys() <= {"games", *ends}:
        raise ValueError(f"{expected}, got {stage!r}")
    games = stage.get("games")
    is_list = isinstance(games, list | tuple) and bool(games)
    num_ends = 0 if is_last else 1
    if not is_list or len(ends & stage.keys()) != num_ends:
        raise ValueError(f"{expected}, got {stage!r}")
    if "steps" in stage:
        check_count("steps of a stage", stage["steps"])
    if "success" in stage:
        check_number("success of a stage", stage["success"], 0, 1)
