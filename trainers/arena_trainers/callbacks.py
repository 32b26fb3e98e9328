"""Trainer callbacks: exact NashConv in the logs, metrics as JSON lines, progress."""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rich.progress import Progress
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_envs.game import AnyGame
from arena_trainers.evaluate import exploitability
from arena_wrappers import PromptOptions, ScoringPolicy


class NashConvCallback(TrainerCallback):
    """Measures the exact NashConv of a policy every so many steps.

    Args:
        policy: the policy that learns.
        game: the rules.
        options: what its prompts contain.
        every: steps between measurements.

    Attributes:
        history: (step, NashConv) pairs.
    """

    def __init__(
        self, policy: ScoringPolicy, game: AnyGame, options: PromptOptions, every: int
    ) -> None:
        self.policy, self.game, self.options = policy, game, options
        self.every = every
        self.history: list[
            tuple[int, float]
        ] = []  # a resumed run puts in what was before
        self._last_step = 0

    def last_quarter_mean(self) -> float | None:
        """Mean over the measurements in the last quarter of the steps."""
        late = [conv for step, conv in self.history if step > 0.75 * self._last_step]
        return sum(late) / len(late) if late else None

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> TrainerControl:
        self._last_step = state.max_steps
        if state.global_step % self.every == 0:
            if state.is_world_process_zero:  # the others only log when it does
                found = exploitability(self.policy, self.game, self.options)
                self.history.append((state.global_step, found.nash_conv))
            control.should_log = True
        return control

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if (
            logs is not None
            and self.history
            and self.history[-1][0] == state.global_step
        ):
            logs["arena/nash_conv"] = self.history[-1][1]


class MetricsFile(TrainerCallback):
    """Appends every log to a file of JSON lines.

    Args:
        path: the file.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        if not state.is_world_process_zero:
            return
        record = {"step": state.global_step, **(logs or {})}
        for key, value in record.items():
            if isinstance(value, float) and not math.isfinite(value):
                record[key] = None  # JSON has no NaN
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(record) + "\n")


class ProgressCallback(TrainerCallback):
    """Moves a progress bar, and tells the latest figures beside it.

    Args:
        progress: where the bar is drawn.
        describe: text beside the bar, made from the latest logs.
    """

    def __init__(
        self, progress: Progress, describe: Callable[[dict[str, Any]], str]
    ) -> None:
        self.progress, self.describe = progress, describe

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        self.task = self.progress.add_task(
            "self-play", total=state.max_steps, completed=state.global_step
        )

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        self.progress.update(self.task, completed=state.global_step)

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: dict[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        self.progress.update(self.task, description=self.describe(logs or {}))
