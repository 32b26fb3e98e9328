"""Starts and runs of `benchmarks/night.py`: imitation, self-play that stops and goes on, adapters.

A run's folder has `checkpoint-N` while it learns, and `adapter` at its end. Committed adapters in
`benchmarks/night/adapters` stand in for folders that are missing.
"""

import json
import os
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    PrinterCallback,
    TrainerCallback,
    TrainerControl,
    TrainerState,
    TrainingArguments,
)

import game_reasons
import reasons
from arena_envs import make
from arena_envs.extras import import_extra
from arena_eval.exploit import exploitability
from arena_trainers.checkpoint import step_of
from arena_trainers.data import Example, legal_play
from arena_trainers.lm import LMPolicy, lora_config, model_folder
from arena_trainers.lm.adapters import starting_model
from arena_trainers.lm.models import ADAPTER
from arena_trainers.lm.prompt_file import PROMPT_FILE
from arena_trainers.offline.warm_start import warm_start
from arena_trainers.runs.settings import build_configs
from arena_trainers.train.prepared import prepare_games
from arena_trainers.train.trainer import TurnGRPOTrainer
from arena_wrappers import PromptWrapper
from gains import be_quiet
from night_settings import (
    DTYPE,
    IMITATION,
    LORA_R,
    MARKS,
    MAX_REASONED_TOKENS,
    MAX_TOKENS,
    PROMPT,
    REASONED_IMITATION,
    SHARED,
    STAGES,
    START,
    TARGETS,
    TRAINED,
)

COMMITTED = Path(__file__).parent / "night" / "adapters"
HISTORY = "history.json"  # of a finished run: what the trainer logged
NASH_CONV = "night/nash_conv"
CPU_SECONDS = "night/cpu_seconds"  # of the process since it began or went on
LOGGED = {
    *("step", "step_time", "loss", "kl", "arena/legal_rate", "arena/reply_tokens"),
    "arena/sampling_gap/mean",
}
SCORED_AT_ONCE = 32  # rows


class TimeIsUp(Exception):
    """The hours of the call have passed; the run has a checkpoint."""


@dataclass(frozen=True)
class Place:
    """The folders of starts and runs, and when runs stop.

    Args:
        runs: folder of starts and runs.
        base: model that imitates first: a name or a folder.
        until: `time.monotonic()` at which runs stop at a checkpoint.
        device: "cpu" or "cuda".
        targets: layers that have the adapter.
        max_steps: of a run; None: those of its stage.
    """

    runs: Path
    base: str = "smollm2"
    until: float = float("inf")
    device: str = "cpu"
    targets: tuple[str, ...] = tuple(TARGETS)
    max_steps: int | None = None

    @property
    def base_folder(self) -> Path:
        """Folder of the base model; made of its package if need be."""
        return model_folder(self.base)

    def check_time(self) -> None:
        """Raises `TimeIsUp` once the hours have passed."""
        if time.monotonic() > self.until:
            raise TimeIsUp

    def adapter(self, name: str) -> Path | None:
        """The folder of a finished adapter, here or committed."""
        for folder in (self.runs / name / "adapter", COMMITTED / name):
            if (folder / ADAPTER).is_file():
                return folder
        return None

    def checkpoint(self, name: str) -> Path | None:
        """The newest checkpoint of a run."""
        folders = (self.runs / name).glob("checkpoint-*")
        return max(folders, key=step_of, default=None)


def run_name(stage: str, credit: str, seed: int) -> str:
    """The name of a run."""
    return f"{stage}-{credit}-{seed}"


def start(place: Place, name: str = START) -> Path:
    """The adapter after imitation, which all runs of a stage share; trained if there is none."""
    if folder := place.adapter(name):
        return folder
    options: dict[str, Any] = {"prompt": PROMPT, "max_new_tokens": MAX_TOKENS}
    if name == START:
        return imitate(place, name, random_play(), IMITATION, options)
    options |= {"max_new_tokens": MAX_REASONED_TOKENS, "reasoning_marks": [*MARKS]}
    return imitate(place, name, game_reasons.examples(), REASONED_IMITATION, options)


def random_play() -> list[Example]:
    """Random legal play of the trained games."""
    return [
        example
        for game, params in TRAINED.items()
        for example in legal_play(
            [partial(PromptWrapper, make(game, **params), **vars(PROMPT))],
            IMITATION["episodes"][game],
            0,
        )
    ]


def imitate(
    place: Place,
    name: str,
    examples: Sequence[Example],
    imitation: Mapping[str, Any],
    policy_options: Mapping[str, Any],
) -> Path:
    """Trains a new adapter on examples, and saves it.

    Args:
        place: where.
        name: of the folder.
        examples: prompts with replies.
        imitation: `steps`, `learning_rate`, `batch_size`, and perhaps `max_tokens` that run at once.
        policy_options: of `LMPolicy`, which the adapter's folder keeps.
    """
    peft = import_extra("peft", "train")
    model: Any = AutoModelForCausalLM.from_pretrained(place.base_folder, dtype=DTYPE)
    model.to(place.device)
    torch.manual_seed(0)
    tokenizer = AutoTokenizer.from_pretrained(place.base_folder)
    adapted = peft.get_peft_model(model, lora_config(LORA_R, None, place.targets))
    policy = LMPolicy(adapted, tokenizer, **policy_options)
    losses = warm_start(
        policy,
        examples,
        num_steps=imitation["steps"] if place.max_steps is None else place.max_steps,
        learning_rate=imitation["learning_rate"],
        batch_size=imitation["batch_size"],
        max_tokens=imitation.get("max_tokens", 4096),
        on_step=lambda step, loss: print(f"{name} {step}: {loss:.3f}", flush=True),
    )
    return save_adapter(place, policy, name, [{"loss": loss} for loss in losses])


def save_adapter(
    place: Place, policy: LMPolicy, name: str, history: list[dict[str, Any]]
) -> Path:
    """Writes a finished adapter in bfloat16, and the history of its training; both or none."""
    folder = place.runs / name / "adapter"
    folder.parent.mkdir(parents=True, exist_ok=True)
    model: Any = policy.model
    peft = import_extra("peft", "train")
    weights = peft.get_peft_model_state_dict(model)
    half = {key: value.to("cpu", torch.bfloat16) for key, value in weights.items()}
    with tempfile.TemporaryDirectory(dir=folder.parent) as part:
        save_file(
            {key: value.contiguous() for key, value in half.items()},
            Path(part) / "adapter_model.safetensors",
        )
        model.peft_config["default"].save_pretrained(part)
        config_file = Path(part) / ADAPTER
        config = json.loads(config_file.read_text())
        # a name that holds on every machine, not this machine's folder
        config["base_model_name_or_path"] = place.base
        config["target_modules"] = sorted(config["target_modules"])
        config_file.write_text(json.dumps(config, indent=1, sort_keys=True) + "\n")
        (Path(part) / PROMPT_FILE).write_text(policy.prompt_json())
        (Path(part) / HISTORY).write_text(json.dumps(history))
        shutil.copytree(part, folder)
    return folder


def options_of(place: Place, stage: str, credit: str, seed: int) -> dict[str, Any]:
    """The options of `arena train` of a run."""
    return on_machine(
        place, {**SHARED, **STAGES[stage].options, "credit": credit, "seed": seed}
    )


def on_machine(place: Place, options: Mapping[str, Any]) -> dict[str, Any]:
    """Options of `arena train` with the model, its adapter and the device."""
    whole = {
        **options,
        "model": str(place.base_folder),
        "use_cpu": place.device == "cpu",
        "model_init_kwargs": {"dtype": DTYPE},
        "lora_r": LORA_R,
        "lora_target_modules": [*place.targets],
    }
    if place.max_steps is not None:
        whole |= {"max_steps": place.max_steps, "save_steps": 1}
    return whole


def run(place: Place, stage: str, credit: str, seed: int) -> Path:
    """The adapter after self-play; trains, or goes on training, if there is none.

    Raises:
        TimeIsUp: the run has a checkpoint, and goes on at the next call.
    """
    name = run_name(stage, credit, seed)
    if folder := place.adapter(name):
        return folder
    setting = STAGES[stage]
    options = options_of(place, stage, credit, seed)
    measures = kuhn_measures if setting.start == START else reasons.logged_measures
    start_folder = start_folder_of(place, stage, credit, seed)
    return learn(place, name, options, start_folder, setting.every, measures)


def start_folder_of(place: Place, stage: str, credit: str, seed: int) -> Path:
    """The adapter that a run trains on: its start, or that of the run it goes on from."""
    if after := STAGES[stage].after:
        return run(place, after, credit, seed)
    return start(place, STAGES[stage].start)


Measures = Callable[[LMPolicy], Mapping[str, float]]  # names begin with "night/"


def kuhn_measures(policy: LMPolicy) -> dict[str, float]:
    """The exact NashConv of Kuhn poker."""
    result = exploitability(policy, make("kuhn_poker").game)
    return {NASH_CONV: result.nash_conv, "night/illegal_mass": result.illegal_mass}


def learn(
    place: Place,
    name: str,
    options: Mapping[str, Any],
    start_folder: Path,
    every: int,
    measures: Measures,
) -> Path:
    """Trains, or goes on training, and saves the adapter.

    Args:
        place: where.
        name: of the run.
        options: of `arena train`.
        start_folder: the adapter that is trained on.
        every: steps between measures.
        measures: what is logged of the model, at the start, too.

    Raises:
        TimeIsUp: the run has a checkpoint, and goes on at the next call.
    """
    place.check_time()
    _, args = build_configs(dict(options), str(place.runs / name))
    tokenizer = AutoTokenizer.from_pretrained(place.base_folder)
    trainer = TurnGRPOTrainer(
        starting_model(place.base_folder, start_folder, args),
        args,
        processing_class=tokenizer,
        games=prepare_games(args),
    )
    trainer.remove_callback(PrinterCallback)
    policy = LMPolicy(
        trainer.model,
        tokenizer,
        prompt=args.prompt,
        **{**args.sampling_options, "batch_size": SCORED_AT_ONCE},
    )
    trainer.add_callback(_Watch(place, trainer, policy, name, every, measures))
    saved = place.checkpoint(name)
    trainer.train(resume_from_checkpoint=saved and str(saved))
    if trainer.state.global_step < args.max_steps:
        raise TimeIsUp
    return save_adapter(place, policy, name, shown(trainer.state.log_history))


def shown(history: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The lines of a run's history, with the keys that pages read."""
    return [
        {
            key: value
            for key, value in line.items()
            if key in LOGGED or key.startswith("night/") or key.endswith("/return")
        }
        for line in history
    ]


class _Watch(TrainerCallback):
    """Logs measures every so many steps, and stops at a checkpoint in time."""

    def __init__(
        self,
        place: Place,
        trainer: TurnGRPOTrainer,
        policy: LMPolicy,
        name: str,
        every: int,
        measures: Measures,
    ) -> None:
        self.place, self.trainer, self.policy = place, trainer, policy
        self.name, self.every, self.measures = name, every, measures
        self.began = time.process_time()

    def on_train_begin(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        if state.global_step == 0:
            self.measure()

    def on_step_end(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        if state.global_step % self.every == 0:
            self.measure()
        if time.monotonic() > self.place.until:
            control.should_save = control.should_training_stop = True

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        **kwargs: Any,
    ) -> None:
        logs = kwargs["logs"]
        if "step_time" in logs:
            logs[CPU_SECONDS] = state.log_history[-1][CPU_SECONDS] = (
                time.process_time() - self.began
            )
            self.began = time.process_time()
        print(f"{self.name} {state.global_step}: {shown([logs])[0]}", flush=True)

    def measure(self) -> None:
        """Logs the measures of the model as it plays."""
        with evaluating(self.trainer.model):
            measured = self.measures(self.policy)
        self.trainer.log(dict(measured))


@contextmanager
def evaluating(model: Any) -> Iterator[None]:
    """The model without dropout, for a while."""
    was_training = model.training
    model.eval()
    try:
        yield
    finally:
        model.train(was_training)


def policy_of(place: Place, adapter: Path) -> LMPolicy:
    """The policy of a saved adapter, in the precision of play and training."""
    return LMPolicy.from_pretrained(
        adapter, device=place.device, dtype=DTYPE, batch_size=SCORED_AT_ONCE
    )


def prepare_process() -> None:
    """One thread, no progress bars, no warnings of libraries."""
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    be_quiet()
    warnings.simplefilter("ignore")
