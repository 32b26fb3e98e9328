"""Outputs of commands: what a folder or a file holds, and which command reads it."""

import json
import re
import shlex
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

EPISODES = "episodes"
ROWS = "rows of arena data select"
SUBMISSION = "a submission of arena bench board"
HEAD_BYTES = 65_536  # of a file, enough to tell its kind
_STEP = re.compile(r"step-(\d+)\.jsonl")


class Output(NamedTuple):
    """What a command wrote.

    Attributes:
        kind: such as `"a run of arena improve"`.
        reader: a clause that names the command that reads it.
        resumes: whether the command that wrote it goes on if it is given again.
    """

    kind: str
    reader: str
    resumes: bool = False


def output_at(path: Path) -> Output | None:
    """The output in a folder or a file; None if no command is known to write such a one."""
    if path.is_dir():
        for mark, folder_output in _FOLDERS.items():
            if any(path.glob(mark)):
                return folder_output(path)
        return None
    return _file_output(path) if path.is_file() else None


def reading_advice(path: Path, default: str = "", *, readable: str = "") -> str:
    """What a path holds and which command reads it, as the end of an error.

    Args:
        path: a folder or a file.
        default: the advice where no command is known to write such a one.
        readable: the kind that the command reads itself; it has the advice `default`, too.
    """
    output = output_at(path)
    if output is None or output.kind == readable:
        return default
    return f"it holds {output.kind}: {output.reader}"


def episode_file(folder: Path) -> Path | None:
    """The file of the last episodes in a folder that a command wrote; None without one."""
    named = [folder / "episodes.jsonl", folder / "results.jsonl"]
    steps = sorted(
        (
            file
            for file in folder.glob("rollouts/*.jsonl")
            if _STEP.fullmatch(file.name)
        ),
        key=lambda file: int(file.stem.removeprefix("step-")),
    )
    rounds = [
        file
        for name in ("play", "episodes", "race", "confirmation")
        for file in sorted(folder.glob(f"round-*/{name}.jsonl"))
    ]
    files = [*rounds[-1:], *steps[-1:], *(file for file in named if file.is_file())]
    return files[-1] if files else None


def training_folders(folder: Path) -> list[Path]:
    """The folders of training within a run with rounds or a sweep, in order."""
    metrics = [*folder.glob("round-*/train*/metrics.jsonl")]
    metrics += folder.glob("*/seed-*/metrics.jsonl")
    return sorted((file.parent for file in metrics), key=_by_number)


def _by_number(path: Path) -> list[tuple[str, int]]:
    """Orders `round-9` before `round-10`."""
    words = [part.rpartition("-") for part in path.parts]
    return [
        (name, int(end)) if end.isdecimal() else (name + end, 0)
        for name, _, end in words
    ]


def _shown_by_report(kind: str, *, resumes: bool) -> Callable[[Path], Output]:
    def output(path: Path) -> Output:
        return Output(kind, f"arena report {_word(path)} shows it", resumes)

    return output


def _inner_runs(kind: str) -> Callable[[Path], Output]:
    def output(path: Path) -> Output:
        reader = "arena report shows each of its runs, once they train"
        if folders := training_folders(path):
            reader = f"arena report {_word(folders[-1])} shows its last training"
        return Output(kind, reader, resumes=True)

    return output


def _improvement(path: Path) -> Output:
    reader = (
        f"arena report {_word(path)} shows it, and text:{path / 'text.txt'}(POLICY) plays "
        "with its text"
    )
    return Output("a run of arena improve", reader, resumes=True)


def _model(path: Path) -> Output:
    return Output(
        "a saved model", f"arena eval lm:{_word(path)} GAME shows its returns"
    )


def _rows(path: Path) -> Output:
    reader = f"arena train --trainer NAME --data {_word(path)} takes them"
    return Output(ROWS, reader)


# by the files that tell a folder, the first of them that it has
_FOLDERS: dict[str, Callable[[Path], Output]] = {
    "metrics.jsonl": _shown_by_report("a run of arena train", resumes=True),
    "start-scores.json": _inner_runs("a run of arena train with rounds"),
    "sweep.json": _inner_runs("a sweep of arena bench sweep"),
    "texts.jsonl": _improvement,
    "results.jsonl": _shown_by_report("a tournament", resumes=True),
    "config.json": _model,
    "adapter_config.json": _model,
    "train-*.parquet": _rows,
}


def _file_output(path: Path) -> Output | None:
    """The output in a file, by its first line."""
    with open(path, "rb") as file:
        head = file.read(HEAD_BYTES)
    first_line = head.partition(b"\n")[0]
    if head.startswith(b"PAR1"):
        return _rows(path)
    if head.startswith(b"<!doctype html>"):
        return Output("a page", "open it in a browser")
    if path.name == "metrics.jsonl":
        return Output("the metrics of a run", f"arena report {_word(path.parent)}")
    if first_line.startswith((b'{"tournament": ', b'{"match": ')):
        reader = f"arena report {_word(path.parent)} shows it"
        return Output("a tournament", reader, resumes=True)
    if first_line.startswith(b'{"board":'):
        reader = f"arena bench board verify {_word(path)} checks it"
        return Output(SUBMISSION, reader, resumes=True)
    if path.name.endswith(".results.jsonl"):
        episodes = path.with_name(f"{path.name.removesuffix('.results.jsonl')}.jsonl")
        reader = f"arena report {_word(episodes)} shows them"
        return Output("the results of arena eval", reader)
    if _is_episode(first_line):
        reader = (
            f"arena report {_word(path)} shows them, and arena data select {_word(path)} "
            "chooses rows to train on"
        )
        return Output(EPISODES, reader)
    return None


def _is_episode(line: bytes) -> bool:
    """Whether a line, or its beginning, is of an episode."""
    if len(line) == HEAD_BYTES:  # its end was not read
        return line.startswith(b'{"game":')
    try:
        record = json.loads(line)
    except (ValueError, RecursionError):
        return False
    return isinstance(record, dict) and {"game", "turns"} <= record.keys()


def _word(path: Path) -> str:
    """A path as a word of a command."""
    return shlex.quote(str(path))
