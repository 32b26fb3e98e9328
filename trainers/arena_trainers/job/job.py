"""The job of `arena train`: warm start, self-play, exact evaluation, results."""

import json
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from transformers import PrinterCallback
from transformers.utils.logging import disable_progress_bar

from arena_trainers.evaluate.intervals import import_stats
from arena_trainers.job.beside_equilibrium import draw_comparisons
from arena_trainers.job.callbacks import MetricsFile, NashConvCallback, RolloutsFile
from arena_trainers.job.closing import closing_lines
from arena_trainers.job.curves import draw_curves, read_metrics
from arena_trainers.job.opening import description, legal_warning, memory_line
from arena_trainers.job.outcome import GameMeter, Outcome
from arena_trainers.job.progress import shown_progress
from arena_trainers.job.provenance import config_text, provenance
from arena_trainers.job.report import outcome_tables
from arena_trainers.job.results import frame_of, results_of, step_zero
from arena_trainers.job.run_folder import (
    METRICS,
    RESULTS,
    START,
    check_new,
    check_same_model,
    extend,
    new_folder,
    newest_checkpoint,
    partial,
    step_of,
)
from arena_trainers.job.settings import build_configs
from arena_trainers.job.start import (
    check_chat,
    check_reply_lengths,
    load_tokenizer,
    longest_reply,
    make_start,
)
from arena_trainers.job.stopping import StopCallback, Stopper
from arena_trainers.lm.models import model_folder
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.train.column_functions import load_functions
from arena_trainers.train.columns import check_credit
from arena_trainers.train.exact_critic import check_exact
from arena_trainers.train.game_plans import GamePlan, opponents
from arena_trainers.train.resume import describe
from arena_trainers.train.trainer import TurnGRPOTrainer
from arena_wrappers import Episode, write_episodes
from arena_wrappers.files import whole_file


class TrainingJob:
    """One run of `arena train` in its folder.

    Args:
        settings: options by name, see `arena_trainers.job.settings`.
        folder: the run folder.
        console: where progress and results are shown.
        resume: whether to go on from the folder's last checkpoint.
        recipe: where the settings come from, for the results.
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
        recipe: str | None = None,
        extended: bool = False,
        stopper: Stopper | None = None,
    ) -> None:
        import_stats()  # what measures the result, before hours of training
        self.settings, self.folder, self.console = settings, folder, console
        self.recipe = recipe
        self.job, self.args = build_configs(settings, str(folder))
        disable_progress_bar()  # of transformers; the run has its own
        self.plans = [GamePlan(spec, self.args) for spec in self.args.games]
        self.columns = load_functions(self.job.columns)
        check_credit(self.args, [plan.game for plan in self.plans], self.columns)
        self.options = self.args.prompt
        self.is_tiny = self.job.model == "tiny"
        as_given = not self.is_tiny and self.job.warm_start_steps == 0
        self.start = model_folder(self.job.model) if as_given else folder / START
        self.extended, self.stopper = extended, stopper or Stopper()
        self.checkpoint = newest_checkpoint(folder) if resume else None
        if self.checkpoint is not None:
            check_same_model(self.checkpoint, self.start)
        if not resume and self.is_main:
            check_new(folder)
        self.tokenizer = load_tokenizer(self.job, self.plans, self.options)
        if self.is_tiny and "max_completion_length" not in settings:
            self.args.max_completion_length = max(
                longest_reply(self.tokenizer, plan, self.args.reply_format)
                for plan in self.plans
            )
        check_chat(self.tokenizer, self.args)
        self.opponents = opponents(self.plans, self.args, {})
        check_exact(self.args, self.plans, self.opponents)
        check_reply_lengths(self.tokenizer, self.plans, self.args)
        self.meters = [
            GameMeter(plan, self.args, self.job.eval_episodes) for plan in self.plans
        ]

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
        config = config_text(self.settings, self.args)
        with new_folder(self.folder, config) if is_new else nullcontext():
            made_here = self.start == self.folder / START
            if made_here and self.checkpoint is None:
                self._make_start()
            self.args.distributed_state.wait_for_everyone()
            if self.is_main:
                self._measure_start()
            self.trainer, self.watcher = self._trainer()
            if self.is_main:
                self._say(memory_line(self.trainer.max_tokens_per_forward, self.args))

    def _make_start(self) -> None:
        """Every process trains the start; the main one saves it and says so."""
        console = self.console if self.is_main else Console(quiet=True)
        model = make_start(self.job, self.args, self.tokenizer, self.plans, console)
        if self.is_main:
            options = {"prompt": self.options, **self.args.sampling_options}
            part = self.folder / partial(START)
            LMPolicy(model, self.tokenizer, **options).save_pretrained(part)
            part.rename(self.start)

    def run(self) -> dict[str, Any]:
        """Trains, evaluates, writes everything to the folder.

        Returns:
            The results; none in processes other than the main one, which alone evaluates.
        """
        self._announce()
        seconds, steps = self._train(self.trainer)
        self.trainer.save_model(str(self.folder / "model"))
        if not self.is_main:
            return {}
        policy, last = self.trainer.policy, "after self-play"
        episodes = [meter.measure(last, policy) for meter in self.meters]
        outcomes = [
            Outcome(m.plan.name, m.stages, m.evaluate(policy), m.compare(policy))
            for m in self.meters
        ]
        late = self.watcher.last_quarter_mean() if self.watcher else None
        results = {
            **results_of(outcomes, late),
            "episodes_per_second": round(steps * self._episodes_per_step / seconds, 1),
            "seconds": round(time.monotonic() - self._began, 1),
            "recipe": self.recipe,
            **provenance(self.job, self.args, self.plans),
        }
        self._write(results, episodes, outcomes)
        self._show(outcomes)
        return results

    def _announce(self) -> None:
        """Says from where a resumed run goes on; an extended one is that from here on."""
        if self.checkpoint is None or not self.is_main:
            return
        if self.extended:
            extend(self.folder, self.args.max_steps)
        self.console.print(describe(self._first_step, self.args, self.extended))

    def _trainer(self) -> tuple[TurnGRPOTrainer, NashConvCallback | None]:
        metrics = MetricsFile(self.folder / METRICS)
        trainer = TurnGRPOTrainer(
            str(self.start),
            self.args,
            processing_class=self.tokenizer,
            policies=self.opponents,
            columns=self.columns,
            callbacks=[metrics],
        )
        trainer.remove_callback(PrinterCallback)
        folder = self.folder / "rollouts"
        trainer.add_callback(RolloutsFile(trainer, folder, self.job.saved_groups))
        before = self._metrics_before()
        if self.checkpoint is None and self.is_main:
            metrics.append(step_zero([(m.plan.name, m.stages[1]) for m in self.meters]))
        watcher, game = None, self.meters[0].game
        if game is not None and self.job.evaluate_every > 0:
            watcher = NashConvCallback(
                trainer.policy, game, self.options, self.job.evaluate_every
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
        """The metrics up to the checkpoint, in the main process; drops later ones."""
        path = self.folder / METRICS
        if self.checkpoint is None or not self.is_main or not path.exists():
            return []
        kept = [r for r in read_metrics(path) if r["step"] <= self._first_step]
        with whole_file(path) as file:
            file.writelines(json.dumps(record) + "\n" for record in kept)
        return kept

    @property
    def _first_step(self) -> int:
        return step_of(self.checkpoint) if self.checkpoint else 0

    def _train(self, trainer: TurnGRPOTrainer) -> tuple[float, int]:
        """Runs the trainer; returns seconds and the steps that were made in them."""
        began = time.monotonic()
        shown = self.console, self.is_main, self._episodes_per_step
        with shown_progress(trainer, *shown):
            trainer.add_callback(StopCallback(self.stopper, self.args.window))
            checkpoint = str(self.checkpoint) if self.checkpoint else None
            with self.stopper.waiting():
                trainer.train(resume_from_checkpoint=checkpoint)
        self.stopper.raise_if_stopped(
            trainer.state.global_step, trainer.state.max_steps
        )
        return time.monotonic() - began, trainer.state.global_step - self._first_step

    def _measure_start(self) -> None:
        """Measures the policy that self-play starts from, and warns if it plays nothing."""
        policy = LMPolicy.from_pretrained(
            self.start,
            device=self.args.device,
            prompt=self.options,
            **self.args.sampling_options,
        )
        self._say(description(policy, self.plans, self.args))
        for meter in self.meters:
            episodes = meter.measure("before self-play", policy)
            warning = legal_warning(meter.plan.name, episodes, self.job, self.args)
            if warning is not None:
                self._say(warning)

    def _write(
        self,
        results: dict[str, Any],
        episodes: list[list[Episode]],
        outcomes: list[Outcome],
    ) -> None:
        share = -(-self.job.saved_episodes // len(episodes))  # of each game
        write_episodes(
            self.folder / "episodes.jsonl",
            [episode for played in episodes for episode in played[:share]],
        )
        (self.folder / RESULTS).write_text(json.dumps(results, indent=2) + "\n")
        metrics = read_metrics(self.folder / METRICS)
        frame = frame_of(self.job, self.args, self.plans, outcomes)
        draw_curves(metrics, self.folder / "curves.png", frame)
        comparisons = [o.comparison for o in outcomes if o.comparison is not None]
        if comparisons:
            draw_comparisons(comparisons, self.folder / "policy.png")

    def _show(self, outcomes: list[Outcome]) -> None:
        for outcome in outcomes:
            for table in outcome_tables(outcome):
                self.console.print(table)
        self._say(f"results are in {self.folder}")
        for line in closing_lines(self.folder, self.plans, self.args):
            self._say(line)

    def _say(self, text: str) -> None:
        """Prints a text as it is: lines that are to be copied are not broken."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    @property
    def _episodes_per_step(self) -> int:
        args = self.args
        return round((args.generation_batch_size or 0) * args.generations_per_step)
