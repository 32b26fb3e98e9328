"""Whole checkpoints: a manifest is their last file, and older ones are deleted after it.

`manifest.json` names all files of a folder with their sizes and SHA-256 hashes. A folder
without it, or with other files than it names, was not written to its end or was damaged. All
kinds of run use this module; it needs no torch.
"""

import hashlib
import json
import os
import re
import shutil
from collections.abc import Container, Iterable
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from arena_wrappers.records import whole_file

MANIFEST = "manifest.json"


class NewestCheckpoint(NamedTuple):
    """The result of `newest_checkpoint`.

    Attributes:
        checkpoint: the newest valid one; None if there is none.
        skipped: a clause for each newer one: its name, and what is wrong with it.
    """

    checkpoint: Path | None
    skipped: list[str]


def checkpoint_of(folder: str | Path, step: int) -> Path:
    """The checkpoint of a step in a run folder."""
    return Path(folder) / f"checkpoint-{step}"


def step_of(checkpoint: Path) -> int:
    """The optimizer step that a checkpoint was saved after."""
    return int(checkpoint.name.rpartition("-")[2])


def newest_checkpoint(folder: Path) -> NewestCheckpoint:
    """The newest checkpoint whose files are those of its manifest."""
    skipped: list[str] = []
    for path in reversed(checkpoints_of(folder)):
        reason = fault(path)
        if reason is None:
            return NewestCheckpoint(path, skipped)
        skipped.append(f"{path.name}: {reason}")
    return NewestCheckpoint(None, skipped)


def checkpoints_of(folder: Path) -> list[Path]:
    """The checkpoints of a folder by step, whole or not."""
    paths = folder.glob("checkpoint-*")
    checkpoints = [p for p in paths if re.fullmatch(r"checkpoint-\d+", p.name)]
    return sorted(checkpoints, key=step_of)


def files_of(folder: Path) -> list[Path]:
    """The files of a folder and of its folders, without its manifest; or the file itself."""
    if folder.is_file():
        return [folder]
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [path for path in files if path != folder / MANIFEST]


def write_manifest(folder: Path, files: Iterable[Path], **facts: Any) -> None:
    """Writes the manifest of a folder whose files are written.

    Args:
        folder: the folder.
        files: what it needs, such as `files_of(folder)`; files elsewhere may be among them.
        facts: further entries of the manifest.
    """
    entries = {}
    for path in files:
        with open(path, "rb+") as file:
            os.fsync(file.fileno())  # before older checkpoints are deleted
        name = Path(os.path.relpath(path, folder)).as_posix()
        entries[name] = {"bytes": path.stat().st_size, "sha256": _sha256(path)}
    with whole_file(folder / MANIFEST) as text:
        json.dump({**facts, "files": entries}, text, indent=1)


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder; empty if there is none that can be read."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}


def fault(folder: Path, only: Container[str] | None = None) -> str | None:
    """The first fault in the files of a folder, by its manifest; None if there is none.

    Args:
        folder: the folder.
        only: the files and folders in it that are checked; by default all.
    """
    if not (folder / MANIFEST).is_file():
        return f"it has no {MANIFEST}, as its last file was not written"
    manifest = read_manifest(folder)
    if "files" not in manifest:
        return f"its {MANIFEST} cannot be read"
    for name, entry in manifest["files"].items():
        path = folder / name
        if only is not None and Path(name).parts[0] not in only:
            continue
        if not path.is_file():
            return f"{name} is missing"
        size = path.stat().st_size
        if size != entry["bytes"]:
            return f"{name} has {size:,} bytes, {entry['bytes']:,} were written"
        if _sha256(path) != entry["sha256"]:
            return f"{name} was changed after it was written"
    if not manifest.get("resumes", True):
        return "it has no optimizer, as save_only_model was set"
    return None


def check_whole(folder: Path, only: Container[str] | None = None) -> None:
    """Raises ValueError if a folder has a manifest, and its files are not those of it."""
    reason = fault(folder, only) if (folder / MANIFEST).is_file() else None
    if reason is not None:
        raise ValueError(
            f"want the files in {str(folder)!r} as the run wrote them: {reason}; restore them, "
            "or begin a new run"
        )


def rotate(newest: Path, limit: int | None, best: str | None = None) -> None:
    """Deletes all but the last checkpoints of a run.

    Those of later steps than the newest belong to a run that was resumed before them.

    Args:
        newest: the checkpoint that has just been written.
        limit: how many stay; None for all.
        best: a further one that stays.
    """
    if not limit or limit < 0:
        return
    others = [path for path in checkpoints_of(newest.parent) if path != newest]
    older = [p for p in others if step_of(p) < step_of(newest) and read_manifest(p)]
    first = max(len(older) - limit + 1, 0)
    to_keep = set(older[first:])
    if best:
        to_keep.add(Path(best))
    for path in others:
        if path not in to_keep:
            shutil.rmtree(path)


def _sha256(path: Path) -> str:
    status = path.stat()
    return _digest(path, status.st_ino, status.st_size, status.st_mtime_ns)


@cache  # a file is read once, also where several stages check it
def _digest(path: Path, *_: int) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
