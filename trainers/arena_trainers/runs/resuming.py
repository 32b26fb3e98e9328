"""A run that goes on: its settings, its checkpoint, and what refuses it."""

import json
import os
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_studio.outputs import output_at
from arena_trainers.checkpoint import (
    check_whole,
    newest_checkpoint,
    read_manifest,
    step_of,
)
from arena_trainers.finite import how_to_begin_anew, weights_fault
from arena_trainers.lm.models import ADAPTER, role_folders, saved_model
from arena_trainers.offline.protocol import SELF_PLAY
from arena_trainers.runs.folder import (
    CONFIG,
    RESULTS,
    START,
    check_new,
    read_config,
    write_config,
)
from arena_trainers.runs.recipe import load_recipe

if TYPE_CHECKING:
    from transformers import TrainingArguments


def read_run(folder: Path, max_steps: int | None = None) -> dict[str, Any]:
    """The settings with which a run resumes.

    Args:
        folder: the run folder.
        max_steps: the new last step; by default that of the run's own settings.

    Raises:
        ValueError: there is no such run, somebody edited its settings, it has no valid
            checkpoint, it is finished, or it has reached `max_steps`; says what to do.
    """
    name = str(folder)
    if not folder.is_dir():
        raise ValueError(
            f"want a run folder to resume, found none at {name!r}; give the "
            "--output-dir of a run, such as runs/first"
        )
    if not (folder / CONFIG).is_file():
        advice = "`arena train` writes it into its --output-dir"
        parent = Path(os.path.relpath(folder.resolve().parent))  # also of "."
        if (parent / CONFIG).is_file():  # a checkpoint or a model
            run = shlex.quote(str(parent))
            advice = (
                f"resume its run, from its last checkpoint: arena train --resume {run}"
            )
        elif output := output_at(folder):
            advice = f"it holds {output.kind}: {output.reader}"
            if output.resumes:
                advice += "; the command that wrote it goes on if you give it again"
        raise ValueError(
            f"want a run folder to resume, got {name!r} without config.yaml; {advice}"
        )
    settings = read_config(folder)
    step = step_of(checkpoint_to_resume(folder))
    if max_steps is None:
        if (folder / RESULTS).exists():
            raise ValueError(
                f"the run in {name!r} is finished; to train it longer: arena train "
                f"--resume {name} --max_steps {2 * step}"
            )
    elif max_steps <= step:
        raise ValueError(
            f"want max_steps above {step}, the step of the last checkpoint in "
            f"{name!r}, got {max_steps}"
        )
    return settings if max_steps is None else {**settings, "max_steps": max_steps}


def checkpoint_to_resume(folder: Path) -> Path:
    """The newest valid checkpoint of a run.

    Raises:
        ValueError: there is none; says why, and what to do.
    """
    newest = newest_checkpoint(folder)
    if newest.checkpoint is not None:
        return newest.checkpoint
    why = f" ({'; '.join(newest.skipped)})" if newest.skipped else ""
    text = (
        f"run folder {str(folder)!r} has no checkpoint to resume from{why}; start it anew: "
        f"arena train {folder / CONFIG} --output-dir NEW"
    )
    if (folder / "model" / "config.json").is_file():
        text += f", or train its last weights: --model {folder / 'model'}"
    elif (folder / START).is_dir():
        text += f" {start_arguments(folder)}"
    raise ValueError(text)


def checkpoint_to_begin_from(
    folder: Path,
    start: Path,
    args: "TrainingArguments",
    say: Callable[[str], None],
    *,
    resume: bool,
) -> Path | None:
    """The checkpoint that a run goes on from; None for a new run, whose folder is checked.

    Args:
        folder: the run folder.
        start: the model that the run began with.
        args: the trainer's settings; their main process speaks.
        say: is told which newer checkpoints are skipped, and why.
        resume: whether the run goes on.

    Raises:
        ValueError: there is no valid checkpoint of this model, its weights are not finite, or the
            folder is in use.
    """
    is_main = args.process_index == 0
    if not resume:
        if is_main:
            check_new(folder)
        return None
    checkpoint = checkpoint_to_resume(folder)
    check_same_model(checkpoint, start)
    if is_main and (reason := weights_fault(checkpoint)) is not None:
        raise ValueError(
            f"want finite weights in {str(checkpoint)!r}, but {reason}; "
            f"{how_to_begin_anew(folder)}"
        )
    saved = read_manifest(checkpoint)["processes"]
    notes = [f"skipped {clause}" for clause in newest_checkpoint(folder).skipped]
    if saved != args.world_size:
        notes.append(
            f"{checkpoint.name} is of {saved} processes, this run has {args.world_size}: its "
            "random states begin anew, so that it differs from an unbroken run"
        )
    for line in notes if is_main else ():
        say(line)
    return checkpoint


def start_arguments(folder: Path) -> str:
    """Arguments of `arena train` that begin with the `start` of a stopped run."""
    model = f"--model {shlex.quote(str(folder / START))}"
    config = folder / CONFIG
    settings = load_recipe(str(config)) if config.is_file() else {}
    is_play = settings.get("trainer", SELF_PLAY) == SELF_PLAY
    return f"{model} --warm_start steps=0" if is_play else model


def extend_run(folder: Path, max_steps: int, step: int) -> None:
    """Writes the new `max_steps` into a run's settings, and renames its old results."""
    text = (folder / CONFIG).read_text(encoding="utf-8")
    line = f"max_steps: {max_steps}"
    changed, count = re.subn(r"(?m)^max_steps:.*$", line, text)
    write_config(folder, changed if count else f"{text.rstrip()}\n{line}\n")
    results = folder / RESULTS
    if results.exists():
        results.rename(folder / f"results-step-{step}.json")


def check_same_model(checkpoint: Path, model: Path) -> None:
    """Checks that a checkpoint's model has the shape of another saved model.

    Raises:
        ValueError: they differ, or the other one was damaged since a run wrote it.
    """
    check_whole(model)
    if (checkpoint / ADAPTER).is_file() or role_folders(checkpoint):
        return  # what learns fits, or fails to load by name
    want, got = _config(model), _config(checkpoint)
    keys = ("model_type", "vocab_size", "hidden_size", "num_hidden_layers")
    for key in keys:
        if want.get(key) != got.get(key):
            raise ValueError(
                f"checkpoint {str(checkpoint)!r} is of another model: {key} is "
                f"{got.get(key)!r}, want {want.get(key)!r}"
            )


def _config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(
        (saved_model(folder) / "config.json").read_text(encoding="utf-8")
    )
    return config
