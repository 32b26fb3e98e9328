"""Mistakes in the use of the command line, which end with one sentence and status 2."""

from collections.abc import Iterator
from contextlib import contextmanager


class UsageError(Exception):
    """What the user asked for cannot be done; the message says why in a sentence."""


@contextmanager
def usage_errors() -> Iterator[None]:
    """Before anything runs, a refusal is the user's to mend and needs no traceback."""
    try:
        yield
    except ModuleNotFoundError:
        raise
    except (ValueError, OSError, ImportError) as error:
        raise UsageError(" ".join(str(error).split())) from error
