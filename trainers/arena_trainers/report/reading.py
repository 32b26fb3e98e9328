"""Reads files of episodes; a line that is no episode is reported, and the rest is read."""

from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from arena_trainers.tournament.log import EPISODE, HEADER, LINE
from arena_trainers.train.rollouts import Rollout, rollout_of

MAX_SHOWN = 20_000  # characters of a line that is no episode


class BadLine(NamedTuple):
    """A line that is no episode.

    Attributes:
        line: number of the line, from 1.
        reason: what is wrong with it.
        text: its beginning.
    """

    line: int
    reason: str
    text: str


class Recorded(NamedTuple):
    """An episode of a file.

    Attributes:
        line: number of its line, from 1.
        rollout: the episode, and the credit of its turns.
        source: name of the file in a page of several files; empty in other pages.
        moment: the source without the name of the run, in a comparison of runs; empty in
            other pages. Episodes of one start and moment are shown as one group.
    """

    line: int
    rollout: Rollout
    source: str = ""
    moment: str = ""


def read_lines(
    path: Path, first: int = 0, count: int | None = None
) -> Iterator[Recorded | BadLine]:
    """The lines of a file of episodes.

    Args:
        path: a file of JSON lines: `episodes.jsonl`, `rollouts/step-N.jsonl`, what a
            command wrote with `--out`, or `results.jsonl` of a tournament, whose first line
            is left out.
        first: first line of the file to read, from 0.
        count: number of lines to read, without that first line of a tournament; None for all.

    Raises:
        ValueError: there is no such file.
    """
    if not path.is_file():
        raise ValueError(
            f"want a file of episodes, found none at {str(path)!r}; give a file such as "
            "runs/first/episodes.jsonl"
        )
    with open(path, "rb") as file:
        lines = (
            (number, line)
            for number, line in enumerate(file, 1)
            if number > first and not line.startswith(HEADER)
        )
        for number, line in islice(lines, count):
            yield read_line(number, line)


def not_blank(lines: Iterable[Recorded | BadLine]) -> Iterator[Recorded | BadLine]:
    """The lines that hold more than white space."""
    return (line for line in lines if isinstance(line, Recorded) or line.text)


def count_lines(path: Path) -> int:
    """Number of the last line of a file that is not blank; 0 if all are."""
    with open(path, "rb") as file:
        return max((n for n, line in enumerate(file, 1) if line.strip()), default=0)


def read_line(number: int, line: bytes) -> Recorded | BadLine:
    """The episode of a line, which may be one of a tournament.

    Args:
        number: number of the line, from 1.
        line: its bytes.
    """
    record = line
    if line.startswith(LINE):
        record = line.partition(EPISODE)[2].rstrip().removesuffix(b"}")
    try:
        return Recorded(number, rollout_of(record.decode("utf-8")))
    except ValueError as error:
        return BadLine(number, " ".join(str(error).split()), shown_text(line))


def shown_text(line: bytes) -> str:
    """The beginning of a line that cannot be read."""
    text = line[: 4 * MAX_SHOWN].decode("utf-8", "replace")[:MAX_SHOWN]
    return text.strip()
