"""Several processes: whether weights are split, and failures that all of them hear of."""

import os
import pickle
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol


@contextmanager
def raised_everywhere() -> Iterator[None]:
    """Makes all processes raise the errors of the main process in this context.

    All of them have to enter it, and leave it after the main one's work is done. Without
    this the others would wait for the main one.

    Raises:
        Exception: in the other processes, of the main one's type and with its message; a
            RuntimeError that names the type, if the exception cannot be sent.
    """
    # accelerate imports torch, which checks of settings do not
    from accelerate.utils import broadcast_object_list

    failure: Exception | None = None
    try:
        yield
    except Exception as error:  # raised again below
        failure = error
    failures = [None if failure is None else sendable(failure)]
    broadcast_object_list(failures)
    if failure is not None:
        raise failure
    if failures[0] is not None:
        raise failures[0]


def sendable(error: Exception) -> Exception:
    """The exception itself if a copy in another process is like it, else a RuntimeError.

    >>> sendable(OSError(28, "No space left on device", "f"))
    OSError(28, 'No space left on device')
    """
    try:
        copy = pickle.loads(pickle.dumps(error))
        if type(copy) is type(error) and str(copy) == str(error):
            return error
    except Exception:  # exceptions of libraries may raise anything here
        pass
    return RuntimeError(f"{type(error).__name__}: {error}")


class ShardingOptions(Protocol):
    """The options of transformers that split weights among processes."""

    fsdp: Any
    deepspeed: Any


def splits_weights(args: ShardingOptions) -> bool:
    """Whether the run was started under FSDP or DeepSpeed's ZeRO-3."""
    if args.fsdp or os.environ.get("ACCELERATE_USE_FSDP") == "true":
        return True
    if not args.deepspeed and os.environ.get("ACCELERATE_USE_DEEPSPEED") != "true":
        return False
    # takes seconds
    from transformers.integrations.deepspeed import is_deepspeed_zero3_enabled

    return bool(is_deepspeed_zero3_enabled())
