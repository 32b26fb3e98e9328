"""The job of `arena train` where the recipe has `rounds`."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
import yaml
from rich.console import Console

from arena_trainers.checkpoint import (
    check_whole,
    files_of,
    write_manifest,
)
from arena_trainers.data import draw
from arena_trainers.evaluate.intervals import import_stats
from arena_trainers.job.run_folder import (
    CONFIG,
    START,
    check_new,
    finish_model,
    new_folder,
    partial,
    write_config,
)
from arena_trainers.job.settings import (
    OF_THE_ADAPTER,
    Stages,
    build_configs,
    load_recipe,
    read_loop,
)
from arena_trainers.job.start import load_tokenizer, longest_replies, make_start
from arena_trainers.job.stopping import Stopper
from arena_trainers.job.watched import adapter_errors
from arena_trainers.lm.adapters import check_layers
from arena_trainers.lm.models import model_folder
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.lm.prompt_file import saved_options
from arena_trainers.loops.checks import check_policies, checked
from arena_trainers.loops.closing import close_loop, score_of
from arena_trainers.loops.stages import (
    EPISODES,
    MODEL,
    ROWS,
    SCORES,
    Round,
    evaluate_round,
    num_seeds,
    play_round,
    select_round,
    train_round,
    write_scores,
)
from arena_trainers.train.games import GamePlan, different_games

START_SCORES = "start-scores.json"
STAGES: tuple[tuple[str, str, Callable[[Round], None]], ...] = (
    ("play", EPISODES, play_round),
    ("select", ROWS, select_round),
    ("train", MODEL, train_round),
    ("evaluate", SCORES, evaluate_round),
)  # name, what it leaves when it is finished, and the function


class RoundError(RuntimeError):
    """A stage cannot go on; earlier stages and rounds are kept."""


class LoopJob:
    """One run of a recipe with `rounds` in its folder.

    Args:
        settings: options by name, see `arena_trainers.job.settings`.
        folder: the run folder.
        console: where progress and results are shown.
        resume: whether to go on with the folder's first unfinished stage.
        stopper: ends training early, at a checkpoint.

    Raises:
        ValueError: an option does not fit, or the folder is in use. Then nothing has been
            written.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        folder: Path,
        console: Console,
        *,
        resume: bool = False,
        stopper: Stopper | None = None,
    ) -> None:
        import_stats()  # fails now if scipy is missing, not after hours of training
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise ValueError(
                "want one process for a recipe with rounds; leave torchrun out"
            )
        self.settings, self.folder, self.console = dict(settings), folder, console
        self.stopper = stopper or Stopper()
        self.loop, given = read_loop(settings)
        model = given.get("model", "tiny")
        given = {**saved_options(model), **given}
        self.job, self.args = build_configs(given, str(folder))
        is_tiny = self.job.model == "tiny"
        self.plans = different_games([GamePlan(s, self.args) for s in self.args.games])
        check_policies(self.loop, self.plans)
        self.stages = self._checked_stages(given)
        self.model = None if is_tiny else model_folder(self.job.model)
        told = self.model, self.plans, self.args.prompt
        self.tokenizer = load_tokenizer(self.job, *told)
        if is_tiny and "max_completion_length" not in given:
            lengths = longest_replies(
                self.tokenizer, self.plans, self.args.reply_format
            )
            self.args.max_completion_length = max(lengths)
        if not resume:
            check_new(folder)
        self.is_new = not resume

    def _checked_stages(self, given: dict[str, Any]) -> list[Stages]:
        """The stages with all their options; a trainer takes some of the model's."""
        shared = {name: given[name] for name in OF_THE_ADAPTER if name in given}
        if self.job.model == "tiny":
            shared["gradient_checkpointing"] = False
        if given.get("use_cpu"):
            shared["use_cpu"] = True
        retries = self.args.on_invalid == "retry"
        return [
            checked(one, self.folder, shared, retries=retries)
            for one in self.loop.stages
        ]

    def prepare(self) -> None:
        """Makes the folder and the model that the loop starts from.

        Raises:
            ValueError: they cannot be made; the folder of a new run is removed again.
        """
        if self.model is None:
            torch.set_num_threads(1)  # more make a model this small many times slower
        text = yaml.safe_dump(self.settings, sort_keys=False)
        if self.is_new:
            with new_folder(self.folder, text):
                self._make_start()
            return
        if load_recipe(str(self.folder / CONFIG)) != self.settings:
            write_config(self.folder, text)  # it has more rounds
        check_whole(self.folder / START)
        if not (self.folder / START).exists():
            self._make_start()

    def _make_start(self) -> None:
        part = self.folder / partial(START)
        shutil.rmtree(part, ignore_errors=True)  # of a loop that was killed
        given = self.model, self.tokenizer, self.plans, self.console
        model = make_start(self.job, self.args, *given)
        if self.job.lora_r:
            with adapter_errors(self.job):
                check_layers(model.config, self.job.peft_config)
        options = {"prompt": self.args.prompt, **self.args.sampling_options}
        LMPolicy(model, self.tokenizer, **options).save_pretrained(part)
        finish_model(part, self.folder / START)

    def run(self) -> dict[str, Any]:
        """Runs the stages that are not finished, and shows the results.

        Returns:
            What `results.json` holds.

        Raises:
            RoundError: a stage cannot go on, such as a selector that chose no row.
        """
        start, scores = self.folder / START, self.folder / START_SCORES
        if not scores.exists():
            write_scores(start, scores, self.loop, self.plans, self.args)
            self.say("start: evaluate is done")
        played = [scores]
        for number in range(self.loop.num):
            if self._has_stalled(played):
                self.say(f"the score has not risen in {self.loop.patience} rounds")
                break
            played.append(self._round(number) / SCORES)
        return close_loop(self.folder, played, self.plans, self.console)

    def _has_stalled(self, played: list[Path]) -> bool:
        """Whether none of the last `patience` rounds has a better score than those before."""
        patience = self.loop.patience
        found = [score_of(path) for path in played]
        if patience == 0 or len(found) <= patience:
            return False
        return max(found[-patience:]) <= max(found[:-patience])

    def _round(self, number: int) -> Path:
        """Runs the stages of a round that are not finished; returns its folder."""
        earlier = [self._folder(k) for k in range(number)]
        folder, start = self._folder(number), self.folder / START
        folder.mkdir(exist_ok=True)
        last = earlier[-1] / MODEL if earlier else start
        goes_on, is_whole = self.loop.start_from == "last", self.job.lora_r == 0
        seeds = [num_seeds(self._stages(k).play, self.plans) for k in range(number)]
        one = Round(
            number=number,
            folder=folder,
            player=last,
            base=last if goes_on and is_whole else start,
            adapter=None if is_whole or not goes_on or not earlier else last,
            earlier=earlier if self.loop.aggregate else [],
            first_seed=draw(self.args.seed, "play") % 2**40 + sum(seeds),
            loop=self.loop,
            stages=self._stages(number),
            plans=self.plans,
            args=self.args,
            console=self.console,
            stopper=self.stopper,
        )
        with _told(number, "files"):
            here = {path.name for path in folder.iterdir()}  # others run again
            check_whole(folder, here)
        for name, result, stage in STAGES:
            if not (folder / result).exists():
                with _told(number, name):
                    stage(one)
                found = [folder / result for _, result, _ in STAGES]
                write_manifest(folder, [f for path in found for f in files_of(path)])
                self.say(f"round {number}: {name} is done")
        return folder

    def _folder(self, number: int) -> Path:
        return self.folder / f"round-{number:02d}"

    def _stages(self, number: int) -> Stages:
        return self.stages[number % len(self.stages)]

    def say(self, text: str) -> None:
        """Prints a text as it is, so that its lines can be copied."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


@contextmanager
def _told(number: int, stage: str) -> Iterator[None]:
    """Says in which round and stage something did not fit."""
    try:
        yield
    except ValueError as error:
        raise RoundError(f"round {number}, {stage}: {error}") from error
