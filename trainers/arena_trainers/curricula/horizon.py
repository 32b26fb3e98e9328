"""Few turns first: the limit of turns grows in steps.

ScalingInter-RL of "AgentGym-RL: Training LLM Agents for Long-Horizon Decision Making through
Multi-Turn Reinforcement Learning" (https://arxiv.org/abs/2509.08755). A cut episode is truncated:
it has the rewards that were paid up to the cut.
"""

from collections.abc import Sequence

import numpy as np

from arena_envs.checks import check_count
from arena_trainers.curricula.protocol import (
    BaseCurriculum,
    Task,
)


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
