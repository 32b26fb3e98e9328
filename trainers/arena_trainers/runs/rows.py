"""A run of a trainer that learns from rows of recorded episodes."""

import math
import shutil
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PrinterCallback,
    Trainer,
    TrainerState,
)

from arena_studio.outputs import reading_advice
from arena_trainers.data.columns import TRAIN
from arena_trainers.lm.adapters import ModelOptions, starting_model
from arena_trainers.lm.backends.memory import default_max_tokens
from arena_trainers.lm.chat import Chat
from arena_trainers.lm.context import context_length
from arena_trainers.lm.models import check_language_model
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.lm.prompt_file import PROMPT_FILE
from arena_trainers.offline.batches import WholeSteps
from arena_trainers.offline.conversations import write_tokens
from arena_trainers.offline.protocol import Cut, TrainerParts, row_trainer
from arena_trainers.offline.row_file import (
    check_row_tokens,
    check_rows,
    file_facts,
    token_columns,
)
from arena_trainers.processes import raised_everywhere
from arena_trainers.runs.callbacks.metrics_file import MetricsFile
from arena_trainers.runs.callbacks.progress import ProgressFormat
from arena_trainers.runs.callbacks.prompt_files import PromptFiles
from arena_trainers.runs.folder import METRICS, START, write_config
from arena_trainers.runs.results.base_model import base_model
from arena_trainers.runs.results.card import CardSource, save_cards
from arena_trainers.runs.results.commands import closing_lines
from arena_trainers.runs.results.files import results_of, write_results
from arena_trainers.runs.results.markdown import code
from arena_trainers.runs.results.measure import GameMeter, GameOutcome
from arena_trainers.runs.results.provenance import config_text, provenance
from arena_trainers.runs.results.tables import outcome_tables
from arena_trainers.runs.row_player import RowPlayer
from arena_trainers.runs.row_settings import row_config, trainer_args
from arena_trainers.runs.run import Run, Stage
from arena_trainers.runs.start import adapter_errors, make_start
from arena_trainers.terminal import Console
from arena_trainers.train.games import different_games
from arena_trainers.train.whole_checkpoints import WholeCheckpoints, load_reference
from arena_wrappers import Episode


def at_the_end(trainer: Trainer, checkpoint: Path) -> bool:
    """Whether a checkpoint is of the last step; then the trainer takes its weights and state.

    `Trainer.train` would make one more step if the last one is not the last of its epoch.
    """
    state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    last = trainer.args.max_steps if trainer.args.max_steps > 0 else state.max_steps
    if state.global_step < last:
        return False
    trainer._load_from_checkpoint(str(checkpoint))
    trainer.state = state
    return True


_FIGURES = {
    "loss": "loss",
    "arena/nash_conv": "NashConv",
    "rewards/accuracies": "accuracy",
}


def row_figures(logs: Mapping[str, Any]) -> list[str]:
    """The figures of a log that are shown.

    >>> row_figures({"loss": 0.5, "learning_rate": 1e-3})
    ['loss 0.500']
    """
    figures = {label: logs.get(name) for name, label in _FIGURES.items()}
    return [
        f"{label} {value:.3f}" for label, value in figures.items() if value is not None
    ]


def _card(
    run: "RowRun", outcomes: list[GameOutcome], results: Mapping[str, Any]
) -> CardSource:
    name, steps = run.rows.trainer, run.trainer.state.global_step
    return CardSource(
        folder=run.folder,
        base=base_model(run.job.model, run.model),
        job=run.job,
        args=run.player.args,
        plans=[meter.plan for meter in run.meters],
        outcomes=outcomes,
        results=results,
        how=f"by `{name}` on rows of recorded episodes",
        tags=("arena-envs", "trl", name),
        training=[
            ("trainer", code(name)),
            ("rows", f"{run.facts.num_rows:,} {run.kind.rows}"),
            ("steps", f"{steps:,} of {run.rows.batch_size} rows"),
        ],
    )


class RowRun(Run):
    """A run of a trainer that learns from rows; see `Run`.

    Args:
        settings: as for `Run`.
        folder: as for `Run`.
        console: as for `Run`.
        measures: whether the model plays before and after training.
        adapter: folder of the adapter that goes on training; None for a new one, if any.
        **options: keyword arguments of `Run`.
    """

    def __init__(
        self,
        settings: dict[str, Any],
        folder: Path,
        console: Console,
        *,
        measures: bool = True,
        adapter: Path | None = None,
        **options: Any,
    ) -> None:
        self.measures, self.adapter = measures, adapter
        super().__init__(settings, folder, console, **options)

    def read(self) -> None:
        self.rows, self.job = row_config(self.settings)
        self.kind, self.path = row_trainer(self.rows.trainer), Path(self.rows.data)
        if self.path.is_dir():
            if not (self.path / TRAIN).is_file():
                advice = reading_advice(self.path, "give a file of rows")
                raise ValueError(
                    f"want {TRAIN} in the folder of rows {str(self.path)!r}, found none; "
                    f"{advice}"
                )
            self.path /= TRAIN
        is_tiny = self.job.model == "tiny"
        self.args = trainer_args(self.kind.config, self.settings, self.folder, is_tiny)
        self.find_start()
        if self.kind.plays and self.model is not None:
            check_language_model(self.job.model)
        if self.rows.batch_size < self.kind.least:
            raise ValueError(
                f"want batch_size of at least {self.kind.least} for trainer "
                f"{self.rows.trainer!r}, got {self.rows.batch_size}; give --batch_size "
                "32"
            )
        self._check_rows()

    def _check_rows(self) -> None:
        """Reads the rows once; raises ValueError where trainer or model cannot learn from them."""
        has_tokens = check_rows(self.path, self.kind.rows)
        self.player = RowPlayer(
            self.job,
            self.path,
            folder=self.folder,
            model=self.model,
            seed=self.args.seed,
        )
        chat = self.player.chat
        self.tokens = self.path if has_tokens else self._written_tokens(chat)
        self.facts = file_facts(self.tokens, self.kind.rows)
        self.player.fit_replies(self.facts.longest_reply)
        at_most = getattr(self.args, "max_length", None)
        if at_most is not None and at_most < self.facts.longest:
            raise ValueError(
                f"want max_length of at least {self.facts.longest}, the tokens of the "
                f"longest row, got {at_most}; leave it out, or choose shorter rows"
            )
        limit = None
        if self.model is not None:
            limit = context_length(AutoConfig.from_pretrained(self.model))
        if limit is not None and limit < self.facts.longest:
            raise ValueError(
                f"want rows of at most {limit} tokens, the context of {self.job.model}, got "
                f"{self.facts.longest} in {self.path}; select shorter episodes (arena data), "
                "or give a model with a longer context"
            )
        check_row_tokens(self.tokens, self.facts, chat)
        plays = self.kind.plays and self.measures
        games = different_games(self.player.plans) if plays else []
        num = self.job.eval_episodes
        exact = self.job.exact_states
        self.meters = [
            GameMeter(game, self.player.args, num, exact_states=exact) for game in games
        ]

    def _written_tokens(self, chat: Chat) -> Path:
        """A file of the rows' tokens, which is deleted with this run."""
        folder = tempfile.mkdtemp(prefix="arena-rows-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        path = Path(folder) / "tokens.parquet"
        write_tokens(self.path, self.kind.rows, chat, path)
        return path

    def config(self) -> str:
        return config_text(self.settings, self.args, self.adapter)

    def make_start(self) -> None:
        """Makes the tiny model, if no model is given."""
        if self.model is None and self.is_new:
            player = self.player
            model = make_start(
                self.job,
                player.args,
                None,
                player.tokenizer,
                player.plans,
                self.console,
            )
            self.save_start(model, player.tokenizer, player.policy_options)

    def bound_memory(self) -> None:
        """Cuts the rows of a step into micro-batches, as many as fit the memory at once."""
        self.args.distributed_state.wait_for_everyone()
        args, most = self.args, self.rows.max_tokens_per_forward
        if most is None:
            with torch.device("meta"):
                config = AutoConfig.from_pretrained(self.start)
                model = AutoModelForCausalLM.from_config(config)
            default = default_max_tokens(
                model, args.device, checkpointing=bool(args.gradient_checkpointing)
            )
            most = int(broadcast_object_list([default])[0])
            # a resumed run cuts as before, whatever memory is free then
            self.settings["max_tokens_per_forward"] = most
            if self.is_new:
                write_config(self.folder, self.config())
        texts = 2 if self.kind.rows == "pairs" else 1
        share = math.ceil(self.rows.batch_size / args.world_size)
        parts = math.ceil(share / max(most // (self.facts.longest * texts), 1))
        self.cut = Cut(self.rows.batch_size, math.ceil(share / parts))
        args.per_device_train_batch_size = max(share, self.kind.least)
        if self.is_main:
            self.say(
                f"{self.facts.num_rows:,} rows of at most {self.facts.longest} tokens; at "
                f"most {most:,} tokens run at once (max_tokens_per_forward): "
                f"{self.cut.at_once} rows"
            )

    def measure_start(self) -> None:
        """Measures the model before training."""
        if not self.meters or not self.job.measure_start:
            return
        options = {"device": self.args.device, **self.player.policy_options}
        policy = LMPolicy.from_pretrained(self.start, **options)
        if self.is_main:
            self.announce_exact(policy)
        for meter in self.meters:
            meter.measure("before training", policy)

    def make_trainer(self) -> None:
        """Makes the trainer with the callbacks that measure and write."""
        player, kind = self.player, self.kind
        pad_id = player.tokenizer.pad_token_id
        if pad_id is None:
            pad_id = player.tokenizer.eos_token_id
        with adapter_errors(self.job):
            self.trainer = kind.make(
                TrainerParts(
                    model=starting_model(
                        self.start, self.adapter, cast(ModelOptions, self.args)
                    ),
                    args=self.args,
                    rows=self._dataset(),
                    tokenizer=player.tokenizer,
                    pad_id=pad_id or 0,  # it is masked, so that any would do
                    cut=self.cut,
                    peft_config=None if self.adapter else self.job.peft_config,
                )
            )
        if not isinstance(self.trainer, WholeSteps):
            raise ValueError(
                f"trainer {self.rows.trainer!r}: want "
                "arena_trainers.offline.batches.WholeSteps, got "
                f"{type(self.trainer).__name__}; write class Mine(WholeSteps, "
                f"{type(self.trainer).__name__})"
            )
        self.trainer.remove_callback(PrinterCallback)
        self.policy = None
        self.trainer.add_callback(PromptFiles(player.prompt_json()))
        self.trainer.add_callback(WholeCheckpoints(self.trainer))
        if self.checkpoint is not None:
            load_reference(self.trainer, self.checkpoint)
        if kind.plays:
            model = self.trainer.accelerator.unwrap_model(self.trainer.model)
            self.policy = LMPolicy(model, player.tokenizer, **player.policy_options)
            self.measure_nash_conv(self.policy, player.args.prompt)
        metrics = MetricsFile(self.folder / METRICS)
        self.begin_metrics(metrics)
        self.trainer.add_callback(metrics)

    def _dataset(self) -> Any:
        """The tokens of the rows, mapped from a file on the disk; weights are scaled."""
        names = token_columns(self.kind.rows)
        place: dict[str, Any] = {}
        if self.tokens != self.path:
            place["cache_dir"] = str(self.tokens.parent)
        dataset: Any = Dataset.from_parquet(str(self.tokens), columns=names, **place)
        if "weight" not in names:
            return dataset
        weights = self.facts.weights * self.facts.scale
        return dataset.remove_columns("weight").add_column("weight", weights)

    def train(self) -> None:
        """Trains, unless the checkpoint is of the last step."""
        self.announce(f"resumed after step {self.first_step}")
        if self.checkpoint is None or not at_the_end(self.trainer, self.checkpoint):
            size = self.rows.batch_size
            self.fit(ProgressFormat(self.rows.trainer, "rows", size, row_figures), 1)

    def close(self) -> None:
        """Evaluates the trained model; writes and shows the results."""
        episodes, outcomes = list[list[Episode]](), list[GameOutcome]()
        if self.policy is not None:
            for meter in self.meters:
                episodes.append(meter.measure("after training", self.policy))
                outcomes.append(meter.outcome(self.policy))
        with raised_everywhere():
            if self.is_main:
                self._finish(episodes, outcomes)

    def _finish(
        self, episodes: list[list[Episode]], outcomes: list[GameOutcome]
    ) -> None:
        """Writes and shows the results."""
        folder = self.folder
        (folder / "model" / PROMPT_FILE).write_text(self.player.prompt_json())
        self.results = {
            **(results_of(outcomes, None) if outcomes else {}),
            "trainer": self.rows.trainer,
            "data": {"file": self.rows.data, "rows": self.facts.num_rows},
            "trained_tokens": self.facts.num_trained,
            "steps": self.trainer.state.global_step,
            "best": None,
            "seconds": round(time.monotonic() - self.began, 1),
            "recipe": self.recipe,
            **provenance(self.job, self.args, self.player.plans),
        }
        title = f"trainer {self.rows.trainer}, model {self.job.model}"
        plans = [meter.plan for meter in self.meters]
        write_results(
            folder,
            self.results,
            plans,
            episodes,
            self.job.saved_episodes,
            title=f"{title}, seed {self.args.seed}",
        )
        save_cards(_card(self, outcomes, self.results))
        for outcome in outcomes:
            for table in outcome_tables(outcome):
                self.console.print(table)
        self.say(f"results are in {folder}")
        if outcomes:
            self.say("\n".join(closing_lines(folder, plans, self.player.args)))
        self.push()

    opening = (
        Stage("start", make_start, START),
        Stage("memory", bound_memory),
        Stage("measure", measure_start),
        Stage("trainer", make_trainer),
    )
    stages = (
        Stage("train", train),
        Stage("save", Run.save_model),
        Stage("close", close),
    )
