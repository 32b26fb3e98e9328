"""Errors in arguments, which `arena` prints as one sentence."""

from collections.abc import Iterator
from contextlib import contextmanager


class UsageError(Exception):
    """The command line cannot be carried out; the message says why in one sentence."""


@contextmanager
def usage_errors() -> Iterator[None]:
    """Turns errors in arguments into `UsageError`, which is printed without traceback."""
    try:
        yield
    except (ModuleNotFoundError, BrokenPipeError):
        raise
    except (ValueError, OSError, ImportError) as error:
        raise UsageError(" ".join(str(error).split())) from error
