"""Threads in which opponents think, so that no visitor waits for another one's opponent."""

import logging
import threading
from collections.abc import Callable, Sequence
from queue import SimpleQueue

from arena_wrappers import Policy, Reply, TurnRequest

_log = logging.getLogger(__name__)


class Thinkers:
    """A few threads that work off a queue; they do not keep the process alive.

    Args:
        num: number of threads.
    """

    def __init__(self, num: int) -> None:
        self._num = num
        self._queue: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        for _ in range(num):
            threading.Thread(target=self._work, daemon=True).start()

    def submit(self, work: Callable[[], None]) -> None:
        """Does some work when a thread is free."""
        self._queue.put(work)

    def close(self) -> None:
        """Ends the threads after the work that was submitted."""
        for _ in range(self._num):
            self._queue.put(None)

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            try:
                work()
            except (
                Exception
            ):  # of a plug-in's game; the thread goes on with other tables
                _log.exception("an opponent's turn failed")


class SharedPolicy:
    """A policy that plays at many tables, one call at a time.

    Args:
        policy: whose replies these are.
        max_wait: seconds that a call waits for those before it.
    """

    def __init__(self, policy: Policy, max_wait: float) -> None:
        self.name, self.prompt = policy.name, getattr(policy, "prompt", None)
        self._policy, self._max_wait = policy, max_wait
        self._lock = threading.Lock()

    def act(self, requests: Sequence[TurnRequest]) -> Sequence[Reply]:
        if not self._lock.acquire(timeout=self._max_wait):
            raise TimeoutError(f"{self.name} is busy at other tables")
        try:
            return self._policy.act(requests)
        finally:
            self._lock.release()
