"""Options of a run that learns from rows."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from arena_trainers.options import (
    Option,
    check_declared,
    option,
    options_of,
    unknown_option,
    with_texts,
)
from arena_trainers.runs.settings import JobConfig, output_defaults
from arena_trainers.train.checks import check_precision

MODEL_OPTIONS = (
    "model",
    "hidden_size",
    "num_layers",
    "lora_r",
    "lora_alpha",
    "lora_target_modules",
    "evaluate_every",
    "exact_states",
    "eval_episodes",
    "measure_start",
    "saved_episodes",
)  # options of `JobConfig` that rows need, too
SET_BY_RUNS = (
    "output_dir",
    "resume_from_checkpoint",
    "remove_unused_columns",
    "dataset_kwargs",
)


@with_texts
@dataclass(frozen=True)
class RowConfig:
    """Settings of a run that learns from rows, besides the model's and the trainer's."""

    trainer: str = option(
        help="Name of the trainer.",
    )
    data: str = option(
        help="Rows that arena data select wrote (Parquet, or a folder of splits), or a data "
        "set of messages in TRL's conversational form (Parquet or JSON lines).",
    )
    batch_size: int = option(
        32,
        least=1,
        help="Rows per optimizer step, all processes together. The gradient is their "
        "mean, also if they run in micro-batches that fit the memory.",
    )
    max_tokens_per_forward: int | None = option(
        None,
        least=1,
        help="Most tokens that run at once; by default what memory allows.",
    )

    def __post_init__(self) -> None:
        check_declared(self)


def row_options() -> dict[str, Option]:
    """The options that all trainers share, by name; imports no library."""
    ours = options_of(RowConfig)
    shared = options_of(JobConfig)
    return ours | {name: shared[name] for name in MODEL_OPTIONS}


def trainer_options(config: type[Any]) -> dict[str, Option]:
    """The options of a trainer's own, by name."""
    options = options_of(
        config, frozenset(field.name for field in dataclasses.fields(config))
    )
    return {name: option for name, option in options.items() if name not in SET_BY_RUNS}


def row_config(settings: Mapping[str, Any]) -> tuple[RowConfig, JobConfig]:
    """The settings that all trainers share.

    Raises:
        ValueError: one is missing, of another type or out of range.
    """
    if settings.get("data") is None:
        raise ValueError(
            f"trainer {settings['trainer']!r} learns from rows; give --data "
            "FILE.parquet, which arena data select writes, or a data set of messages"
        )
    options = row_options()
    values = {
        name: options[name].converted(value)
        for name, value in settings.items()
        if name in options
    }
    shared = {name: values.pop(name) for name in MODEL_OPTIONS if name in values}
    return RowConfig(**values), JobConfig(**shared)


def trainer_args(
    config: type[Any], settings: Mapping[str, Any], output_dir: Path, is_tiny: bool
) -> Any:
    """The trainer's own settings.

    Raises:
        ValueError: an unknown option, a value of another type, or one out of range.
    """
    options, ours = trainer_options(config), row_options()
    values = {}
    for name, value in settings.items():
        if name in ours:
            continue
        if name not in options:
            trainer = settings["trainer"]
            page = f"arena train --trainer {trainer} --help-all"
            raise unknown_option(
                name, {**ours, **options}, f"trainer {trainer!r} has no", page
            )
        values[name] = options[name].converted(value)
    for name in (
        "per_device_train_batch_size",
        "gradient_accumulation_steps",
        "auto_find_batch_size",
    ):
        if name in values:
            raise ValueError(
                f"want batch_size alone, which is cut to fit the memory, got {name}; "
                "give --batch_size N, and --max_tokens_per_forward M for smaller "
                "micro-batches"
            )
    defaults = output_defaults(str(output_dir), options)
    defaults["remove_unused_columns"] = False  # the collator reads the masks
    if "max_length" in options:
        defaults["max_length"] = None  # rows are never cut
    if "router_aux_loss_coef" in options:
        defaults["router_aux_loss_coef"] = 0.0  # it depends on the micro-batches
    if is_tiny:
        defaults["gradient_checkpointing"] = False
    args = config(**{**defaults, **values})
    check_precision(args)
    return args
