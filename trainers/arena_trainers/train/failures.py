"""Failures of the main process that the others have to hear of."""

from collections.abc import Iterator
from contextlib import contextmanager

from accelerate.utils import broadcast_object_list


@contextmanager
def raised_everywhere() -> Iterator[None]:
    """What the main process raises in this context, all processes raise.

    All of them have to enter it, and leave it after the main one's work is done. Without
    this the others would wait for the main one.

    Raises:
        ValueError: in the other processes, with the main one's message.
    """
    failure: Exception | None = None
    try:
        yield
    except Exception as error:  # raised again below
        failure = error
    said = [None if failure is None else str(failure)]
    broadcast_object_list(said)
    if failure is not None:
        raise failure
    if said[0] is not None:
        raise ValueError(said[0])
