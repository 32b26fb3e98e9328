"""A run of `arena train`: stages over one run folder, and what all kinds of run share."""

import os
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)
from transformers.utils.logging import disable_progress_bar

from arena_eval.intervals import import_stats
from arena_trainers.checkpoint import files_of, step_of, write_manifest
from arena_trainers.lm.models import model_folder
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.runs.callbacks.metrics_file import MetricsFile
from arena_trainers.runs.callbacks.nash_conv import NashConvCallback
from arena_trainers.runs.callbacks.progress import ProgressFormat, show_progress
from arena_trainers.runs.callbacks.watchdog import Watchdog
from arena_trainers.runs.folder import START, new_folder, partial_name
from arena_trainers.runs.results.hub import check_push, push_model
from arena_trainers.runs.results.measure import GameMeter
from arena_trainers.runs.results.metrics import metrics_until, step_zero
from arena_trainers.runs.results.provenance import config_text
from arena_trainers.runs.resuming import checkpoint_to_begin_from, extend_run
from arena_trainers.runs.settings import JobConfig
from arena_trainers.runs.stopping import StopCallback, Stopper
from arena_trainers.terminal import Console
from arena_wrappers import PromptOptions, ScoringPolicy
from arena_wrappers.locks import Lock, lock_of


@dataclass(frozen=True)
class Stage:
    """A stage of a run or of a round.

    Attributes:
        name: of the stage.
        do: does it, for a run or a round.
        leaves: the file or folder that a finished stage leaves, whole; then the stage is skipped.
            None for a stage that is always done, such as training, which has its checkpoints.
    """

    name: str
    do: Callable[[Any], object]
    leaves: str | None = None


def unfinished(stages: Sequence[Stage], folder: Path) -> Iterator[Stage]:
    """The stages that have not left their file in a folder, each looked at when it is due."""
    for stage in stages:
        if stage.leaves is None or not (folder / stage.leaves).exists():
            yield stage


class Run(ABC):
    """One run of `arena train` in its folder: a list of stages.

    Args:
        settings: options by name, see `arena_trainers.runs.settings`.
        folder: the run folder.
        console: where progress and results are shown.
        resume: whether to go on with the folder's run.
        recipe: name of the recipe, for the results.
        extended: whether a resumed run has another `max_steps` than before.
        stopper: ends training early, at a checkpoint.

    Attributes:
        opening: the stages of `prepare`.
        stages: those of `run`.
        results: what `results.json` holds, once it is written.

    Raises:
        ValueError: an option is unknown, of another type or out of range; the folder is in
            use, another process goes on with it, or it has nothing to resume. Then nothing has
            been written.
    """

    opening: ClassVar[Sequence[Stage]]
    stages: ClassVar[Sequence[Stage]]
    job: JobConfig
    args: TrainingArguments
    model: Path | None
    start: Path
    checkpoint: Path | None
    trainer: Trainer
    meters: list[GameMeter]

    def __init__(
        self,
        settings: dict[str, Any],
        folder: Path,
        console: Console,
        *,
        resume: bool = False,
        recipe: str | None = None,
        extended: bool = False,
        stopper: Stopper | None = None,
    ) -> None:
        import_stats()  # fails now if scipy is missing, not after hours of training
        self.settings, self.folder, self.console = dict(settings), folder, console
        self.resume, self.recipe, self.extended = resume, recipe, extended
        self.stopper = stopper or Stopper()
        self.results: dict[str, Any] = {}
        disable_progress_bar()  # of transformers; the run has its own
        self.lock: Lock | None = None  # of the main process
        if resume and os.environ.get("RANK", "0") == "0":
            self.lock = lock_of(folder, is_folder=True)
        self.read()

    @abstractmethod
    def read(self) -> None:
        """Reads and checks the settings; writes nothing."""

    def find_start(self, *, is_made: bool = False) -> None:
        """Finds the model, and the checkpoint that a resumed run goes on from.

        Args:
            is_made: whether training starts from a model that the run makes of a given one.
        """
        is_tiny = self.job.model == "tiny"
        # absolute, as the adapters that are trained on it name it
        self.model = None if is_tiny else model_folder(self.job.model).absolute()
        if self.model is None or is_made:
            self.start = self.folder / START
        else:
            self.start = self.model
        self.checkpoint = checkpoint_to_begin_from(
            self.folder, self.start, self.args, self.say, resume=self.resume
        )

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return bool(self.args.process_index == 0)

    @property
    def is_new(self) -> bool:
        """Whether this process makes the folder."""
        return self.is_main and not self.resume

    @property
    def first_step(self) -> int:
        """The optimizer steps before this process began: those of the checkpoint."""
        return step_of(self.checkpoint) if self.checkpoint else 0

    def say(self, text: str) -> None:
        """Prints a text as it is, so that its lines can be copied."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def config(self) -> str:
        """The content of `config.yaml`."""
        return config_text(self.settings, self.args)

    def prepare(self) -> None:
        """Makes the folder, the model that the run starts from, and the trainer.

        Raises:
            ValueError: they cannot be made; the folder of a new run is removed again.
        """
        self.began = time.monotonic()
        if self.is_main:
            check_push(self.args)
        if self.model is None:
            torch.set_num_threads(1)  # more make a model this small many times slower
        is_new = self.is_new
        with (
            new_folder(self.folder, self.config()) if is_new else nullcontext() as lock
        ):
            self.lock = lock or self.lock
            for stage in unfinished(self.opening, self.folder):
                stage.do(self)

    def run(self) -> dict[str, Any]:
        """Runs the stages that are not finished.

        Returns:
            What `results.json` holds; an empty dict in other processes than the main one.
        """
        with self.stages_context() as self.watchdog:
            for stage in unfinished(self.stages, self.folder):
                stage.do(self)
        self.lock = None
        return self.results

    def stages_context(self) -> AbstractContextManager[Watchdog | None]:
        """The context of `stages`."""
        return nullcontext()

    def save_start(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        options: dict[str, Any],
    ) -> None:
        """Saves the model that the run starts from."""
        part = self.folder / partial_name(START)
        shutil.rmtree(part, ignore_errors=True)  # of a run that was killed
        LMPolicy(model, tokenizer, **options).save_pretrained(part)
        write_manifest(part, files_of(part))
        part.rename(self.folder / START)

    def announce_exact(self, policy: ScoringPolicy) -> None:
        """Says which games are not measured exactly, and which measurements take long."""
        for number, meter in enumerate(self.meters):
            every = 0 if number else self.job.evaluate_every  # the first game alone
            note = meter.exact_note(policy, every)
            if note is not None:
                self.say(note)

    def begin_metrics(self, metrics: MetricsFile) -> list[dict[str, Any]]:
        """The metrics up to the checkpoint, in the main process; a new run writes step 0."""
        if self.is_main and self.checkpoint is not None:
            return metrics_until(metrics.path, self.first_step)
        if self.is_main and self.meters and self.job.measure_start:
            # the first stage of a meter is uniform random play, the second the model's
            before_training = [(m.plan.name, m.stages[1]) for m in self.meters]
            metrics.append(step_zero(before_training))
        return []

    def add_first_callback(self, callback: TrainerCallback) -> None:
        """Adds a callback before all others, so that they see the figures that it adds."""
        self.trainer.callback_handler.callbacks.insert(0, callback)

    def measure_nash_conv(
        self,
        policy: LMPolicy,
        prompt: PromptOptions,
        weights: Callable[[], AbstractContextManager[None]] = nullcontext,
    ) -> NashConvCallback | None:
        """Measures the exact NashConv of the first game in training, if it can be."""
        game = self.meters[0].game if self.meters else None
        every = self.job.evaluate_every
        if game is None or every == 0:
            return None
        callback = NashConvCallback(policy, game, prompt, every, weights)
        self.add_first_callback(callback)
        return callback

    def announce(self, text: str) -> None:
        """Says from where a resumed run goes on, and writes its new `max_steps`."""
        if self.checkpoint is None or not self.is_main:
            return
        if self.extended:
            extend_run(self.folder, self.args.max_steps, self.first_step)
        self.console.print(text)

    def fit(self, look: ProgressFormat, window: int) -> None:
        """Runs the trainer from the checkpoint on.

        Raises:
            Stopped: a signal ended training.
        """
        with show_progress(self.trainer, self.console, self.is_main, look):
            self.trainer.add_callback(StopCallback(self.stopper, window))
            checkpoint = str(self.checkpoint) if self.checkpoint else None
            with self.stopper.waiting():
                self.trainer.train(resume_from_checkpoint=checkpoint)
        state = self.trainer.state
        self.stopper.raise_if_stopped(state.global_step, state.max_steps)

    def save_model(self) -> None:
        """Saves the trained model."""
        # an internal call, as another one pushes the whole run folder to the hub
        self.trainer.save_model(str(self.folder / "model"), _internal_call=True)

    def push(self) -> None:
        """Pushes the model to the hub, if that is wanted."""
        if self.args.push_to_hub:
            self.say(push_model(self.folder, self.trainer))
