"""The folder of a training run: checks before a run starts or resumes."""

import contextlib
import json
import os
import re
import shlex
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from arena_trainers.checkpoint import (
    check_whole,
    newest_checkpoint,
    read_manifest,
    step_of,
)
from arena_trainers.finite import how_to_begin_anew, weights_fault
from arena_trainers.lm.models import ADAPTER, role_folders, saved_model
from arena_trainers.offline.protocol import SELF_PLAY
from arena_trainers.runs.recipe import load_recipe
from arena_wrappers.locks import LOCK, Lock, lock_of
from arena_wrappers.records import write_whole

if TYPE_CHECKING:
    from transformers import TrainingArguments

CONFIG, RESULTS, METRICS = "config.yaml", "results.json", "metrics.jsonl"
CONFIG_COPY = f".{CONFIG}"  # what the run wrote into it
START = "start"  # the model that self-play starts from; renamed when it is complete


def check_new(folder: Path) -> None:
    """Checks that a new run can use this folder; creates nothing.

    Raises:
        ValueError: the folder is in use or cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(
            f"want a new run folder, {str(folder)!r} is a file; give another "
            "--output-dir"
        )
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(
            f"cannot write to run folder {str(folder)!r}, as {str(existing)!r} is no "
            "folder that you may write to; give another --output-dir"
        )
    if folder.exists() and any(path.name != LOCK for path in folder.iterdir()):
        to_do = "give another --output-dir"
        if (folder / CONFIG).is_file():
            to_do += f", or go on with that run: arena train --resume {folder}"
        raise ValueError(
            f"want an empty or new run folder, {str(folder)!r} is in use; {to_do}"
        )


@contextmanager
def new_folder(folder: Path, config: str) -> Iterator[Lock]:
    """Makes the folder of a new run; removes its files again if the run cannot begin.

    If two runs want the same folder, the one that creates `config.yaml` first gets it.
    Ctrl-C keeps a finished `start`, because it may have taken long.

    Yields:
        The lock on the folder.

    Raises:
        ValueError: it cannot be made, or is in use.
    """
    existed = folder.exists()
    check_new(folder)
    try:
        lock = lock_of(folder, is_folder=True)
        file = open(folder / CONFIG, "x", encoding="utf-8")  # noqa: SIM115 # closed below
    except OSError as error:
        check_new(folder)  # says so if another run was faster
        raise ValueError(
            f"cannot create run folder {str(folder)!r}: {error.strerror}; give another "
            "--output-dir"
        ) from error
    try:
        file.close()
        write_config(folder, config)
        yield lock
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt) and (folder / START).exists():
            raise
        for name in (START, partial_name(START)):
            shutil.rmtree(folder / name, ignore_errors=True)
        # the last one frees the folder for another run
        for name in (METRICS, CONFIG_COPY, CONFIG):
            (folder / name).unlink(missing_ok=True)
        lock.release()
        if not existed:
            with contextlib.suppress(OSError):  # others have written into it
                folder.rmdir()
        raise


def partial_name(name: str) -> str:
    """The name of a file or folder until it is complete."""
    return f"{name}.part"


def write_config(folder: Path, text: str) -> None:
    """Writes `config.yaml`, and the copy that shows whether somebody edited it."""
    for name in (CONFIG_COPY, CONFIG):
        write_whole(folder / name, text)


def read_config(folder: Path) -> dict[str, Any]:
    """The settings of a run, which are those that it wrote.

    Raises:
        ValueError: `config.yaml` has others; names each.
    """
    config, written = folder / CONFIG, folder / CONFIG_COPY
    settings = load_recipe(str(config))
    copy = f"cp {shlex.quote(str(written))} {shlex.quote(str(config))}"
    if not written.is_file():
        raise ValueError(
            f"want {str(written)!r}, the copy of config.yaml that the run wrote, found "
            "none; if nobody edited config.yaml, make it again: "
            f"{shlex.join(['cp', str(config), str(written)])}"
        )
    was, now = _values_by_path(load_recipe(str(written))), _values_by_path(settings)
    changed = [
        f"{name} is {now.get(name, 'missing')!r}, was {was.get(name, 'missing')!r}"
        for name in {**was, **now}
        if name not in was or name not in now or was[name] != now[name]
    ]
    if changed:
        raise ValueError(
            f"{str(config)!r} was edited after the run wrote it: {'; '.join(changed)}; "
            f"a resumed run keeps its settings: restore them ({copy}; a longer run "
            "gives --max_steps N, or --rounds N, beside --resume), or begin a new run "
            f"with the edited ones: arena train {shlex.quote(str(config))} "
            "--output-dir NEW"
        )
    return settings


def _values_by_path(value: object, path: str = "") -> dict[str, Any]:
    """The values in mappings and lists, by their paths.

    >>> _values_by_path({"seed": 1, "rounds": {"play": [{"episodes": 3}]}})
    {'seed': 1, 'rounds.play.0.episodes': 3}
    """
    if not isinstance(value, dict | list) or not value:
        return {path: value}
    pairs = value.items() if isinstance(value, dict) else enumerate(value)
    values: dict[str, Any] = {}
    for name, inner in pairs:
        values |= _values_by_path(inner, f"{path}.{name}" if path else str(name))
    return values


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
        raise ValueError(
            f"want a run folder to resume, got {name!r} without config.yaml, which "
            "`arena train` writes into its --output-dir"
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
