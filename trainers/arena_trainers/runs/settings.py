"""Options of a run of `arena train` besides the trainer's own.

`JobConfig` has those of every run. Self-play also has the fields of `TurnGRPOConfig`, a run on rows
those of `RowConfig` and of its trainer, and a run of rounds those of `Loop`.
"""

from collections.abc import Container, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_trainers.options import (
    check_declared,
    option,
    options_of,
    unknown_option,
    with_texts,
)
from arena_trainers.runs.checks.machine import machine_of
from arena_trainers.train.checks import check_warm_start
from arena_trainers.train.together import check_together

if TYPE_CHECKING:
    from arena_trainers.train.config import TurnGRPOConfig


PROJECT = "arena-envs"  # of the runs in trackio and W&B


@with_texts
@dataclass(frozen=True)
class JobConfig:
    """Settings of a training run besides the trainer's own."""

    model: str = option(
        "tiny",
        group="Model",
        help="Folder of a saved model, an id of the Hugging Face hub, or 'tiny': made "
        "on the spot.",
    )
    hidden_size: int = option(
        64,
        least=4,
        mapping="tiny",
        group="Model",
        help="Width of the tiny model.",
    )
    num_layers: int = option(
        2,
        least=1,
        mapping="tiny",
        group="Model",
        help="Layers of the tiny model.",
    )
    vocab_size: int = option(
        0,
        least=0,
        mapping="tiny",
        group="Model",
        help="Most tokens of the tiny model, byte pairs that all games of the "
        "catalogue teach; by default 0, for the words of its own games.",
    )
    lora_r: int = option(
        0,
        least=0,
        mapping="lora",
        group="Model",
        help="Rank of a LoRA adapter that is trained; 0 to train all weights.",
    )
    lora_alpha: int | None = option(
        None,
        least=1,
        mapping="lora",
        group="Model",
        help="Scale of the adapter; twice the rank by default.",
    )
    lora_target_modules: list[str] = option(
        ["all-linear"],
        mapping="lora",
        group="Model",
        help="Layers that get an adapter, such as q_proj,v_proj; all linear layers "
        "but the output by default.",
    )
    machine: dict[str, Any] = option(
        {},
        group="Model",
        help="The machine that --dry-run plans for, such as {gpus: 8, memory: 80} (GiB of "
        "each). With server: 4, `arena train` starts a vLLM server on the first four GPUs, and "
        "a process on each of the others; with split: true they split the weights by "
        "FSDP2.",
    )
    warm_start_steps: int = option(
        0,
        least=0,
        mapping="warm_start",
        group="Model",
        help="Optimizer steps of imitation of random legal play before self-play.",
    )
    warm_start_episodes: int = option(
        1000,
        least=1,
        mapping="warm_start",
        group="Model",
        help="Episodes of legal play to imitate.",
    )
    warm_start_games: list[Any] = option(
        [],
        mapping="warm_start",
        group="Model",
        help="Games whose legal play is imitated: ids, or dicts of id and params; by "
        "default those of self-play.",
    )
    warm_start_teacher: str | None = option(
        None,
        mapping="warm_start",
        group="Model",
        help="Policy string of a bot to imitate, such as 'cfr'. By default random "
        "legal play is imitated.",
    )
    warm_start_batch_size: int = option(
        256,
        least=1,
        mapping="warm_start",
        group="Model",
        help="Replies imitated per optimizer step.",
    )
    warm_start_learning_rate: float | None = option(
        None,
        least=0,
        mapping="warm_start",
        group="Model",
        help="Learning rate of the imitation; by default from the model's size.",
    )
    evaluate_every: int = option(
        10,
        least=0,
        group="Evaluation",
        help="Steps between exact evaluations in training; 0 for none in between.",
    )
    exact_states: int = option(
        1000,
        least=0,
        mapping="callbacks",
        group="Evaluation",
        help="Most information states of a game whose NashConv is measured exactly, "
        "before, in and after training; 0 for never. A model is scored in each of "
        "them: tic-tac-toe has 4,520.",
    )
    eval_episodes: int = option(
        1000,
        least=1,
        mapping="callbacks",
        group="Evaluation",
        help="Episodes that measure the legal-reply rate.",
    )
    measure_start: bool = option(
        True,
        mapping="callbacks",
        group="Evaluation",
        help="Whether to measure the model before training, as after it.",
    )
    saved_episodes: int = option(
        32,
        least=0,
        mapping="callbacks",
        group="Output",
        help="Episodes kept in episodes.jsonl.",
    )
    columns: dict[str, Any] = option(
        {},
        group="Credit",
        help="Columns or reward parts: {rewards.judge: 'my_module:my_function'}. A "
        "reward model gives them by {rewards.judge: {reward: PATH}}.",
    )
    saved_groups: int = option(
        2,
        least=0,
        mapping="callbacks",
        group="Output",
        help="Training groups kept at each log; 0 for none.",
    )
    show_replies_every: int | None = option(
        None,
        least=0,
        mapping="callbacks",
        group="Output",
        help="Steps between sample replies; default 10, tiny: 0.",
    )
    stall_after: float = option(
        600.0,
        least=0,
        mapping="callbacks",
        group="Output",
        help="Seconds of one step after which each process says what it waits for; 0 "
        "for never.",
    )
    save_best: bool = option(
        True,
        mapping="callbacks",
        group="Output",
        help="Whether to keep the best model in best/.",
    )
    start_episodes: int = option(
        0,
        least=0,
        mapping="callbacks",
        group="Evaluation",
        help="Episodes against the start at evaluations.",
    )
    patience: int = option(
        0,
        least=0,
        mapping="callbacks",
        group="Evaluation",
        help="Evaluations without a better score to the end.",
    )
    warn_collapse: bool = option(
        False,
        mapping="callbacks",
        group="Evaluation",
        help="Whether to warn of a collapse.",
    )

    def __post_init__(self) -> None:
        check_declared(self)
        machine_of(self.machine)
        if self.warm_start_teacher is not None and self.warm_start_steps == 0:
            raise ValueError(
                f"warm_start_teacher={self.warm_start_teacher!r} needs a supervised "
                "start; give --warm_start steps=100"
            )
        if self.start_episodes == 1 or (
            self.start_episodes and not self.evaluate_every
        ):
            raise ValueError(
                "want start_episodes of 0, or of at least 2 with evaluate_every above "
                f"0, got {self.start_episodes} with evaluate_every "
                f"{self.evaluate_every}"
            )
        if 0 < self.vocab_size < 262:
            raise ValueError(
                "want vocab_size of 0, or of at least 262 for all bytes and the chat, "
                f"got {self.vocab_size}"
            )
        if self.hidden_size % 4:
            raise ValueError(f"want hidden_size divisible by 4, got {self.hidden_size}")
        if not self.lora_target_modules:
            raise ValueError("want a layer in lora_target_modules, got none")
        layers = self.lora_target_modules != ["all-linear"]
        if (layers or self.lora_alpha is not None) and not self.lora_r:
            raise ValueError(
                "alpha and target_modules of lora are of an adapter, and its r is "
                "0; give a rank: --lora r=16"
            )

    @property
    def steps_between_replies(self) -> int:
        """`show_replies_every`, or its default; 0 for none."""
        if self.show_replies_every is None:
            return 0 if self.model == "tiny" else 10
        return self.show_replies_every

    @property
    def peft_config(self) -> Any:
        """The `LoraConfig` of the adapter that is trained; None where there is none."""
        if self.lora_r == 0:
            return None
        from arena_trainers.lm.adapters import lora_config

        return lora_config(self.lora_r, self.lora_alpha, self.lora_target_modules)


def build_configs(
    settings: Mapping[str, Any], output_dir: str
) -> tuple[JobConfig, "TurnGRPOConfig"]:
    """The job's configuration and the trainer's, from a mapping of options.

    Raises:
        ValueError: an unknown option, a value of another type, or one out of range.
    """
    from arena_trainers.train.config import TurnGRPOConfig, training_options

    job_options, options = options_of(JobConfig), training_options()
    job, training = {}, {}
    for key, value in settings.items():
        if key in job_options:
            job[key] = job_options[key].converted(value)
        elif key in options:
            training[key] = options[key].converted(value)
        else:
            raise unknown_option(key, {**job_options, **options})
    if isinstance(names := training.get("report_to"), str):
        training["report_to"] = names.replace(" ", "").split(",")
    defaults = output_defaults(output_dir, options)
    config, args = JobConfig(**job), TurnGRPOConfig(**{**defaults, **training})
    check_together(args, suppliers=config.columns, is_adapted=config.lora_r > 0)
    if config.warm_start_steps > 0:
        check_warm_start(args)
    return config, args


def output_defaults(output_dir: str, options: Container[str]) -> dict[str, Any]:
    """Defaults of a trainer's options that differ from TRL's."""
    import torch

    defaults: dict[str, Any] = {
        "report_to": "none",
        "disable_tqdm": True,
        "ddp_find_unused_parameters": False,
        "output_dir": output_dir,
        "run_name": Path(output_dir).absolute().name,
        "hub_strategy": "end",  # with the card, whose results come last
    }
    if "project" in options:  # newer versions of transformers
        defaults["project"] = PROJECT
    if not torch.cuda.is_available():
        defaults |= {"use_cpu": True, "bf16": False}
    return defaults
