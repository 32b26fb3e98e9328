"""The folder of a training run: its files, and whether a new run can use it."""

import contextlib
import os
import shlex
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from arena_trainers.runs.recipe import load_recipe
from arena_wrappers.locks import LOCK, Lock, lock_of
from arena_wrappers.records import write_whole

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
