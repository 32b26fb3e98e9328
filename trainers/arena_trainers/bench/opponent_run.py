"""A training run of the comparison of opponents, measured as it goes."""

import tempfile
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from rich.console import Console
from transformers import PrinterCallback, TrainerCallback
from transformers.utils.logging import disable_progress_bar

from arena_trainers.bench.opponents import REFERENCE, SETTINGS, measured, options
from arena_trainers.job.settings import JobConfig, build_configs
from arena_trainers.job.start import load_tokenizer, make_start
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.prepared_games import PreparedGames, prepare_games
from arena_trainers.train.trainer import TurnGRPOTrainer

SCORED_AT_ONCE = 64  # rows; larger passes of a tiny model take longer

Point = dict[str, float]  # by measure


def play(setting: str, name: str, seed: int) -> list[Point]:
    """Trains; the measures at the start and every `every` steps.

    Args:
        setting: a key of `SETTINGS`.
        name: of a variant.
        seed: of the run.
    """
    disable_progress_bar()  # of transformers
    torch.set_num_threads(1)  # more make a model this small many times slower
    start = _start(setting, seed)
    with tempfile.TemporaryDirectory() as folder:
        _, args, games = _prepared(setting, name, seed, folder)
        trainer = TurnGRPOTrainer(
            str(start.folder), args, processing_class=start.tokenizer, games=games
        )
        trainer.remove_callback(PrinterCallback)
        points = [start.point]

        def measure() -> None:
            policy = _policy(trainer.model, start.tokenizer, args)
            points.append(measured(policy, setting))

        trainer.add_callback(_Every(SETTINGS[setting].every, measure))
        trainer.train()
    return points


class _Start(NamedTuple):
    """The model before training, the same for all variants; its folder and measures."""

    folder: Path
    tokenizer: Any
    point: Point
    kept: Any  # deletes the folder when the process ends


@lru_cache(maxsize=2)  # one of each setting
def _start(setting: str, seed: int) -> _Start:
    kept = tempfile.TemporaryDirectory()
    folder = Path(kept.name) / "start"
    job, args, games = _prepared(setting, REFERENCE, seed, kept.name)
    tokenizer = load_tokenizer(job, None, games.plans, args.prompt)
    quiet = Console(quiet=True)
    model = make_start(job, args, None, tokenizer, games.plans, quiet)
    policy = _policy(model, tokenizer, args)
    policy.save_pretrained(folder)
    return _Start(folder, tokenizer, measured(policy, setting), kept)


def _prepared(
    setting: str, name: str, seed: int, folder: str
) -> tuple[JobConfig, TurnGRPOConfig, PreparedGames]:
    job, args = build_configs(options(setting, name, seed), folder)
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
