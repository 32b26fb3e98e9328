"""A run of a recipe with `rounds`, each of play, selection, training and evaluation."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from arena_trainers.checkpoint import (
    check_whole,
    files_of,
    read_manifest,
    write_manifest,
)
from arena_trainers.data import seeded_integer
from arena_trainers.lm.adapters import count_weights
from arena_trainers.lm.chat import chat_of
from arena_trainers.lm.models import model_folder
from arena_trainers.lm.prompt_file import saved_options
from arena_trainers.runs.checks.lengths import longest_replies
from arena_trainers.runs.checks.rounds import (
    check_round_policies,
    check_stages,
    try_selectors,
)
from arena_trainers.runs.folder import CONFIG, RESULTS, START, check_new, write_config
from arena_trainers.runs.mappings import nested
from arena_trainers.runs.recipe import load_recipe
from arena_trainers.runs.results.rounds import (
    CURVES,
    read_score,
    round_entry,
    rounds_figure,
    scores_table,
)
from arena_trainers.runs.round_settings import ADAPTER_OPTIONS, RoundStages, read_loop
from arena_trainers.runs.round_stages import (
    MODEL,
    ROUND_STAGES,
    SCORES,
    Round,
    num_seeds,
    write_json,
    write_scores,
)
from arena_trainers.runs.run import Run, Stage, unfinished
from arena_trainers.runs.settings import build_configs
from arena_trainers.runs.start import adapter_errors, load_tokenizer, make_start
from arena_trainers.train.config import TurnGRPOConfig
from arena_trainers.train.games import GamePlan, different_games

START_SCORES = "start-scores.json"


class RoundError(RuntimeError):
    """A stage cannot go on; earlier stages and rounds are kept."""


class Rounds(Run):
    """A run of a recipe with `rounds`; see `Run`. It resumes with its first unfinished stage."""

    args: TurnGRPOConfig

    def read(self) -> None:
        if int(os.environ.get("WORLD_SIZE", "1")) > 1:
            raise ValueError(
                "want one process for a recipe with rounds; leave torchrun out"
            )
        self.loop, options = read_loop(self.settings)
        options = {**saved_options(options.get("model", "tiny")), **options}
        self.job, self.args = build_configs(options, str(self.folder))
        is_tiny = self.job.model == "tiny"
        self.plans = different_games([GamePlan(s, self.args) for s in self.args.games])
        check_round_policies(self.loop, self.plans)
        self.stages_with_options = self._checked_stages(options)
        try_selectors(self.stages_with_options, self.plans)
        self.model = None if is_tiny else model_folder(self.job.model)
        self.tokenizer = load_tokenizer(
            self.job, self.model, self.plans, self.args.prompt
        )
        if is_tiny and "max_completion_length" not in options:
            lengths = longest_replies(
                chat_of(self.tokenizer, self.args), self.plans, self.args.reply_format
            )
            self.args.max_completion_length = max(lengths)
        if not self.resume:
            check_new(self.folder)
        self.score_files = [self.folder / START_SCORES]  # files of scores

    def _checked_stages(self, start_settings: dict[str, Any]) -> list[RoundStages]:
        """The stages with all their options; a trainer takes some of the model's."""
        shared = {
            name: start_settings[name]
            for name in ADAPTER_OPTIONS
            if name in start_settings
        }
        if self.job.model == "tiny":
            shared["gradient_checkpointing"] = False
        if start_settings.get("use_cpu"):
            shared["use_cpu"] = True
        retries = self.args.on_invalid == "retry"
        return [
            check_stages(stages, self.folder, shared, retries=retries)
            for stages in self.loop.stages
        ]

    def config(self) -> str:
        return yaml.safe_dump(nested(self.settings), sort_keys=False)

    def check_files(self) -> None:
        """Writes the new number of rounds; checks the start."""
        if load_recipe(str(self.folder / CONFIG)) != self.settings:
            write_config(self.folder, self.config())  # it has more rounds
        start, scores = self.folder / START, self.folder / START_SCORES
        files = read_manifest(start).get("files", {})
        if f"../{START_SCORES}" not in files:
            scores.unlink(missing_ok=True)  # killed before it was named
        parts = {Path(name).parts[0] for name in files}
        check_whole(start, parts if scores.exists() else parts - {".."})

    def make_start(self) -> None:
        """Makes the model that the rounds start from."""
        model = make_start(
            self.job, self.args, self.model, self.tokenizer, self.plans, self.console
        )
        if self.job.lora_r:
            with adapter_errors(self.job):
                count_weights(model.config, self.job.peft_config)
        options = {"prompt": self.args.prompt, **self.args.sampling_options}
        self.save_start(model, self.tokenizer, options)

    def measure_start(self) -> None:
        """Measures that model; its manifest names the scores, too."""
        start, scores = self.folder / START, self.folder / START_SCORES
        write_scores(self, start, scores)
        write_manifest(start, [*files_of(start), scores])
        self.say("start: evaluate is done")

    def repeat(self) -> None:
        """Runs the rounds; each skips its finished stages.

        Raises:
            RoundError: a stage cannot go on, such as a selector that chose no row.
        """
        patience = self.loop.patience
        for number in range(self.loop.num):
            scores = [read_score(path) for path in self.score_files]
            late, before = scores[-patience:], scores[:-patience]
            if patience and before and max(late) <= max(before):
                self.say(f"the score has not risen in {patience} rounds")
                break
            self.score_files.append(self._round(number) / SCORES)

    def close(self) -> None:
        """Writes and shows what the rounds reached."""
        folder = self.folder
        rounds = [round_entry(folder, path) for path in self.score_files]
        best = max(rounds, key=lambda entry: float(entry["score"]))
        games = [plan.name for plan in self.plans]
        self.results = {"games": games, "best": best["model"], "rounds": rounds}
        write_json(folder / RESULTS, self.results)
        rounds_figure(rounds).savefig(folder / CURVES, format="png", dpi=120)
        self.console.print(scores_table(", ".join(games), rounds, best))
        self.say(f"results are in {folder}; the best model is {folder / best['model']}")

    def _round(self, number: int) -> Path:
        """Runs the stages of a round that are not finished; returns its folder."""
        earlier = [self._folder(k) for k in range(number)]
        folder, start = self._folder(number), self.folder / START
        folder.mkdir(exist_ok=True)
        last = earlier[-1] / MODEL if earlier else start
        goes_on = self.loop.start_from == "last"
        is_whole = self.job.lora_r == 0
        seeds = [num_seeds(self._stages(k).play, self.plans) for k in range(number)]
        loop_round = Round(
            number=number,
            folder=folder,
            player=last,
            base=last if goes_on and is_whole else start,
            adapter=None if is_whole or not goes_on or not earlier else last,
            earlier=earlier if self.loop.aggregate else [],
            first_seed=seeded_integer(self.args.seed, "play") % 2**40 + sum(seeds),
            stages=self._stages(number),
            run=self,
        )
        with _errors_of_stage(number, "files"):
            here = {path.name for path in folder.iterdir()}  # others run again
            check_whole(folder, here)
        for stage in unfinished(ROUND_STAGES, folder):
            with _errors_of_stage(number, stage.name):
                stage.do(loop_round)
            files = []
            for finished_or_later in ROUND_STAGES:
                files += files_of(folder / str(finished_or_later.leaves))
            write_manifest(folder, files)
            self.say(f"round {number}: {stage.name} is done")
        return folder

    def _folder(self, number: int) -> Path:
        return self.folder / f"round-{number:02d}"

    def _stages(self, number: int) -> RoundStages:
        return self.stages_with_options[number % len(self.stages_with_options)]

    opening = (Stage("files", check_files), Stage("start", make_start, START))
    stages = (
        Stage("evaluate", measure_start, START_SCORES),
        Stage("rounds", repeat),
        Stage("close", close),
    )


@contextmanager
def _errors_of_stage(number: int, stage: str) -> Iterator[None]:
    """Says in which round and stage something did not fit."""
    try:
        yield
    except ValueError as error:
        raise RoundError(f"round {number}, {stage}: {error}") from error
