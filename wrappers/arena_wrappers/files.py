"""Files that are replaced at once."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


@contextmanager
def whole_file(path: str | Path) -> Iterator[TextIO]:
    """A text file to write; it replaces `path` when the block ends.

    After an error the old file is unchanged, and the new one is deleted.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{os.getpid()}.part")
    try:
        with open(part, "w", encoding="utf-8") as file:
            yield file
        os.replace(part, path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise
