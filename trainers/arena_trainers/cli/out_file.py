"""The file that a command writes: it replaces nothing but an earlier output of its own."""

from collections.abc import Sequence
from pathlib import Path


def check_out(out: Path, marks: Sequence[bytes], command: str) -> None:
    """Refuses to overwrite anything but what an earlier call wrote.

    Args:
        out: the file to write.
        marks: what files of its kind that are ours hold, the first of them at their start.
        command: what writes such files, such as `arena replay`.

    Raises:
        ValueError: OUT cannot be written, or is a file of somebody else.
    """
    if not out.exists():
        if not out.parent.is_dir():
            raise ValueError(
                f"no folder {str(out.parent)!r}; make it, or give another OUT"
            )
        return
    if not out.is_file():
        raise ValueError(f"want a file to write, got {out}; give another OUT")
    old = out.read_bytes()
    if old and not (old.startswith(marks[0]) and all(mark in old for mark in marks)):
        raise ValueError(
            f"{out} exists and was not written by {command}; give another OUT"
        )
