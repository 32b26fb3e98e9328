"""The event loop in which endpoints are asked, in a thread of its own.

One loop serves the whole process. So a client keeps its connections from call to call, it may be
used from any thread or event loop, and a policy that computes for long delays no reply.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


def submit(coroutine: Coroutine[Any, Any, T]) -> "Future[T]":
    """Starts a coroutine in the network's loop; to cancel the result cancels it."""
    return asyncio.run_coroutine_threadsafe(coroutine, _loop())


@cache
def _loop() -> asyncio.AbstractEventLoop:
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="arena-network", daemon=True).start()
    return loop
