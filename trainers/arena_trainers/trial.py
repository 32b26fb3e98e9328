"""A call of the user's code before a run starts, so that a fault in it costs no training."""

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from arena_envs.registry import BrokenPromise

_PACKAGES = (
    "arena_envs",
    "arena_credit",
    "arena_wrappers",
    "arena_eval",
    "arena_studio",
    "arena_trainers",
)


@contextmanager
def trial(subject: str, requirement: str) -> Iterator[None]:
    """Turns what the user's code raises here into a sentence with the line that raised it.

    Args:
        subject: what is tried, as the user named it.
        requirement: what it has to be.

    Raises:
        ValueError: the code raised; one of this package's own passes through.
    """
    try:
        yield
    except BrokenPromise as error:
        raise ValueError(f"{subject}: {error}; want {requirement}") from error
    except Exception as error:  # it may be anybody's code
        frame, line = [*traceback.walk_tb(error.__traceback__)][-1]
        module = str(frame.f_globals.get("__name__", ""))
        is_ours = module.partition(".")[0] in _PACKAGES
        if is_ours and isinstance(error, ValueError | ImportError):
            raise
        where = "" if is_ours else f" ({Path(frame.f_code.co_filename).name}:{line})"
        raise ValueError(
            f"{subject} was tried before the run, and raised {type(error).__name__}: "
            f"{error}{where}; want {requirement}"
        ) from error
