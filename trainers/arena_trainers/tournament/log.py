"""The file of a tournament's episodes, from which the tournament resumes."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from arena_wrappers.records import Episode, append_bytes, whole_lines

HEADER, LINE, EPISODE = b'{"tournament": ', b'{"match": ', b', "episode": '


class Match(NamedTuple):
    """An episode that is to be played.

    Attributes:
        game: label of the game.
        lineup: name of the policy in each seat.
        seed: seed of the episode.
    """

    game: str
    lineup: tuple[str, ...]
    seed: int


class Result(NamedTuple):
    """The result of a match.

    Attributes:
        returns: return of each seat.
        forfeited_by: the seat that forfeited, or None.
        reason: reason of the forfeit; the `detail` of that seat's last turn.
    """

    returns: tuple[float, ...]
    forfeited_by: int | None
    reason: str | None


def result_of(episode: Episode) -> Result:
    """The result of an episode."""
    seat, reason = episode.forfeited_by, None
    if seat is not None:
        bad = [turn for turn in episode.turns if turn.seat == seat and turn.invalid]
        reason = f"{bad[-1].invalid}: {bad[-1].detail}" if bad else None
    return Result(tuple(episode.returns), seat, reason)


class TournamentLog:
    """Appends episodes to a file of JSON lines; the first line has the settings.

    A process that is killed while it writes leaves at most one unfinished line. Opening the
    log again removes this line.

    Args:
        path: the file; created if missing.
        settings: settings of the tournament, as values that JSON can hold.
        seen: called with each episode, also with those already in the file.

    Attributes:
        done: results of the episodes in the file.

    Raises:
        ValueError: the file is no log of a tournament, or that of another one.
    """

    def __init__(
        self,
        path: str | Path,
        settings: Mapping[str, Any],
        seen: Callable[[Episode], None],
    ) -> None:
        self.path, self._seen = Path(path), seen
        self.done: dict[Match, Result] = {}
        lines: list[bytes] = []
        if self.path.exists():
            if not self.path.is_file():
                raise ValueError(f"want a regular file for results, got {self.path}")
            lines = whole_lines(self.path, LINE, HEADER)
        if not lines:
            append_bytes(self.path, HEADER + json.dumps(settings).encode() + b"}\n")
        for number, line in enumerate(lines, 1):
            if number == 1:
                self._check_header(line, settings)
            else:
                self._take(number, line)

    def append(self, match: Match, episode: Episode) -> None:
        """Adds an episode and syncs it to the disk.

        Raises:
            OSError: such as a full disk; no unfinished line stays behind.
        """
        named = {"game": match.game, "seats": match.lineup}
        record = json.dumps(named).encode(), episode.to_json().encode()
        append_bytes(self.path, LINE + record[0] + EPISODE + record[1] + b"}\n")
        self.done[match] = result_of(episode)
        self._seen(episode)

    def _check_header(self, line: bytes, settings: Mapping[str, Any]) -> None:
        try:
            before = json.loads(line)["tournament"]
            names = sorted({*before, *settings})
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(
                f"want the log of a tournament, got {self.path}; give a new file"
            ) from error
        for name in names:
            old, new = before.get(name), json.loads(json.dumps(settings.get(name)))
            if old != new:
                raise ValueError(
                    f"{self.path} is of another tournament: its {name} is {old!r}, "
                    f"now it is {new!r}; give the same settings or a new file"
                )

    def _take(self, number: int, line: bytes) -> None:
        try:
            head, found, rest = line.partition(EPISODE)
            if not found:
                raise ValueError("want a match and an episode")
            match = json.loads(head + b"}")["match"]
            episode = Episode.from_json(rest[:-2].decode())  # without "}\n"
            key = Match(match["game"], tuple(match["seats"]), episode.seed)
            self._seen(episode)
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{self.path}, line {number}: {error}") from error
        if key in self.done:
            raise ValueError(f"{self.path}, line {number} repeats {key}")
        self.done[key] = result_of(episode)
