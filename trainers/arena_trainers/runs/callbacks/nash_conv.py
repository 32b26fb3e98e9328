"""The exact NashConv of the policy in training."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

from transformers import TrainerState

from arena_envs.game import AnyGame
from arena_envs.solvers import Table, nash_conv
from arena_eval import tabular
from arena_trainers.runs.callbacks.measuring import Measuring
from arena_wrappers import PromptOptions, ScoringPolicy

NASH_CONV = "arena/nash_conv"  # of the log, of the first game


class NashConvCallback(Measuring):
    """Measures the exact NashConv of a policy every so many steps.

    Args:
        policy: the policy that learns.
        game: the rules.
        options: what its prompts contain.
        every: as for `Measuring`.
        weights: as for `Measuring`.

    Attributes:
        history: (step, NashConv) pairs.
        tables: the action probabilities of the last measurement, by its step.
    """

    def __init__(
        self,
        policy: ScoringPolicy,
        game: AnyGame,
        options: PromptOptions,
        every: int,
        weights: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        super().__init__(every, weights)
        self.policy, self.game, self.options = policy, game, options
        # a resumed run adds the measurements before it
        self.history: list[tuple[int, float]] = []
        self.tables: dict[int, Table] = {}
        self._last_step = 0

    def begun(self, state: TrainerState) -> None:
        self._last_step = state.max_steps

    def last_quarter_mean(self) -> float | None:
        """Mean over the measurements in the last quarter of the steps."""
        late = [conv for step, conv in self.history if step > 0.75 * self._last_step]
        return sum(late) / len(late) if late else None

    def measure(self, state: TrainerState) -> dict[str, float]:
        if not state.is_world_process_zero:
            return {}
        table, _ = tabular(self.policy, self.game, self.options)
        self.history.append((state.global_step, nash_conv(self.game, table)))
        self.tables = {state.global_step: table}
        return {NASH_CONV: self.history[-1][1]}
