"""A file of episodes that stays readable if the process is killed."""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path

from arena_wrappers.episodes import Episode, read_episodes

START = b'{"game": '  # of a line


class EpisodeLog:
    """Appends episodes to a file of JSON lines.

    A process that is killed while it writes leaves at most one unfinished line. Opening the
    log again removes this line.

    Args:
        path: the file; created with the first episode.

    Raises:
        ValueError: the file has a line that is no episode.
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
        """Adds episodes and syncs them to the disk.

        Raises:
            OSError: such as a full disk; no unfinished line stays behind.
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
            raise ValueError(
                f"want an episode at the end of {self.path}, got {rest[:60]!r}; give "
                "another file"
            )
        os.truncate(self.path, end)


def append_bytes(path: Path, data: bytes) -> None:
    """Appends bytes to a file, all or none, and syncs them to the disk.

    Raises:
        OSError: such as a full disk; the file is unchanged.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    # unbuffered: closing a buffer would write its rest after the truncation
    with open(path, "ab", buffering=0) as file:
        end = file.tell()
        try:
            while data:
                data = data[file.write(data) :]
            os.fsync(file.fileno())
        except OSError:
            os.truncate(path, end)
            raise
