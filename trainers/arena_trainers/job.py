"""The job of `arena train`: warm start, self-play, exact evaluation, results."""

import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from transformers import (
    PrinterCallback,
)
from transformers.utils.logging import disable_progress_bar

from arena_envs.game import AnyGame
from arena_envs.solvers import information_states, nash_conv, uniform_table
from arena_trainers.callbacks import MetricsFile, NashConvCallback, ProgressCallback
from arena_trainers.columns import check_credit
from arena_trainers.evaluate import exploitability, legal_rate
from arena_trainers.exact_critic import check_exact
from arena_trainers.games import GamePlan, opponents
from arena_trainers.job_config import build_configs
from arena_trainers.lm_policy import LMPolicy
from arena_trainers.models import model_folder
from arena_trainers.report import Stage, draw_curves, read_metrics, stage_table
from arena_trainers.resume import describe
from arena_trainers.run_folder import (
    check_new,
    check_same_model,
    extend,
    new_folder,
    newest_checkpoint,
    step_of,
)
from arena_trainers.start import check_reply_lengths, load_tokenizer, make_start
from arena_trainers.stopping import StopCallback, Stopper
from arena_trainers.trainer import TurnGRPOTrainer
from arena_wrappers import (
    Episode,
    PromptOptions,
    RandomPolicy,
    ScoringPolicy,
    play,
    write_episodes,
)

MAX_STATES = 20_000  # of a game whose NashConv is measured during training


class TrainingJob:
    """One run of `arena train` in its folder.

    Args:
        settings: options by name, see `arena_trainers.job_config`.
        folder: the run folder.
        console: where progress and results are shown.
        resume: whether to go on from the folder's last checkpoint.
        extended: whether it goes on to another last step than it began with.
        stopper: what ends training early, at a checkpoint.

    Raises:
        ValueError: an option is unknown, of another type or out of range; the folder is in
            use, or has nothing to resume. Nothing has been written then.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        folder: Path,
        console: Console,
        *,
        resume: bool = False,
        extended: bool = False,
        stopper: Stopper | None = None,
    ) -> None:
        self.settings, self.folder, self.console = settings, folder, console
        self.job, self.args = build_configs(settings, str(folder))
        disable_progress_bar()  # of transformers; the run has its own
        self.plans = [GamePlan(spec, self.args) for spec in self.args.games]
        check_credit(self.args, [plan.game for plan in self.plans])
        self.options = PromptOptions(
            self.args.reply_format, self.args.rules, self.args.show_legal_actions
        )
        self.is_tiny = self.job.model == "tiny"
        as_given = not self.is_tiny and self.job.warm_start_steps == 0
        self.start = model_folder(self.job.model) if as_given else folder / "start"
        self.extended, self.stopper = extended, stopper or Stopper()
        self.checkpoint = newest_checkpoint(folder) if resume else None
        if self.checkpoint is not None:
            check_same_model(self.checkpoint, self.start)
        if not resume and self.is_main:
            check_new(folder)
        self.tokenizer = load_tokenizer(self.job, self.plans, self.options)
        self.opponents = opponents(self.plans, self.args, {})
        check_exact(self.args, self.plans, self.opponents)
        check_reply_lengths(self.tokenizer, self.plans, self.args)
        # exact evaluation is of the first game, if that is small enough, and of prompts
        # that follow from the state, as a transcript does not
        exact = self.args.history == "state"
        self.game = _enumerable(self.plans[0].game) if exact else None
        self.uniform = (
            nash_conv(self.game, uniform_table(self.game)) if self.game else None
        )

    @property
    def is_main(self) -> bool:
        """Whether this process writes and speaks for all."""
        return bool(self.args.process_index == 0)

    def prepare(self) -> None:
        """Makes the folder, the model that self-play starts from, and the trainer.

        Raises:
            ValueError: they cannot be made; the folder of a new run is removed again.
        """
        self._began = time.monotonic()
        if self.is_tiny:
            torch.set_num_threads(1)  # more make a model this small many times slower
        is_new = self.checkpoint is None and self.is_main
        with new_folder(self.folder, self.settings) if is_new else nullcontext():
            made_here = self.start == self.folder / "start"
            if made_here and is_new:
                model = make_start(
                    self.job, self.args, self.tokenizer, self.plans, self.console
                )
                model.save_pretrained(self.start)
                self.tokenizer.save_pretrained(self.start)
            self.args.distributed_state.wait_for_everyone()
            start = LMPolicy.from_pretrained(self.start, **self.args.sampling_options)
            self.stages = [
                self._stage("uniform random", RandomPolicy())[0],
                self._stage("before self-play", start)[0],
            ]
            self._describe(start)
            self.trainer, self.watcher = self._trainer()

    def run(self) -> dict[str, Any]:
        """Trains, evaluates, writes everything to the folder; returns the results."""
        self._announce()
        seconds, steps = self._train(self.trainer)
        stage, episodes = self._stage("after self-play", self.trainer.policy)
        self.stages.append(stage)
        late = self.watcher.last_quarter_mean() if self.watcher else None
        results = {
            "nash_conv": {
                "uniform": self.uniform,
                "warm_start": self.stages[1][2],
                "final": stage[2],
                "last_quarter_mean": late,
            },
            "legal_rate": stage[1],
            "episodes_per_second": round(steps * self._episodes_per_step / seconds, 1),
            "seconds": round(time.monotonic() - self._began, 1),
            "seed": self.args.seed,
        }
        self._write(self.trainer, results, episodes)
        if self.is_main:
            self.console.print(stage_table(self.plans[0].id, self.stages))
            self.console.print(f"results are in {self.folder}", soft_wrap=True)
        return results

    def _announce(self) -> None:
        """Says from where a resumed run goes on; an extended one is that from here on."""
        if self.checkpoint is None or not self.is_main:
            return
        if self.extended:
            extend(self.folder, self.args.max_steps)
        self.console.print(describe(self._first_step, self.args, self.extended))

    def _trainer(self) -> tuple[TurnGRPOTrainer, NashConvCallback | None]:
        trainer = TurnGRPOTrainer(
            str(self.start),
            self.args,
            processing_class=self.tokenizer,
            policies=self.opponents,
            callbacks=[MetricsFile(self.folder / "metrics.jsonl")],
        )
        trainer.remove_callback(PrinterCallback)
        before = self._metrics_before()
        watcher = None
        if self.game is not None and self.job.evaluate_every > 0:
            watcher = NashConvCallback(
                trainer.policy, self.game, self.options, self.job.evaluate_every
            )
            watcher.history += [
                (r["step"], r["arena/nash_conv"])
                for r in before
                if "arena/nash_conv" in r
            ]
            # before the file, so that the file has the figure
            trainer.callback_handler.callbacks.insert(0, watcher)
        return trainer, watcher

    def _metrics_before(self) -> list[dict[str, Any]]:
        """The metrics up to the checkpoint; later ones are dropped from the file."""
        path = self.folder / "metrics.jsonl"
        if self.checkpoint is None or not path.exists():
            return []
        kept = [r for r in read_metrics(path) if r["step"] <= self._first_step]
        if self.is_main:
            path.write_text("".join(json.dumps(record) + "\n" for record in kept))
        return kept

    @property
    def _first_step(self) -> int:
        return step_of(self.checkpoint) if self.checkpoint else 0

    def _train(self, trainer: TurnGRPOTrainer) -> tuple[float, int]:
        """Runs the trainer; returns seconds and the steps that were made in them."""
        columns = (
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeRemainingColumn(),
        )
        began = time.monotonic()
        with Progress(*columns, console=self.console, disable=not self.is_main) as bar:
            trainer.add_callback(ProgressCallback(bar, _latest))
            trainer.add_callback(StopCallback(self.stopper, self.args.window))
            checkpoint = str(self.checkpoint) if self.checkpoint else None
            with self.stopper.waiting():
                trainer.train(resume_from_checkpoint=checkpoint)
        self.stopper.raise_if_stopped(
            trainer.state.global_step, trainer.state.max_steps
        )
        return time.monotonic() - began, trainer.state.global_step - self._first_step

    def _stage(self, name: str, policy: ScoringPolicy) -> tuple[Stage, list[Episode]]:
        """Measures a policy in every seat of the first game, on fixed seeds."""
        plan = self.plans[0]
        episodes = play(plan.env_fn, policy, range(self.job.eval_episodes))
        conv = None
        if self.game is not None:
            conv = exploitability(policy, self.game, self.options).nash_conv
        rate = legal_rate(episodes) if episodes else None
        return (name, rate, conv), episodes

    def _describe(self, policy: LMPolicy) -> None:
        if not self.is_main:
            return
        prompts = [
            policy.encode(turn.messages)
            for plan in self.plans
            for episode in play(plan.env_fn, RandomPolicy(), range(100))
            for turn in episode.turns
        ]
        parameters = sum(p.numel() for p in policy.model.parameters())
        self.console.print(
            f"model of {parameters:,} parameters; prompts of at most "
            f"{max(map(len, prompts))} tokens (rules={self.args.rules}, "
            f"reply_format={self.args.reply_format}, show_legal_actions="
            f"{self.args.show_legal_actions}); credit {self.args.credit!r}"
        )

    def _write(
        self, trainer: TurnGRPOTrainer, results: dict[str, Any], episodes: list[Episode]
    ) -> None:
        trainer.save_model(str(self.folder / "model"))
        if not self.is_main:
            return
        write_episodes(
            self.folder / "episodes.jsonl", episodes[: self.job.saved_episodes]
        )
        (self.folder / "results.json").write_text(json.dumps(results, indent=2) + "\n")
        metrics = read_metrics(self.folder / "metrics.jsonl")
        draw_curves(metrics, self.folder / "curves.png", self.uniform)

    @property
    def _episodes_per_step(self) -> int:
        args = self.args
        return round((args.generation_batch_size or 0) * args.generations_per_step)


def _enumerable(game: AnyGame) -> AnyGame | None:
    if game.num_actions is None:
        return None
    try:
        information_states(game, MAX_STATES)
    except ValueError:
        return None
    return game


def _latest(logs: dict[str, Any]) -> str:
    """The figures beside the progress bar."""
    parts = ["self-play"]
    if "arena/legal_rate" in logs:
        parts.append(f"legal {logs['arena/legal_rate']:.3f}")
    if "arena/nash_conv" in logs:
        parts.append(f"NashConv {logs['arena/nash_conv']:.3f}")
    return "  ".join(parts)
