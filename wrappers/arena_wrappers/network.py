"""The event loop in which endpoints are asked, in a thread of its own.

One loop serves the whole process. So a client keeps its connections from call to call, it may be
used from any thread or event loop, and a policy that computes for long delays no reply.
"""

import asyncio
import os
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def submit(coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
    """Starts a coroutine in the network's loop; to cancel the result cancels it."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop())


def result_of(coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns in the network's loop; Ctrl-C cancels it."""
    future = submit(coroutine)
    try:
        return future.result()
    except KeyboardInterrupt:
        future.cancel()
        raise


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="arena-network", daemon=True).start()
    return loop


if hasattr(os, "register_at_fork"):
    # a child has the loop, but not its thread
    os.register_at_fork(after_in_child=_loop.cache_clear)
