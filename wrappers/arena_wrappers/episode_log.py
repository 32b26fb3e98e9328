"""A file of episodes that grows while they are played, and survives being cut off."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from arena_wrappers.episodes import Episode, read_episodes

START = b'{"game": '  # of a line


class EpisodeLog:
    """Appends episodes to a file of JSON lines; what is in it stays readable.

    A process that is killed while it writes leaves at most one unfinished line, which is
    cut off when the log is opened again.

    Args:
        path: the file; made with the first episode.

    Raises:
        ValueError: the file holds something else than episodes.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        if self.path.exists():
            if not self.path.is_file():
                raise ValueError(f"want a regular file for episodes, got {self.path}")
            self._cut_unfinished_line()

    def __iter__(self) -> Iterator[Episode]:
        if self.path.exists():
            yield from read_episodes(self.path)

    def append(self, episodes: Iterable[Episode]) -> None:
        """Adds episodes; all of them are on the disk when this returns.

        Raises:
            OSError: the disk is full or the like; no unfinished line stays behind.
        """
        append_bytes(
            self.path,
            "".join(episode.to_json() + "\n" for episode in episodes).encode(),
        )

    def _cut_unfinished_line(self) -> None:
        content = self.path.read_bytes()
        end = content.rfind(b"\n") + 1
        for number, line in enumerate(content[:end].splitlines(), 1):
            try:
                Episode.from_json(line.decode())
            except ValueError as error:
                raise ValueError(f"{self.path}, line {number}: {error}") from error
        rest = content[end:]
        if not START.startswith(rest[: len(START)]):
            raise ValueError(f"{self.path} ends with what is no episode: {rest[:60]!r}")
        os.truncate(self.path, end)


def append_bytes(path: Path, data: bytes) -> None:
    """Adds bytes to the end of a file, all or none; they are on the disk on return.

    Raises:
        OSError: the disk is full or the like; the file is as it was.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # unbuffered: a buffer would write its rest when it is closed, after the truncation
    with open(path, "ab", buffering=0) as file:
        end = file.tell()
        try:
            while data:
                data = data[file.write(data) :]
            os.fsync(file.fileno())
        except OSError:
            os.truncate(path, end)
            raise
