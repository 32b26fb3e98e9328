"""How a model that is trained on rows plays: its games, its prompts, its sampling.

Resumed runs: one that has made its last step, and one that goes on to more steps.

What a run that learns from rows measures, writes and shows at its end.

The job of `arena train --trainer NAME`: rows, training, evaluation, results.
"""

import json
import math
import shlex
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from rich.console import Console
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)
from transformers.utils.logging import disable_progress_bar

from arena_envs import make_game
from arena_trainers.checkpoint import step_of
from arena_trainers.data import Origin, only_prompt, read_origin
from arena_trainers.data.columns import TRAIN
from arena_trainers.evaluate.intervals import import_stats
from arena_trainers.lm.adapters import starting_model
from arena_trainers.lm.backends.scoring import default_max_tokens
from arena_trainers.lm.chat import Chat
from arena_trainers.lm.models import check_language_model, model_folder
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.lm.prompt_file import PROMPT_FILE, prompt_json, saved_options
from arena_trainers.offline.batches import WholeSteps
from arena_trainers.offline.protocol import Cut, Given, row_trainer
from arena_trainers.offline.row_file import (
    RowFacts,
    check_rows,
    check_tokens,
    facts_of,
    token_columns,
)
from arena_trainers.runs.folder import (
    METRICS,
    RESULTS,
    START,
    begin_from,
    extend,
    finish_model,
    new_folder,
    partial,
    write_config,
)
from arena_trainers.runs.progress import Look, shown_progress
from arena_trainers.runs.results.card import (
    CardSource,
    base_model,
    check_push,
    code,
    push_model,
    save_cards,
)
from arena_trainers.runs.results.close import (
    Frame,
    closing_lines,
    config_text,
    cost,
    draw_curves,
    git_commit,
    outcome_tables,
    read_metrics,
    results_of,
    step_zero,
    versions,
)
from arena_trainers.runs.results.measure import GameMeter, GameOutcome
from arena_trainers.runs.run import StopCallback, Stopper
from arena_trainers.runs.self_play import adapter_errors, kept_metrics
from arena_trainers.runs.settings import (
    JobConfig,
    build_configs,
    row_config,
    trainer_args,
)
from arena_trainers.runs.start import load_tokenizer, longest_replies, make_start
from arena_trainers.runs.watch import MetricsFile, NashConvCallback
from arena_trainers.train.games import GamePlan, different_games
from arena_trainers.train.saved import (
    WholeCheckpoints,
    keep_to_schedule,
    load_reference,
)
from arena_wrappers import write_episodes
from arena_wrappers.prompts import PROMPT_OPTIONS
from arena_wrappers.records import params_of, whole_file

_ADVICE = "make it with arena data EPISODES --select NAME --model {} --out FILE.parquet"


class Player:
    """What evaluation and `arena_prompt.json` need to know of the trained model.

    Prompt options are those of the rows, sampling those of the model's own
    `arena_prompt.json`. Where that file names no longest reply, it is that of the rows, or of
    random legal play if that is longer.

    Args:
        job: the model's settings.
        folder: of the given model; None for the tiny model.
        data: the file of rows.
        facts: of its rows.
        output_dir: the run folder.
        seed: of the run.

    Attributes:
        plans: the games of the rows; empty if the file names none.
        tokenizer: the model's.
        args: prompt and sampling options, as those of self-play.

    Raises:
        ValueError: the file names no games or prompts where they are needed, or the model has no
            tokenizer with a chat template.
    """

    def __init__(
        self,
        job: JobConfig,
        folder: Path | None,
        data: Path,
        facts: RowFacts,
        output_dir: Path,
        seed: int,
    ) -> None:
        origin, saved = read_origin(data), saved_options(job.model)
        settings = {**saved, **_prompt(origin, saved, job, data), "seed": seed}
        if origin is not None:
            settings["games"] = [without_defaults(game) for game in origin.games]
        given = str(output_dir)
        _, self.args = build_configs(settings, given)
        games = self.args.games if origin is not None else []
        self.plans = [GamePlan(spec, self.args) for spec in games]
        self.tokenizer = load_tokenizer(job, folder, self.plans, self.args.prompt)
        if "max_completion_length" not in settings:
            lengths = longest_replies(
                self.tokenizer, self.plans, self.args.reply_format
            )
            self.args.max_completion_length = max([facts.longest_reply, *lengths])

    @property
    def policy_options(self) -> dict[str, Any]:
        """Arguments of `LMPolicy`."""
        return {"prompt": self.args.prompt, **self.args.sampling_options}

    def prompt_json(self) -> str:
        """The content of `arena_prompt.json`."""
        chat = {"chat_template_kwargs": self.args.chat_template_kwargs or {}}
        return prompt_json(self.args.prompt, {**self.args.sampling_options, **chat})


def without_defaults(spec: Mapping[str, Any]) -> dict[str, Any]:
    """A game without parameters that have its default, so that its name stays short.

    Records hold all parameters.

    Args:
        spec: `id`, `params` and `max_turns`.

    Raises:
        ValueError: the game is unknown.
    """
    defaults = params_of(make_game(spec["id"]))
    params = {
        name: value
        for name, value in spec.get("params", {}).items()
        if name not in defaults or value != defaults[name]
    }
    others = {name: value for name, value in spec.items() if name != "params"}
    return {**others, "params": params} if params else others


def _prompt(
    origin: Origin | None, saved: dict[str, Any], job: JobConfig, data: Path
) -> dict[str, Any]:
    """The prompt options of the rows; of the model where the file has none or several."""
    own = {name: saved[name] for name in PROMPT_OPTIONS if name in saved}
    if origin is not None and (len(origin.prompts) == 1 or not own):
        return dict(vars(only_prompt(origin)))
    if not own or (origin is None and job.model == "tiny"):
        raise ValueError(
            f"want a file that says which games and prompts its rows are of, got "
            f"{str(data)!r} without; {_ADVICE.format(job.model)}"
        )
    return own


def at_the_end(trainer: Any, checkpoint: Path) -> bool:
    """Whether a checkpoint is of the last step; then the trainer takes its weights and state.

    `Trainer.train` would make one more step if the last one is not the last of its epoch.

    Args:
        trainer: a `transformers.Trainer`.
        checkpoint: folder of the newest checkpoint.
    """
    state = TrainerState.load_from_json(str(checkpoint / "trainer_state.json"))
    last = trainer.args.max_steps if trainer.args.max_steps > 0 else state.max_steps
    if state.global_step < last:
        return False
    trainer._load_from_checkpoint(str(checkpoint))
    trainer.state = state
    return True


class OwnSchedule(TrainerCallback):
    """Begins with the learning rate of this run's schedule, not with that of the checkpoint."""

    def on_train_begin(
        self, args: Any, state: Any, control: Any, lr_scheduler: Any = None, **_: Any
    ) -> None:
        keep_to_schedule(lr_scheduler)


_FIGURES = {
    "loss": "loss",
    "arena/nash_conv": "NashConv",
    "rewards/accuracies": "accuracy",
}


class PromptFiles(TrainerCallback):
    """Writes `arena_prompt.json` into every checkpoint, so that it plays or scores.

    Args:
        content: of the file.
    """

    def __init__(self, content: str) -> None:
        self.content = content

    def on_save(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        folder = Path(str(args.output_dir)) / f"checkpoint-{state.global_step}"
        if state.is_world_process_zero and folder.is_dir():
            (folder / PROMPT_FILE).write_text(self.content)


def figures_of(logs: Mapping[str, Any]) -> list[str]:
    """The figures of a log that are shown.

    >>> figures_of({"loss": 0.5, "learning_rate": 1e-3})
    ['loss 0.500']
    """
    found = {label: logs.get(name) for name, label in _FIGURES.items()}
    return [
        f"{label} {value:.3f}" for label, value in found.items() if value is not None
    ]


def close_run(run: "RowJob") -> dict[str, Any]:
    """Evaluates the trained model; writes and shows the results.

    Returns:
        What `results.json` holds.
    """
    folder, policy = run.folder, run.policy
    episodes, outcomes = [], []
    (folder / "model" / PROMPT_FILE).write_text(run.player.prompt_json())
    if policy is not None:
        for meter in run.meters:
            episodes.append(meter.measure("after training", policy))
            evaluated = meter.evaluate(policy)
            given = meter.plan.name, meter.stages, evaluated, meter.compare()
            outcomes.append(GameOutcome(*given))
    if episodes:
        share = -(-run.job.saved_episodes // len(episodes))  # of each game
        kept = [episode for played in episodes for episode in played[:share]]
        write_episodes(folder / "episodes.jsonl", kept)
    results = _results(run, outcomes)
    with whole_file(folder / RESULTS) as file:
        file.write(json.dumps(results, indent=2) + "\n")
    metrics = read_metrics(folder / METRICS)
    draw_curves(metrics, folder / "curves.png", _frame(run, outcomes))
    save_cards(_card(run, outcomes, results))
    _show(run, outcomes)
    return results


def _results(run: "RowJob", outcomes: list[GameOutcome]) -> dict[str, Any]:
    args, rows = run.args, run.rows
    return {
        **(results_of(outcomes, None) if outcomes else {}),
        "trainer": rows.trainer,
        "data": {"file": rows.data, "rows": run.facts.num_rows},
        "trained_tokens": run.facts.num_trained,
        "steps": run.trainer.state.global_step,
        "best": None,
        "seconds": round(time.monotonic() - run.began, 1),
        "recipe": run.recipe,
        "games": [plan.name for plan in run.player.plans],
        "model": run.job.model,
        "seed": args.seed,
        "command": shlex.join(["arena", *sys.argv[1:]]),
        "commit": git_commit(),
        "processes": args.world_size,
        "device": str(args.device),
        "versions": versions(),
        "cost": cost(),
    }


def _frame(run: "RowJob", outcomes: list[GameOutcome]) -> Frame:
    games = [meter.plan.game for meter in run.meters]
    return Frame(
        title=f"trainer {run.rows.trainer}, model {run.job.model}, seed {run.args.seed}",
        first_game=outcomes[0].name if outcomes else "",
        return_range=(
            min((game.min_return for game in games), default=0.0),
            max((game.max_return for game in games), default=1.0),
        ),
        uniform=outcomes[0].stages[0].nash_conv if outcomes else None,
        panels={"loss": ["loss"]},
    )


def _card(
    run: "RowJob", outcomes: list[GameOutcome], results: Mapping[str, Any]
) -> CardSource:
    name, steps = run.rows.trainer, run.trainer.state.global_step
    return CardSource(
        run.folder,
        base_model(run.job.model, run.model),
        run.job,
        run.player.args,
        [meter.plan for meter in run.meters],
        outcomes,
        results,
        f"by `{name}` on rows of recorded episodes",
        ("arena-envs", "trl", name),
        [
            ("trainer", code(name)),
            ("rows", f"{run.facts.num_rows:,} {run.kind.rows}"),
            ("steps", f"{steps:,} of {run.rows.batch_size} rows"),
        ],
    )


def _show(run: "RowJob", outcomes: list[GameOutcome]) -> None:
    for outcome in outcomes:
        for table in outcome_tables(outcome):
            run.console.print(table)
    run.say(f"results are in {run.folder}")
    if outcomes:
        plans = [meter.plan for meter in run.meters]
        for line in closing_lines(run.folder, plans, run.player.args):
            run.say(line)


class RowJob:
    """One run of `arena train --trainer NAME` in its folder.

    Args:
        settings: options by name, see `arena_trainers.runs.settings`.
        folder: the run folder.
        console: where progress and results are shown.
        resume: whether to go on from the folder's last checkpoint.
        recipe: name of the recipe, for the results.
        extended: whether a resumed run has another `max_steps` than before.
        stopper: ends training early, at a checkpoint.
        measures: whether the model plays before and after training.
        adapter: folder of the adapter that goes on training; None for a new one, if any.

    Raises:
        ValueError: an option, the rows or the model do not fit; the folder is in use, or has
            nothing to resume. Then nothing has been written.
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
        measures: bool = True,
        adapter: Path | None = None,
    ) -> None:
        import_stats()  # fails now if scipy is missing, not after hours of training
        self.settings, self.folder, self.console = dict(settings), folder, console
        self.recipe, self.extended, self.adapter = recipe, extended, adapter
        self.stopper = stopper or Stopper()
        self.rows, self.job = row_config(settings)
        self.kind, self.path = row_trainer(self.rows.trainer), Path(self.rows.data)
        if self.path.is_dir():
            self.path /= TRAIN
        is_tiny = self.job.model == "tiny"
        self.args = trainer_args(self.kind.config, settings, folder, is_tiny)
        disable_progress_bar()  # of transformers; the run has its own
        self.model = None if is_tiny else model_folder(self.job.model).absolute()
        self.start = folder / START if self.model is None else self.model
        told = self.start, self.args, self.say
        self.checkpoint = begin_from(folder, *told, resume=resume)
        if self.kind.plays and self.model is not None:
            check_language_model(self.job.model)
        if self.rows.batch_size < self.kind.least:
            raise ValueError(
                f"want batch_size of at least {self.kind.least} for trainer "
                f"{self.rows.trainer!r}, got {self.rows.batch_size}; give --batch_size 32"
            )
        self._check_rows(measures)

    def _check_rows(self, measures: bool) -> None:
        """Reads the rows once; raises ValueError where trainer or model cannot learn from them."""
        check_rows(self.path, self.kind.rows)
        self.facts = facts_of(self.path, self.kind.rows)
        at_most = getattr(self.args, "max_length", None)
        if at_most is not None and at_most < self.facts.longest:
            raise ValueError(
                f"want max_length of at least {self.facts.longest}, the tokens of the longest "
                f"row, got {at_most}; leave it out, or choose shorter rows"
            )
        given = self.path, self.facts, self.folder, self.args.seed
        self.player = Player(self.job, self.model, *given)
        # TRL's type of these options also allows JSON
        options: Any = self.player.args.chat_template_kwargs
        chat = Chat(self.player.tokenizer, template_options=options)
        check_tokens(self.path, self.facts, chat)
        plays = self.kind.plays and measures
        games = different_games(self.player.plans) if plays else []
        num = self.job.eval_episodes
        self.meters = [GameMeter(game, self.player.args, num) for game in games]

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return bool(self.args.process_index == 0)

    @property
    def first_step(self) -> int:
        """The optimizer steps before this process began: those of the checkpoint."""
        return step_of(self.checkpoint) if self.checkpoint else 0

    def prepare(self) -> None:
        """Makes the folder, the model that training starts from, and the trainer.

        Raises:
            ValueError: they cannot be made; the folder of a new run is removed again.
        """
        self.began = time.monotonic()
        if self.is_main:
            check_push(self.args)
        if self.model is None:
            torch.set_num_threads(1)  # more make a model this small many times slower
        is_new = self.checkpoint is None and self.is_main
        config = config_text(self.settings, self.args, self.adapter)
        with new_folder(self.folder, config) if is_new else nullcontext():
            if self.model is None and is_new:
                self._make_start()
            self.args.distributed_state.wait_for_everyone()
            self._bound_memory(is_new)
            if self.is_main and self.meters:
                self._measure_start()
            self._make_trainer()

    def _make_start(self) -> None:
        player = self.player
        given = None, player.tokenizer, player.plans, self.console
        model = make_start(self.job, player.args, *given)
        part = self.folder / partial(START)
        options = player.policy_options
        LMPolicy(model, player.tokenizer, **options).save_pretrained(part)
        finish_model(part, self.start)

    def _bound_memory(self, is_new: bool) -> None:
        """Cuts the rows of a step into micro-batches, as many as fit the memory at once."""
        args, most = self.args, self.rows.max_tokens_per_forward
        if most is None:
            with torch.device("meta"):
                config = AutoConfig.from_pretrained(self.start)
                model = AutoModelForCausalLM.from_config(config)
            found = [
                default_max_tokens(
                    model, args.device, checkpointing=args.gradient_checkpointing
                )
            ]
            most = int(broadcast_object_list(found)[0])
            # a resumed run cuts as before, whatever memory is free then
            self.settings["max_tokens_per_forward"] = most
            if is_new:
                write_config(
                    self.folder, config_text(self.settings, args, self.adapter)
                )
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

    def _measure_start(self) -> None:
        options = {"device": self.args.device, **self.player.policy_options}
        policy = LMPolicy.from_pretrained(self.start, **options)
        for meter in self.meters:
            meter.measure("before training", policy)

    def _make_trainer(self) -> None:
        """The trainer with the callbacks that measure and write."""
        player, kind = self.player, self.kind
        with adapter_errors(self.job):
            self.trainer = kind.make(
                Given(
                    model=starting_model(self.start, self.adapter, self.args),
                    args=self.args,
                    rows=self._dataset(),
                    tokenizer=player.tokenizer,
                    pad_id=_pad_id(player.tokenizer),
                    cut=self.cut,
                    peft_config=None if self.adapter else self.job.peft_config,
                )
            )
        if not isinstance(self.trainer, WholeSteps):
            raise ValueError(
                f"trainer {self.rows.trainer!r}: want arena_trainers.offline.batches."
                f"WholeSteps, got {type(self.trainer).__name__}; write class Mine(WholeSteps, "
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
            self._watch()
        metrics = MetricsFile(self.folder / METRICS)
        if self.checkpoint is not None and self.is_main:
            kept_metrics(metrics.path, self.first_step)
        elif self.is_main and self.meters:
            stages = [(m.plan.name, m.stages[1]) for m in self.meters]
            metrics.append(step_zero(stages))
        self.trainer.add_callback(metrics)

    def _watch(self) -> None:
        """Measures the exact NashConv of the first game in training, if it can be."""
        game = self.meters[0].game if self.meters else None
        every, prompt = self.job.evaluate_every, self.player.args.prompt
        if game is not None and every > 0 and self.policy is not None:
            watcher = NashConvCallback(self.policy, game, prompt, every)
            # before the progress, so that it shows the figure
            self.trainer.callback_handler.callbacks.insert(0, watcher)

    def _dataset(self) -> Any:
        """The tokens of the rows, mapped from a file on the disk; weights are scaled."""
        names = token_columns(self.kind.rows)
        found: Any = Dataset.from_parquet(str(self.path), columns=names)
        if "weight" not in names:
            return found
        weights = self.facts.weights * self.facts.scale
        return found.remove_columns("weight").add_column("weight", weights)

    def run(self) -> dict[str, Any]:
        """Trains and evaluates; writes the results to the folder.

        Returns:
            The results; an empty dict in other processes than the main one.
        """
        if self.checkpoint is not None and self.is_main:
            if self.extended:
                extend(self.folder, self.args.max_steps, self.first_step)
            self.say(f"resumed after step {self.first_step}")
        look = Look(self.rows.trainer, "rows", self.rows.batch_size, figures_of)
        if self.checkpoint is None or not at_the_end(self.trainer, self.checkpoint):
            with shown_progress(self.trainer, self.console, self.is_main, look):
                self.trainer.add_callback(OwnSchedule())
                self.trainer.add_callback(StopCallback(self.stopper, 1))
                checkpoint = str(self.checkpoint) if self.checkpoint else None
                with self.stopper.waiting():
                    self.trainer.train(resume_from_checkpoint=checkpoint)
        state = self.trainer.state
        self.stopper.raise_if_stopped(state.global_step, state.max_steps)
        # an internal call, as another one pushes the whole run folder to the hub
        self.trainer.save_model(str(self.folder / "model"), _internal_call=True)
        if not self.is_main:
            return {}
        results = close_run(self)
        if self.args.push_to_hub:
            self.say(push_model(self.folder, self.trainer))
        return results

    def say(self, text: str) -> None:
        """Prints a text as it is, so that its lines can be copied."""
        self.console.print(text, markup=False, highlight=False, soft_wrap=True)


def _pad_id(tokenizer: Any) -> int:
    """The token that pads; it is masked, so that any would do."""
    known = tokenizer.pad_token_id, tokenizer.eos_token_id, 0
    return int(next(token for token in known if token is not None))
