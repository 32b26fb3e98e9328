"""Rows: a run of a trainer that learns from rows of recorded episodes, and how its model plays."""

import math
import shutil
import tempfile
import time
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from accelerate.utils import broadcast_object_list
from datasets import Dataset
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
)

from arena_envs import make_game
from arena_envs.trust import named_only
from arena_trainers.checkpoint import checkpoint_of
from arena_trainers.data import Origin, only_prompt, read_origin
from arena_trainers.data.columns import TRAIN
from arena_trainers.lm.adapters import starting_model
from arena_trainers.lm.backends.scoring import default_max_tokens
from arena_trainers.lm.chat import Chat, chat_of
from arena_trainers.lm.context import context_length
from arena_trainers.lm.models import check_language_model
from arena_trainers.lm.policy import LMPolicy
from arena_trainers.lm.prompt_file import PROMPT_FILE, prompt_json, saved_options
from arena_trainers.offline.batches import WholeSteps
from arena_trainers.offline.conversations import write_tokens
from arena_trainers.offline.protocol import Cut, Given, row_trainer
from arena_trainers.offline.row_file import (
    check_rows,
    check_tokens,
    facts_of,
    token_columns,
)
from arena_trainers.runs.folder import (
    METRICS,
    START,
    write_config,
)
from arena_trainers.runs.progress import ShownFigures
from arena_trainers.runs.results.card import (
    CardSource,
    base_model,
    code,
    save_cards,
)
from arena_trainers.runs.results.close import (
    closing_lines,
    config_text,
    outcome_tables,
    provenance,
    results_of,
    write_results,
)
from arena_trainers.runs.results.measure import GameMeter, GameOutcome
from arena_trainers.runs.run import Run, Stage
from arena_trainers.runs.settings import (
    JobConfig,
    build_configs,
    row_config,
    trainer_args,
)
from arena_trainers.runs.start import (
    adapter_errors,
    load_tokenizer,
    longest_replies,
    make_start,
)
from arena_trainers.runs.watch import MetricsFile
from arena_trainers.train.checkpoint import (
    WholeCheckpoints,
    keep_to_schedule,
    load_reference,
)
from arena_trainers.train.games import GamePlan, different_games
from arena_wrappers.prompts import PROMPT_OPTIONS
from arena_wrappers.records import params_of


class RowsModel:
    """The games, prompts and sampling of the trained model, for evaluation and `arena_prompt.json`.

    Prompt options are those of the rows, sampling those of the model's own
    `arena_prompt.json`. Where that file names no longest reply, it is that of the rows, or of
    random legal play if that is longer. Rows of no game have the prompt options of the model,
    or the defaults.

    Args:
        run: has the model's settings and the file of rows.

    Attributes:
        plans: the games of the rows; empty if the file names none.
        tokenizer: the model's.
        args: prompt and sampling options, as those of self-play.

    Raises:
        NotTrusted: the file of rows names code or another file, see `arena_envs.trust`.
        ValueError: the file names no games or prompts where the tiny model needs them, or the
            model has no tokenizer with a chat template.
    """

    @named_only()
    def __init__(self, run: "RowRun") -> None:
        job, data = run.job, run.path
        origin, saved = read_origin(data), saved_options(job.model)
        settings = {**saved, **_prompt(origin, saved, job, data), "seed": run.args.seed}
        if origin is not None:
            settings["games"] = [without_defaults(game) for game in origin.games]
        _, self.args = build_configs(settings, str(run.folder))
        games = self.args.games if origin is not None else []
        self.plans = [GamePlan(spec, self.args) for spec in games]
        self.tokenizer = load_tokenizer(job, run.model, self.plans, self.args.prompt)
        self.chat = chat_of(self.tokenizer, self.args)
        self._has_length = "max_completion_length" in settings

    def fit_replies(self, longest: int) -> None:
        """Makes room for the longest reply of the rows, in tokens, unless the model has a limit."""
        if not self._has_length:
            lengths = longest_replies(self.chat, self.plans, self.args.reply_format)
            self.args.max_completion_length = max([longest, *lengths])

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

    Raises:
        NotTrusted: the file of rows names code, see `arena_envs.trust`.
        ValueError: the game is unknown.
    """
    with named_only():
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
    """The prompt options of the rows; of the model where the file has none or several.

    Rows of no game have the defaults where the model has none.
    """
    own = {name: saved[name] for name in PROMPT_OPTIONS if name in saved}
    if origin is not None and (len(origin.prompts) == 1 or not own):
        return dict(vars(only_prompt(origin)))
    if job.model == "tiny":
        raise ValueError(
            "want a file that says which games and prompts its rows are of, for the words of "
            f"the tiny model, got {str(data)!r} without; name a model with --model PATH, or make "
            "the file with arena data EPISODES --select NAME --out FILE.parquet"
        )
    return own


def at_the_end(trainer: Any, checkpoint: Path) -> bool:
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


class PromptFiles(TrainerCallback):
    """Writes `arena_prompt.json` into every checkpoint, so that it plays or scores.

    Training begins with the learning rate of this run's schedule, not of the checkpoint's.

    Args:
        content: of the file.
    """

    def __init__(self, content: str) -> None:
        self.content = content

    def on_train_begin(self, args: Any, state: Any, control: Any, **given: Any) -> None:
        keep_to_schedule(given["lr_scheduler"])

    def on_save(
        self, args: Any, state: TrainerState, control: TrainerControl, **_: Any
    ) -> None:
        folder = checkpoint_of(args.output_dir, state.global_step)
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


def _card(
    run: "RowRun", outcomes: list[GameOutcome], results: Mapping[str, Any]
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


class RowRun(Run):
    """A run of a trainer that learns from rows; see `Run`.

    Args:
        *args: of `Run`.
        measures: whether the model plays before and after training.
        adapter: folder of the adapter that goes on training; None for a new one, if any.
        **options: of `Run`.
    """

    def __init__(
        self,
        *args: Any,
        measures: bool = True,
        adapter: Path | None = None,
        **options: Any,
    ) -> None:
        self.measures, self.adapter = measures, adapter
        super().__init__(*args, **options)

    def read(self) -> None:
        self.rows, self.job = row_config(self.settings)
        self.kind, self.path = row_trainer(self.rows.trainer), Path(self.rows.data)
        if self.path.is_dir():
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
        self.player = RowsModel(self)
        chat = self.player.chat
        self.tokens = self.path if has_tokens else self._written_tokens(chat)
        self.facts = facts_of(self.tokens, self.kind.rows)
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
        check_tokens(self.tokens, self.facts, chat)
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
            given = None, player.tokenizer, player.plans, self.console
            model = make_start(self.job, player.args, *given)
            self.save_start(model, player.tokenizer, player.policy_options)

    def bound_memory(self) -> None:
        """Cuts the rows of a step into micro-batches, as many as fit the memory at once."""
        self.args.distributed_state.wait_for_everyone()
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
        if not self.is_main or not self.meters:
            return
        options = {"device": self.args.device, **self.player.policy_options}
        policy = LMPolicy.from_pretrained(self.start, **options)
        self.tell_exact(policy)
        for meter in self.meters:
            meter.measure("before training", policy)

    def make_trainer(self) -> None:
        """Makes the trainer with the callbacks that measure and write."""
        player, kind, pad_id = (
            self.player,
            self.kind,
            self.player.tokenizer.pad_token_id,
        )
        if pad_id is None:
            pad_id = player.tokenizer.eos_token_id
        with adapter_errors(self.job):
            self.trainer = kind.make(
                Given(
                    model=starting_model(self.start, self.adapter, self.args),
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
            self.watch_nash_conv(self.policy, player.args.prompt)
        metrics = MetricsFile(self.folder / METRICS)
        self.begin_metrics(metrics)
        self.trainer.add_callback(metrics)

    def _dataset(self) -> Any:
        """The tokens of the rows, mapped from a file on the disk; weights are scaled."""
        names = token_columns(self.kind.rows)
        place: dict[str, Any] = {}
        if self.tokens != self.path:
            place["cache_dir"] = str(self.tokens.parent)
        found: Any = Dataset.from_parquet(str(self.tokens), columns=names, **place)
        if "weight" not in names:
            return found
        weights = self.facts.weights * self.facts.scale
        return found.remove_columns("weight").add_column("weight", weights)

    def train(self) -> None:
        """Trains, unless the checkpoint is of the last step."""
        self.announce(f"resumed after step {self.first_step}")
        if self.checkpoint is None or not at_the_end(self.trainer, self.checkpoint):
            size = self.rows.batch_size
            self.fit(ShownFigures(self.rows.trainer, "rows", size, figures_of), 1)

    def close(self) -> None:
        """Evaluates the trained model; writes and shows the results."""
        if not self.is_main:
            return
        folder, policy = self.folder, self.policy
        (folder / "model" / PROMPT_FILE).write_text(self.player.prompt_json())
        episodes, outcomes = [], []
        if policy is not None:
            for meter in self.meters:
                episodes.append(meter.measure("after training", policy))
                outcomes.append(meter.outcome(policy))
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
        given = folder, self.results, plans, episodes, self.job.saved_episodes
        write_results(*given, title=f"{title}, seed {self.args.seed}")
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
