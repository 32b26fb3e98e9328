"""The folder of a training run: checks before a run starts or resumes."""

import contextlib
import json
import os
import re
import shlex
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from arena_trainers.job.settings import load_recipe
from arena_trainers.lm.models import ADAPTER, saved_model
from arena_trainers.train import CREDIT_STATE

CONFIG, RESULTS, METRICS = "config.yaml", "results.json", "metrics.jsonl"
SELF_PLAY = "turn_grpo"  # the trainer of a run that names none
START = "start"  # the model that self-play starts from; renamed when it is complete
_WHOLE = ("trainer_state.json", CREDIT_STATE)


def default_folder() -> Path:
    """`runs/<date>-<time>`."""
    return Path(time.strftime("runs/%Y%m%d-%H%M%S"))


def check_new(folder: Path) -> None:
    """Checks that a new run can use this folder; creates nothing.

    Raises:
        ValueError: the folder is in use or cannot be written.
    """
    if folder.exists() and not folder.is_dir():
        raise ValueError(
            f"want a new run folder, {str(folder)!r} is a file; give another --output-dir"
        )
    existing = folder.absolute()
    while not existing.exists():
        existing = existing.parent
    if not existing.is_dir() or not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(
            f"cannot write to run folder {str(folder)!r}, as {str(existing)!r} is no "
            "folder that you may write to; give another --output-dir"
        )
    if folder.exists() and any(folder.iterdir()):
        to_do = "give another --output-dir"
        if (folder / CONFIG).is_file():
            to_do += f", or go on with that run: arena train --resume {folder}"
        raise ValueError(
            f"want an empty or new run folder, {str(folder)!r} is in use; {to_do}"
        )


@contextmanager
def new_folder(folder: Path, config: str) -> Iterator[None]:
    """Makes the folder of a new run; removes its files again if the run cannot begin.

    If two runs want the same folder, the one that creates `config.yaml` first gets it.
    Ctrl-C keeps a finished `start`, because it may have taken long.

    Args:
        folder: the run folder.
        config: content of its `config.yaml`.

    Raises:
        ValueError: it cannot be made, or is in use.
    """
    existed = folder.exists()
    check_new(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        file = open(folder / CONFIG, "x", encoding="utf-8")  # noqa: SIM115 # closed below
    except OSError as error:
        check_new(folder)  # says so if another run was faster
        raise ValueError(
            f"cannot create run folder {str(folder)!r}: {error.strerror}; give another "
            "--output-dir"
        ) from error
    try:
        with file:
            file.write(config)
        yield
    except BaseException as error:
        if not isinstance(error, KeyboardInterrupt) or not (folder / START).exists():
            _remove(folder, existed)
        raise


def _remove(folder: Path, existed: bool) -> None:
    """Removes the files of a run that did not begin; the folder too, if the run made it."""
    for name in (START, partial(START)):
        shutil.rmtree(folder / name, ignore_errors=True)
    for name in (METRICS, CONFIG):  # the last one frees the folder for another run
        (folder / name).unlink(missing_ok=True)
    if not existed:
        with contextlib.suppress(OSError):  # others have written into it
            folder.rmdir()


def partial(name: str) -> str:
    """The name of a file or folder until it is complete."""
    return f"{name}.part"


def newest_checkpoint(folder: Path) -> Path | None:
    """The newest complete checkpoint, if there is one.

    One of self-play also has the state of the credit, which is written last.
    """
    wanted = _WHOLE if trainer_of(folder) == SELF_PLAY else _WHOLE[:1]
    found = [
        path
        for path in folder.glob("checkpoint-*")
        if re.fullmatch(r"checkpoint-\d+", path.name)
        and all((path / name).is_file() for name in wanted)
    ]
    return max(found, key=step_of, default=None)


def trainer_of(folder: Path) -> str:
    """The name of the trainer of a run."""
    if not (folder / CONFIG).is_file():
        return SELF_PLAY
    return str(load_recipe(str(folder / CONFIG)).get("trainer", SELF_PLAY))


def step_of(checkpoint: Path) -> int:
    """The optimizer step that a checkpoint was saved after."""
    return int(checkpoint.name.rpartition("-")[2])


def read_run(folder: Path, max_steps: int | None = None) -> dict[str, Any]:
    """The settings with which a run resumes.

    Args:
        folder: the run folder.
        max_steps: the new last step; by default that of the run's own settings.

    Raises:
        ValueError: there is no such run, it has no checkpoint, it is finished, or it has
            reached `max_steps`; the message says what to do.
    """
    name = str(folder)
    if not folder.is_dir():
        raise ValueError(
            f"want a run folder to resume, found none at {name!r}; give the --output-dir "
            "of a run, such as runs/first"
        )
    if not (folder / CONFIG).is_file():
        raise ValueError(
            f"want a run folder to resume, got {name!r} without {CONFIG}, which "
            "`arena train` writes into its --output-dir"
        )
    checkpoint = newest_checkpoint(folder)
    if checkpoint is None:
        raise ValueError(_no_checkpoint(folder))
    step = step_of(checkpoint)
    if max_steps is None:
        if (folder / RESULTS).exists():
            raise ValueError(
                f"the run in {name!r} is finished; to train it longer: arena train "
                f"--resume {name} --max_steps {2 * step}"
            )
    elif max_steps <= step:
        raise ValueError(
            f"want max_steps above {step}, the step of the last checkpoint in {name!r}, "
            f"got {max_steps}"
        )
    settings = load_recipe(str(folder / CONFIG))
    return settings if max_steps is None else {**settings, "max_steps": max_steps}


def _no_checkpoint(folder: Path) -> str:
    text = (
        f"run folder {str(folder)!r} has no checkpoint to resume from; start it anew: "
        f"arena train {folder / CONFIG} --output-dir NEW"
    )
    if (folder / "model" / "config.json").is_file():
        text += f", or train its last weights: --model {folder / 'model'}"
    elif (folder / START).is_dir():
        text += f" {with_start(folder)}"
    return text


def with_start(folder: Path) -> str:
    """Arguments of `arena train` that begin with the `start` of a stopped run."""
    model = f"--model {shlex.quote(str(folder / START))}"
    is_play = trainer_of(folder) == SELF_PLAY
    return f"{model} --warm_start_steps 0" if is_play else model


def extend(folder: Path, max_steps: int) -> None:
    """Writes the new `max_steps` into a run's settings, and renames its old results."""
    path = folder / CONFIG
    text = path.read_text(encoding="utf-8")
    line = f"max_steps: {max_steps}"
    changed, count = re.subn(r"(?m)^max_steps:.*$", line, text)
    path.write_text(
        changed if count else f"{text.rstrip()}\n{line}\n", encoding="utf-8"
    )
    results = folder / RESULTS
    checkpoint = newest_checkpoint(folder)
    if results.exists() and checkpoint is not None:
        results.rename(folder / f"results-step-{step_of(checkpoint)}.json")


def check_same_model(checkpoint: Path, model: Path) -> None:
    """Checks that a checkpoint's model has the shape of another saved model.

    Raises:
        ValueError: they differ; names the first difference.
    """
    if (checkpoint / ADAPTER).is_file():
        return  # an adapter fits its base model, or fails to load by name
    wanted, got = _config(model), _config(checkpoint)
    keys = ("model_type", "vocab_size", "hidden_size", "num_hidden_layers")
    for key in keys:
        if wanted.get(key) != got.get(key):
            raise ValueError(
                f"checkpoint {str(checkpoint)!r} is of another model: "
                f"{key} is {got.get(key)!r}, want {wanted.get(key)!r}"
            )


def _config(folder: Path) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(
        (saved_model(folder) / "config.json").read_text(encoding="utf-8")
    )
    return config
