"""Trainer callbacks: exact NashConv in the logs; metrics and rollouts as JSON lines."""

import json
import math
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from accelerate.utils import gather_object
from transformers import (
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

from arena_envs.game import AnyGame
from arena_envs.solvers import Table, nash_conv
from arena_trainers.data import Rollout, write_rollouts
from arena_trainers.data.rollouts import joined, trees_of, turn_credits
from arena_trainers.evaluate import tabular
from arena_trainers.job.tracked_turns import track
from arena_trainers.train.settings import part_weights
from arena_wrappers import PromptOptions, ScoringPolicy

if TYPE_CHECKING:
    from arena_trainers.train.trainer import TurnGRPOTrainer


class NashConvCallback(TrainerCallback):
    """Measures the exact NashConv of a policy every so many steps.

    Args:
        policy: the policy that learns.
        game: the rules.
        options: what its prompts contain.
        every: steps between measurements.
        whole_weights: makes a context in which the main process can use the policy by
            itself; every process enters it.

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
        whole_weights: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> None:
        self.policy, self.game, self.options = policy, game, options
        self.every, self.whole_weights = every, whole_weights
        # a resumed run adds the measurements before it
        self.history: list[tuple[int, float]] = []
        self.tables: dict[int, Table] = {}
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
            with self.whole_weights():
                if state.is_world_process_zero:  # the others only log when it does
                    self._measure(state.global_step)
            control.should_log = True
        return control

    def _measure(self, step: int) -> None:
        table, _ = tabular(self.policy, self.game, self.options)
        self.history.append((step, nash_conv(self.game, table)))
        self.tables = {step: table}

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
        self.append({"step": state.global_step, **(logs or {})})

    def append(self, record: dict[str, Any]) -> None:
        """Adds a record; NaN and infinity become null, because JSON has neither."""
        finite = {
            key: None
            if isinstance(value, float) and not math.isfinite(value)
            else value
            for key, value in record.items()
        }
        with open(self.path, "a", encoding="utf-8") as file:
            file.write(json.dumps(finite) + "\n")


class RolloutsFile(TrainerCallback):
    """Writes some training groups with their credit at each logging step.

    All processes call it; the main process writes `step-N.jsonl`, see
    `arena_trainers.data.rollouts`, and sends the first turns to experiment trackers.

    Args:
        trainer: the trainer; its latest generation batch is written.
        folder: where the files go.
        num_groups: groups in each file; 0 for no files.
    """

    def __init__(
        self, trainer: "TurnGRPOTrainer", folder: Path, num_groups: int
    ) -> None:
        self.trainer, self.folder, self.num_groups = trainer, folder, num_groups

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        every = max(int(state.logging_steps), 1)
        if self.num_groups == 0 or state.global_step % every:
            return
        rollouts = training_groups(self.trainer, self.num_groups)
        if state.is_world_process_zero:
            self.folder.mkdir(exist_ok=True)
            write_rollouts(self.folder / f"step-{state.global_step}.jsonl", rollouts)
            callbacks = self.trainer.callback_handler.callbacks
            track(callbacks, state.global_step, rollouts)


def training_groups(trainer: "TurnGRPOTrainer", num_groups: int) -> list[Rollout]:
    """The first whole groups of the latest generation batch, with their credit.

    Every process must call it; all get the same result.
    """
    episodes, games = trainer.last_episodes, trainer.last_played.games
    own = turn_credits(
        episodes,
        trainer.last_kept.records,
        trainer.last_kept.rows,
        trainer.last_turns,
        trainer.last_credit,
        estimator=trainer.args.credit,
        weighting=trainer.args.weighting,
        part_weights=part_weights(trainer.args, trainer.games.functions),
    )
    roots = [g for g, e in zip(games, episodes, strict=True) if e.parent is None]
    pairs = zip(roots, trees_of(own), strict=True)
    trees = [((game, tree[0].episode.seed), tree) for game, tree in pairs]
    starts = gather_object([start for start, _ in trees])
    chosen = list(dict.fromkeys(starts))[:num_groups]
    found = gather_object([entry for entry in trees if entry[0] in chosen])
    return joined(tree for start in chosen for key, tree in found if key == start)
