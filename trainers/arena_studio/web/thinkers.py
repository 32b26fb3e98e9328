"""Threads in which opponents think, so that no visitor waits for another one's opponent."""

import logging
import threading
from collections.abc import Callable
from queue import SimpleQueue

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
