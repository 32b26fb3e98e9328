"""Options of `arena train --trainer NAME`: ours, those of the model, and the trainer's own."""

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from arena_trainers.job.settings import JobConfig
from arena_trainers.train.options import Option, options_of

OF_THE_MODEL = (
    *("model", "hidden_size", "num_layers"),
    *("lora_r", "lora_alpha", "lora_target_modules"),
    *("evaluate_every", "eval_episodes", "saved_episodes"),
)  # options of `JobConfig` that rows need, too
NOT_OURS = (
    "output_dir",
    "resume_from_checkpoint",
    "remove_unused_columns",
    "dataset_kwargs",
)


@dataclass(frozen=True)
class RowConfig:
    """Settings of a run that learns from rows, besides the model's and the trainer's."""

    trainer: str = field(metadata={"help": "Name of the trainer."})
    data: str = field(
        metadata={
            "help": "Parquet file of rows, or folder of splits, which arena data writes."
        }
    )
    batch_size: int = field(
        default=32,
        metadata={
            "help": "Rows per optimizer step, all processes together. The gradient is their "
            "mean, also if they run in micro-batches that fit the memory."
        },
    )
    max_tokens_per_forward: int | None = field(
        default=None,
        metadata={
            "help": "Most tokens that run at once; by default what memory allows."
        },
    )

    def __post_init__(self) -> None:
        for name in ("batch_size", "max_tokens_per_forward"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"want {name} of at least 1, got {value}")


def row_options() -> dict[str, Option]:
    """The options that all trainers share, by name; imports no library."""
    ours = options_of(RowConfig)
    shared = options_of(JobConfig)
    return ours | {name: shared[name] for name in OF_THE_MODEL}


def trainer_options(config: type[Any]) -> dict[str, Option]:
    """The options of a trainer's own, by name."""
    found = options_of(config, {option.name for option in fields(config)})
    return {name: option for name, option in found.items() if name not in NOT_OURS}


def row_config(settings: Mapping[str, Any]) -> tuple[RowConfig, JobConfig]:
    """The settings that all trainers share.

    Raises:
        ValueError: one is missing, of another type or out of range.
    """
    if settings.get("data") is None:
        raise ValueError(
            f"trainer {settings['trainer']!r} learns from rows; give --data FILE.parquet, "
            "which arena data writes"
        )
    options = row_options()
    given = {n: options[n].converted(v) for n, v in settings.items() if n in options}
    shared = {name: given.pop(name) for name in OF_THE_MODEL if name in given}
    return RowConfig(**given), JobConfig(**shared)


def trainer_args(
    config: type[Any], settings: Mapping[str, Any], output_dir: Path, is_tiny: bool
) -> Any:
    """The trainer's own settings.

    Args:
        config: its dataclass.
        settings: options by name.
        output_dir: the run folder.
        is_tiny: whether the model is the tiny one.

    Raises:
        ValueError: an unknown option, a value of another type, or one out of range.
    """
    options, ours = trainer_options(config), row_options()
    given = {}
    for name, value in settings.items():
        if name in ours:
            continue
        if name not in options:
            near = difflib.get_close_matches(name, [*ours, *options], n=1)
            trainer = settings["trainer"]
            hint = f"arena train --trainer {trainer} --help-all lists all"
            if near:
                hint = f"did you mean {near[0]!r}?"
            raise ValueError(f"trainer {trainer!r} has no option {name!r}; {hint}")
        given[name] = options[name].converted(value)
    for name in (
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "auto_find_batch_size",
    ):
        if name in given:
            raise ValueError(
                f"want batch_size alone, which is cut to fit the memory, got {name}; give "
                "--batch_size N, and --max_tokens_per_forward M for smaller micro-batches"
            )
    from arena_trainers.job.output_defaults import output_defaults

    defaults = output_defaults(str(output_dir), options)
    defaults["remove_unused_columns"] = False  # the collator reads the masks
    if "max_length" in options:
        defaults["max_length"] = None  # rows are never cut
    if "router_aux_loss_coef" in options:
        defaults["router_aux_loss_coef"] = 0.0  # it depends on the micro-batches
    if is_tiny:
        defaults["gradient_checkpointing"] = False
    return config(**{**defaults, **given})
