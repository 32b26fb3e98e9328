"""Runs of the tiny model that are measured as they go: their start, and a callback."""

import tempfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from transformers import PrinterCallback, TrainerCallback
from transformers.utils.logging import disable_progress_bar

from arena_trainers.job.settings import JobConfig, build_configs
from arena_trainers.job.start import load_tokenizer, make_start
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.matching import PreparedGames, prepare_games
from arena_trainers.train.trainer import TurnGRPOTrainer

SCORED_AT_ONCE = 64  # rows; larger passes of a tiny model take longer

Point = dict[str, float]  # by measure
Measured = Callable[[LMPolicy], Point]


class Start(NamedTuple):
    """The model before training, the same for all variants.

    Attributes:
        folder: of the model; it is deleted when the process ends.
        tokenizer: of the model.
        point: its measures.
        kept: keeps the folder.
    """

    folder: Path
    tokenizer: Any
    point: Point
    kept: Any


def make_saved_start(options: Mapping[str, Any], measured: Measured) -> Start:
    """Makes the model that a run starts from, and measures it.

    Args:
        options: of `arena train`.
        measured: the measures of a policy.
    """
    be_quiet()
    kept = tempfile.TemporaryDirectory()
    folder = Path(kept.name) / "start"
    job, args, games = _prepared(options, kept.name)
    tokenizer = load_tokenizer(job, None, games.plans, args.prompt)
    quiet = Console(quiet=True)
    model = make_start(job, args, None, tokenizer, games.plans, quiet)
    policy = _policy(model, tokenizer, args)
    policy.save_pretrained(folder)
    return Start(folder, tokenizer, measured(policy), kept)


def learn_by_grpo(
    options: Mapping[str, Any],
    model: Path,
    tokenizer: Any,
    every: int,
    measured: Measured,
) -> list[Point]:
    """Trains by `TurnGRPOTrainer`; the measures every so many steps.

    Args:
        options: of `arena train`.
        model: folder of the model that training starts from.
        tokenizer: of the model.
        every: optimizer steps between measurements.
        measured: the measures of a policy.
    """
    be_quiet()
    points: list[Point] = []
    with tempfile.TemporaryDirectory() as folder:
        _, args, games = _prepared(options, folder)
        trainer = TurnGRPOTrainer(
            str(model), args, processing_class=tokenizer, games=games
        )
        trainer.remove_callback(PrinterCallback)

        def measure() -> None:
            points.append(measured(_policy(trainer.model, tokenizer, args)))

        trainer.add_callback(_Every(every, measure))
        trainer.train()
    return points


def be_quiet() -> None:
    """Hides progress bars, and runs one thread."""
    disable_progress_bar()  # of transformers
    torch.set_num_threads(1)  # more make a model this small many times slower


def _prepared(
    options: Mapping[str, Any], folder: str
) -> tuple[JobConfig, TurnGRPOConfig, PreparedGames]:
    job, args = build_configs(dict(options), folder)
    return job, args, prepare_games(args)


def _policy(model: Any, tokenizer: Any, args: TurnGRPOConfig) -> LMPolicy:
    how = {**args.sampling_options, "batch_size": SCORED_AT_ONCE}
    return LMPolicy(model, tokenizer, prompt=args.prompt, **how)


class _Every(TrainerCallback):
    """Calls a function every so many optimizer steps."""

    def __init__(self, num_steps: int, call: Callable[[], None]) -> None:
        self._num_steps, self._call = num_steps, call

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % self._num_steps == 0:
            self._call()
