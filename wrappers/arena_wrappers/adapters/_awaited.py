"""What adapters share whose framework asks the models: seats, and the reasons of forfeits."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from arena_wrappers.episodes import Episode
from arena_wrappers.policies import Reply, TurnRequest


class AwaitedPolicy:
    """A policy that awaits a function for each reply, for `play_async`.

    Args:
        name: name in records.
        answer: the function. What it raises is, with `on_error="forfeit"`, the reason of the
            seat's forfeit.
    """

    def __init__(
        self, name: str, answer: Callable[[TurnRequest], Awaitable[Reply]]
    ) -> None:
        self.name, self._answer = name, answer

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        raise TypeError(f"policy {self.name!r} is awaited: use play_async")

    async def act_async(
        self, request: TurnRequest, timeout: float | None = None
    ) -> Reply:
        try:
            async with asyncio.timeout(timeout):
                return await self._answer(request)
        except TimeoutError:
            raise TimeoutError(f"no reply within {timeout} s") from None


def forfeit_reason(episode: Episode) -> str | None:
    """Why a seat forfeited; None if none did."""
    if episode.forfeited_by is None:
        return None
    turn = next(t for t in episode.turns[::-1] if t.seat == episode.forfeited_by)
    return f"{turn.invalid}: {turn.detail}"
