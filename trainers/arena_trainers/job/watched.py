"""The trainer of a job, with the callbacks that measure, show and write."""

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from transformers import PrinterCallback

from arena_trainers.job.against_start import AgainstStart
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.runs.folder import METRICS
from arena_trainers.runs.results.close import read_metrics, step_zero
from arena_trainers.runs.settings import PROJECT, JobConfig
from arena_trainers.runs.watch import (
    BestModel,
    CollapseWarnings,
    MetricsFile,
    NashConvCallback,
    Patience,
    RolloutsFile,
    SampleReplies,
    score_metric,
)
from arena_trainers.train.trainer import TurnGRPOTrainer
from arena_wrappers.records import whole_file

if TYPE_CHECKING:
    from arena_trainers.runs.self_play import TrainingJob


class Watched(NamedTuple):
    """A trainer and what reads its figures.

    Attributes:
        trainer: the trainer.
        nash_conv: measures the first game; None if it is not measured in training.
        best: keeps the best model; None if no score is measured, or it is not wanted.
    """

    trainer: TurnGRPOTrainer
    nash_conv: NashConvCallback | None
    best: BestModel | None


def _trainer(run: "TrainingJob", metrics: MetricsFile) -> TurnGRPOTrainer:
    with adapter_errors(run.job):
        return TurnGRPOTrainer(
            str(run.start),
            run.args,
            processing_class=run.tokenizer,
            games=run.games,
            callbacks=[metrics],
            peft_config=run.job.peft_config,
        )


@contextmanager
def adapter_errors(job: JobConfig) -> Iterator[None]:
    """Says what to do where an adapter names layers that the model lacks.

    Raises:
        ValueError: it does.
    """
    try:
        yield
    except ValueError as error:
        if not str(error).startswith("Target modules"):  # peft's
            raise
        raise ValueError(
            "want lora_target_modules that name linear layers of the model, such as "
            f"q_proj,v_proj, got {job.lora_target_modules!r}"
        ) from error


def watched_trainer(run: "TrainingJob") -> Watched:
    """The trainer of a job whose start is made."""
    if "wandb" in (run.args.report_to or ()):  # transformers passes on no project
        project = getattr(run.args, "project", PROJECT)
        os.environ.setdefault("WANDB_PROJECT", project)
    metrics = MetricsFile(run.folder / METRICS)
    trainer = _trainer(run, metrics)
    trainer.remove_callback(PrinterCallback)
    groups = run.folder / "rollouts", run.job.saved_groups
    trainer.add_callback(RolloutsFile(trainer, *groups))
    shown = run.console, run.job.steps_between_replies
    trainer.add_callback(SampleReplies(trainer, *shown))
    before = metrics_before(run)
    if run.checkpoint is None and run.is_main:
        metrics.append(step_zero([(m.plan.name, m.stages[1]) for m in run.meters]))
    watcher = _nash_conv(run, trainer, before)
    _play_start(run, trainer)
    best = _best(run, trainer, watcher is not None, before)
    if run.job.warn_collapse and run.is_main:
        trainer.add_callback(CollapseWarnings(run.say, before))
    return Watched(trainer, watcher, best)


def _play_start(run: "TrainingJob", trainer: TurnGRPOTrainer) -> None:
    """Measures the model against that of the start, if that is wanted."""
    if run.job.start_episodes == 0:
        return
    if run.args.use_vllm and run.args.vllm_mode == "server":
        raise ValueError(
            "start_episodes needs the weights of every step, and a server gets them only "
            "between batches; set start_episodes to 0, or vllm_mode to 'colocate'"
        )
    policy = start_policy(run) if run.is_main else None
    every = run.job.evaluate_every
    watcher = AgainstStart(trainer, policy, every, run.job.start_episodes)
    # before the file, so that the file has the figures
    trainer.callback_handler.callbacks.insert(0, watcher)


def _best(
    run: "TrainingJob",
    trainer: TurnGRPOTrainer,
    measures_nash_conv: bool,
    before: list[dict[str, Any]],
) -> BestModel | None:
    """Keeps the best model, and ends the run when its score no longer improves.

    Raises:
        ValueError: patience without a score.
    """
    plays_start, patience = run.job.start_episodes > 0, run.job.patience
    metric = score_metric(
        run.games.plans,
        measures_nash_conv,
        plays_start,
        bool(run.args.curriculum),
        run.args.opponents,
    )
    if metric is None:
        if patience:
            raise ValueError(
                f"want patience only where training measures a score, got {patience}; set "
                "evaluate_every, or start_episodes in a run of one game"
            )
        return None
    best = None
    if run.job.save_best:
        best = BestModel(trainer, run.folder, metric)
        trainer.add_callback(best)
    if patience:
        window = run.args.window
        trainer.add_callback(Patience(metric, patience, window, run.say, before))
    return best


def _nash_conv(
    run: "TrainingJob", trainer: TurnGRPOTrainer, before: list[dict[str, Any]]
) -> NashConvCallback | None:
    """Measures the first game in training, if it can be; goes on after `before`."""
    game, every = run.meters[0].game, run.job.evaluate_every
    if game is None or every == 0:
        return None
    whole = trainer.shards.whole_weights
    watcher = NashConvCallback(trainer.policy, game, run.args.prompt, every, whole)
    watcher.history += [
        (r["step"], r["arena/nash_conv"]) for r in before if "arena/nash_conv" in r
    ]
    # before the file, so that the file has the figure
    trainer.callback_handler.callbacks.insert(0, watcher)
    return watcher


def start_policy(run: "TrainingJob") -> LMPolicy:
    """The model that self-play starts from, prompted and sampled as in training."""
    return LMPolicy.from_pretrained(
        run.start,
        device=run.args.device,
        prompt=run.args.prompt,
        **run.args.sampling_options,
    )


def metrics_before(run: "TrainingJob") -> list[dict[str, Any]]:
    """The metrics up to the checkpoint, in the main process; deletes later ones."""
    if run.checkpoint is None or not run.is_main:
        return []
    return kept_metrics(run.folder / METRICS, run.first_step)


def kept_metrics(path: Path, last_step: int) -> list[dict[str, Any]]:
    """The metrics up to a step; deletes later ones from the file."""
    if not path.exists():
        return []
    kept = [r for r in read_metrics(path) if r["step"] <= last_step]
    with whole_file(path) as file:
        file.writelines(json.dumps(record) + "\n" for record in kept)
    return kept
