"""What reaches the terminal: texts of strangers have no control sequences and no markup there.

Names of policies, errors of endpoints, texts of games and lines of files may hold escape sequences, which
move the cursor, change the title or fill the clipboard. `arena` writes through `guarded_streams`, and
draws with `Console`.
"""

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import (
    IO,
    Any,
    TextIO,
)

import rich.console
from rich.segment import Segment

from arena_envs.hostile import printable


class Console(rich.console.Console):
    """Rich's console, which draws every text as it is: no markup, emoji or control character."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, **options})

    def render(self, *arguments: Any, **options: Any) -> Iterable[Segment]:
        for part in super().render(*arguments, **options):
            if part.control:
                yield part  # Rich's own
            else:
                yield Segment(printable(part.text), part.style)

    @property
    def file(self) -> IO[str]:
        """The stream behind those that Rich and `guarded_streams` put before it."""
        stream = super().file
        while hasattr(stream, "rich_proxied_file"):
            stream = stream.rich_proxied_file
        return stream

    @file.setter
    def file(self, new_file: IO[str]) -> None:
        self._file = new_file


class PrintableStream:
    """A stream that writes `printable` texts; all else is the stream's own.

    Bars of other packages begin and end what they write with a carriage return, which stays.
    """

    def __init__(self, stream: TextIO) -> None:
        self.rich_proxied_file = stream

    def write(self, text: str) -> int:
        inner = text.strip("\r")
        before, _, after = text.partition(inner) if inner else (text, "", "")
        self.rich_proxied_file.write(before + printable(inner) + after)
        return len(text)

    def writelines(self, lines: Iterable[str]) -> None:
        for line in lines:
            self.write(line)

    def __iter__(self) -> Iterator[str]:
        return iter(self.rich_proxied_file)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.rich_proxied_file, name)


@contextmanager
def guarded_streams() -> Iterator[None]:
    """Within the block, stdout and stderr are `PrintableStream`.

    After an error they stay so, since Python prints its traceback then.
    """
    stdout, stderr = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = PrintableStream(stdout), PrintableStream(stderr)
    try:
        yield
    except SystemExit:
        sys.stdout, sys.stderr = stdout, stderr
        raise
    sys.stdout, sys.stderr = stdout, stderr
