"""A policy that plays many games at once, so that a model's weights are loaded once."""

import threading
from collections.abc import Sequence

from arena_wrappers.policies.by_name import make_policy
from arena_wrappers.policies.protocol import Policy, Reply, TurnRequest, is_async


class SharedPolicy:
    """A policy for many threads: one call at a time, or all at once if it has `act_async`.

    Args:
        policy: whose replies these are, or its string.
        max_seconds: that a call waits for those before it.
    """

    def __init__(self, policy: Policy | str, max_seconds: float) -> None:
        inner = make_policy(policy) if isinstance(policy, str) else policy
        self.name, self.prompt = inner.name, getattr(inner, "prompt", None)
        self._inner, self._max_seconds = inner, max_seconds
        self._lock = None if is_async(inner) else threading.Lock()

    def act(self, requests: Sequence[TurnRequest]) -> Sequence[Reply]:
        if self._lock is None:
            return self._inner.act(requests)
        if not self._lock.acquire(timeout=self._max_seconds):
            raise TimeoutError(f"{self.name} is busy in other games")
        try:
            return self._inner.act(requests)
        finally:
            self._lock.release()
