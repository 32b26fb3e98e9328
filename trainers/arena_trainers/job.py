"""The job of `arena train`: warm start, self-play, exact evaluation, results."""

import json
import time
from pathlib import Path
from typing import Any

import torch
import yaml
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
)
from transformers import AutoModelForCausalLM, AutoTokenizer, PrinterCallback
from transformers.utils.logging import disable_progress_bar

from arena_envs.game import AnyGame
from arena_envs.solvers import information_states, nash_conv, uniform_table
from arena_trainers.callbacks import MetricsFile, NashConvCallback, ProgressCallback
from arena_trainers.evaluate import exploitability, legal_rate
from arena_trainers.games import GamePlan
from arena_trainers.job_config import build_configs
from arena_trainers.lm_policy import LMPolicy
from arena_trainers.report import Stage, draw_curves, read_metrics, stage_table
from arena_trainers.run_folder import check_new, check_saved_model, last_checkpoint
from arena_trainers.tiny import tiny_model, tiny_tokenizer, words_of
from arena_trainers.trainer import TurnGRPOTrainer, check_credit
from arena_trainers.warm_start import legal_play, warm_start
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
    ) -> None:
        self.settings, self.folder, self.console = settings, folder, console
        self.job, self.args = build_configs(settings, str(folder))
        disable_progress_bar()  # of transformers; the run has its own
        check_credit(self.args)
        self.plans = [GamePlan(spec, self.args) for spec in self.args.games]
        self.options = PromptOptions(
            self.args.reply_format, self.args.rules, self.args.show_legal_actions
        )
        self.is_tiny = self.job.model == "tiny"
        as_given = not self.is_tiny and self.job.warm_start_steps == 0
        self.start = Path(self.job.model) if as_given else folder / "start"
        if not self.is_tiny:
            check_saved_model(Path(self.job.model))
        self.checkpoint = last_checkpoint(folder, self.start) if resume else None
        if not resume and self.is_main:
            check_new(folder)
        # exact evaluation is of the first game, if that is small enough
        self.game = _enumerable(self.plans[0].game)
        self.uniform = (
            nash_conv(self.game, uniform_table(self.game)) if self.game else None
        )

    @property
    def is_main(self) -> bool:
        """Whether this process writes and speaks for all."""
        return bool(self.args.process_index == 0)

    def run(self) -> dict[str, Any]:
        """Trains, evaluates, writes everything to the folder; returns the results."""
        self._began = time.monotonic()
        if self.is_tiny:
            torch.set_num_threads(1)  # more make a model this small many times slower
        if self.is_main and self.checkpoint is None:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / "config.yaml").write_text(yaml.safe_dump(self.settings))
            self._make_start()
        self.args.distributed_state.wait_for_everyone()
        start = LMPolicy.from_pretrained(self.start, **self._sampling())
        stages = [
            self._stage("uniform random", RandomPolicy())[0],
            self._stage("before self-play", start)[0],
        ]
        self._describe(start)
        trainer, watcher = self._trainer()
        seconds, steps = self._train(trainer)
        stage, episodes = self._stage("after self-play", trainer.policy)
        stages.append(stage)
        results = {
            "nash_conv": {
                "uniform": self.uniform,
                "warm_start": stages[1][2],
                "final": stage[2],
                "last_quarter_mean": watcher.last_quarter_mean() if watcher else None,
            },
            "legal_rate": stage[1],
            "episodes_per_second": round(steps * self._episodes_per_step / seconds, 1),
            "seconds": round(time.monotonic() - self._began, 1),
            "seed": self.args.seed,
        }
        self._write(trainer, results, episodes)
        if self.is_main:
            self.console.print(stage_table(self.plans[0].id, stages))
            self.console.print(f"results are in {self.folder}", soft_wrap=True)
        return results

    def _make_start(self) -> None:
        """Makes the model that self-play starts from, unless it is used as given."""
        if self.start != self.folder / "start":
            return
        if self.is_tiny:
            words = [
                text for p in self.plans for text in words_of(p.game, self.options)
            ]
            tokenizer: Any = tiny_tokenizer(words)
            model: Any = tiny_model(
                tokenizer,
                hidden_size=self.job.hidden_size,
                num_layers=self.job.num_layers,
                seed=self.args.seed,
            )
        else:
            tokenizer = AutoTokenizer.from_pretrained(self.job.model)
            model = AutoModelForCausalLM.from_pretrained(self.job.model)
        if self.job.warm_start_steps > 0:
            self.console.print(
                f"warm start: {self.job.warm_start_steps} steps of imitation of random "
                "legal play"
            )
            warm_start(
                LMPolicy(model, tokenizer),
                legal_play(
                    [plan.env_fn for plan in self.plans],
                    self.job.warm_start_episodes,
                    self.args.seed,
                ),
                num_steps=self.job.warm_start_steps,
                learning_rate=self.job.warm_start_learning_rate,
                seed=self.args.seed,
            )
        model.save_pretrained(self.start)
        tokenizer.save_pretrained(self.start)

    def _trainer(self) -> tuple[TurnGRPOTrainer, NashConvCallback | None]:
        trainer = TurnGRPOTrainer(
            str(self.start),
            self.args,
            processing_class=AutoTokenizer.from_pretrained(self.start),
            callbacks=[MetricsFile(self.folder / "metrics.jsonl")],
        )
        trainer.remove_callback(PrinterCallback)
        watcher = None
        if self.game is not None and self.job.evaluate_every > 0:
            watcher = NashConvCallback(
                trainer.policy, self.game, self.options, self.job.evaluate_every
            )
            # before the file, so that the file has the figure
            trainer.callback_handler.callbacks.insert(0, watcher)
        return trainer, watcher

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
            trainer.train(resume_from_checkpoint=self.checkpoint)
        first = int(self.checkpoint.rpartition("-")[2]) if self.checkpoint else 0
        return time.monotonic() - began, trainer.state.global_step - first

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

    def _sampling(self) -> dict[str, Any]:
        return {
            "max_new_tokens": self.args.max_completion_length,
            "temperature": self.args.temperature,
            "top_k": self.args.top_k,
            "top_p": self.args.top_p,
        }

    @property
    def _episodes_per_step(self) -> int:
        args = self.args
        per_process = (
            args.per_device_train_batch_size * args.gradient_accumulation_steps
        )
        return int(per_process * args.world_size)


def _enumerable(game: AnyGame) -> AnyGame | None:
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
