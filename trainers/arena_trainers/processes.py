"""Several processes: whether weights are split, and long work of one that the others wait for.

A collective call of training ends a run after `ddp_timeout` (30 minutes). What one process does alone,
such as a measurement, may take longer. So the calls here have a group of their own, over gloo, which waits
for a week.
"""

import os
import pickle
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from functools import cache
from itertools import zip_longest
from typing import Any, Protocol, TypeVar

Value = TypeVar("Value")
PATIENCE = timedelta(days=7)


def num_processes() -> int:
    """How many processes exchange data; 1 before they have joined."""
    # torch takes a second, and checks of settings do not import it
    import torch.distributed as dist

    is_joined = dist.is_available() and dist.is_initialized()
    return dist.get_world_size() if is_joined else 1


def is_main_process() -> bool:
    """Whether this process writes files, and does what one alone has to do."""
    if num_processes() == 1:
        return True
    import torch.distributed as dist

    return dist.get_rank() == 0


@cache
def patient_group(name: str = "") -> Any:
    """A group of all processes; each has to ask for it first at the same point.

    Args:
        name: tells groups apart; calls in one group need the same order in all processes, so
            threads that run beside each other have groups of their own.
    """
    import torch.distributed as dist

    return dist.new_group(backend="gloo", timeout=PATIENCE)


def process_share(items: Sequence[Value]) -> Sequence[Value]:
    """The items that are this process's to do."""
    if num_processes() == 1:
        return items
    import torch.distributed as dist

    return items[dist.get_rank() :: num_processes()]


def gather_shares(values: Sequence[Value]) -> list[Value]:
    """What all processes made of their shares, in the order of the items."""
    shares = gather_patiently(values)
    return [value for column in zip_longest(*shares) for value in column][
        : sum(map(len, shares))
    ]


def gather_patiently(value: Value, group: str = "") -> list[Value]:
    """The values of all processes, which may come long after each other."""
    if num_processes() == 1:
        return [value]
    import torch.distributed as dist

    values: list[Any] = [None] * num_processes()
    dist.all_gather_object(values, value, group=patient_group(group))
    return values


@contextmanager
def raised_everywhere(group: str = "") -> Iterator[None]:
    """Makes all processes raise an error of one of them in this context.

    All of them have to enter it, and leave it after the work of all is done, however long
    that takes. `group` is that of `patient_group`.

    Raises:
        Exception: in the other processes, of the first failure's type and with its message; a
            RuntimeError that names the type, if the exception cannot be sent.
    """
    failure: Exception | None = None
    try:
        yield
    except Exception as error:  # raised again below
        failure = error
    problem = None if failure is None else sendable(failure)
    failures = gather_patiently(problem, group)
    if failure is not None:
        raise failure
    for other_failure in failures:
        if other_failure is not None:
            raise other_failure


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
