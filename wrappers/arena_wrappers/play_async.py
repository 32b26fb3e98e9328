"""Plays episodes that do not wait for each other.

A policy with `act_async` is awaited, turn by turn. Other policies answer in the thread of the
event loop, in one call for all turns that wait for them at that moment. If such a policy is
slow, the other episodes' next turns come later. Replies of endpoints do not come later, because
they arrive in another thread, see `arena_wrappers.api.network`.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager, suppress
from functools import partial
from typing import Any, TypeGuard, TypeVar

from arena_wrappers.asking import (
    OnError,
    ask,
    ask_async,
    checked_on_error,
    checked_timeout,
)
from arena_wrappers.episodes import Episode
from arena_wrappers.live_episodes import EnvCaches, EnvFn, EpisodePlan, LiveEpisode
from arena_wrappers.plans import checked_samples, in_progress, plans_of
from arena_wrappers.policies import AsyncPolicy, Policy, Reply, TurnRequest

MAX_IN_FLIGHT = 64

T = TypeVar("T")


async def play_async(
    env_fn: EnvFn | str,
    seats: Policy | str | Sequence[Policy | str],
    seed: int,
    sample: int = 0,
    *,
    timeout: float | None = None,
    on_error: OnError = "lose",
) -> Episode:
    """Plays one episode; the record is that of `play` if replies depend on requests alone.

    `Episode.turns` has, for each turn of a seat, its messages, its reply, the token ids where
    the policy tells them, and the rewards until the seat's next turn. `Episode.returns` has
    the return of each seat. Cancelling the call cancels the request that it waits for.

    Args:
        env_fn: as for `play`.
        seats: as `policies` of `play`. A string makes a new policy in each call, so pass a
            policy if you play many episodes.
        seed: seed of the environment and of all random choices.
        sample: number of the episode among those with the same seed.
        timeout: seconds that one reply may take; after a timeout the episode is lost.
        on_error: as for `play`.

    Raises:
        ValueError, TypeError: as for `play`.

    >>> asyncio.run(play_async("kuhn_poker", "random", seed=3)).returns
    [1.0, -1.0]
    """
    (plan,) = plans_of(env_fn, seats, [seed], [sample])
    return await _Run(timeout, on_error).play(0, plan)


async def play_many(
    env_fn: EnvFn | str,
    seats: Policy | str | Sequence[Policy | str],
    seeds: Sequence[int],
    *,
    num_samples: int = 1,
    max_in_flight: int = MAX_IN_FLIGHT,
    timeout: float | None = None,
    on_error: OnError = "lose",
) -> AsyncGenerator[Episode]:
    """Plays one episode for each seed, up to `max_in_flight` at a time.

    A new episode starts when one is taken from this iterator. So a slow consumer holds up
    play: at most `max_in_flight` episodes are in progress or wait to be taken. When the
    iterator is closed (`contextlib.aclosing`) or its task is cancelled, all episodes in
    progress are cancelled.

    Args:
        env_fn: as for `play`.
        seats: as `policies` of `play`.
        seeds: seeds of the episodes.
        num_samples: episodes per seed.
        max_in_flight: largest number of episodes in progress. A policy may allow fewer
            requests at a time, such as `ChatAPIPolicy(max_concurrent=...)`.
        timeout: seconds that one reply may take, once its policy has a free place for it;
            after a timeout the episode is lost.
        on_error: as for `play`.

    Yields:
        Each episode when it ends, in any order. `Episode.seed` and `Episode.sample` say
        which one it is.

    Raises:
        ValueError, TypeError: as for `play`.
    """
    plans = plans_of(env_fn, seats, seeds, checked_samples(num_samples))
    if type(max_in_flight) is not int or max_in_flight < 1:
        raise ValueError(f"want max_in_flight of at least 1, got {max_in_flight}")
    most = in_progress(plans, max_in_flight, timeout) or max_in_flight
    episodes = stream_async(plans, most, timeout, on_error)
    async with aclosing(episodes):
        async for _, episode in episodes:
            yield episode


def is_async(policy: Policy) -> TypeGuard[AsyncPolicy]:
    """Whether the policy answers each request on its own."""
    return hasattr(policy, "act_async")


async def stream_async(
    plans: Sequence[EpisodePlan],
    max_in_flight: int,
    timeout: float | None,
    on_error: OnError,
) -> AsyncGenerator[tuple[int, Episode]]:
    """The index and the episode of each plan, as soon as it is over; see `play_many`."""
    run = _Run(timeout, on_error)
    plans_left = iter(enumerate(plans))
    tasks: set[asyncio.Task[Episode]] = set()
    over: asyncio.Queue[tuple[int, asyncio.Task[Episode]]] = asyncio.Queue()

    def start() -> None:
        index, plan = next(plans_left, (0, None))
        if plan is not None:
            task = asyncio.create_task(run.play(index, plan))
            tasks.add(task)
            task.add_done_callback(lambda task: over.put_nowait((index, task)))

    try:
        for _ in range(min(max_in_flight, len(plans))):
            start()
        for _ in plans:
            index, task = await over.get()
            tasks.remove(task)
            episode = task.result()
            start()
            yield index, episode
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def stream_in_own_loop(
    plans: Sequence[EpisodePlan],
    max_in_flight: int,
    timeout: float | None,
    on_error: OnError,
) -> Iterator[tuple[int, Episode]]:
    """As `stream_async`, without `await`, and whether or not a loop runs in this thread."""
    with _runner() as run:
        episodes = stream_async(plans, max_in_flight, timeout, on_error)

        async def following() -> tuple[int, Episode] | None:
            return await anext(episodes, None)

        try:
            while (found := run(following())) is not None:
                yield found
        finally:
            run(episodes.aclose())


@contextmanager
def _runner() -> Iterator[Callable[[Coroutine[Any, Any, T]], T]]:
    """A function that runs coroutines in a loop of its own; Ctrl-C cancels them.

    It uses this thread, unless a loop already runs there, as in a notebook.
    """
    runner = asyncio.Runner()
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        with runner:
            yield partial(_result, runner)
        return

    def result(coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            return pool.submit(_result, runner, coroutine).result()
        except KeyboardInterrupt:
            loop = runner.get_loop()
            for task in asyncio.all_tasks(loop):
                loop.call_soon_threadsafe(task.cancel)
            raise

    with ThreadPoolExecutor(1) as pool:
        try:
            yield result
        finally:
            pool.submit(runner.close).result()


def _result(runner: asyncio.Runner, coroutine: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns.

    `Runner.run` would delay the first Ctrl-C until a policy in this process has replied.
    """
    loop = runner.get_loop()
    task = loop.create_task(coroutine)
    try:
        return loop.run_until_complete(task)
    except KeyboardInterrupt:
        task.cancel()
        with suppress(asyncio.CancelledError):
            loop.run_until_complete(task)
        raise


class _Run:
    """Plays episodes in the running event loop."""

    def __init__(self, timeout: float | None, on_error: OnError) -> None:
        self.timeout = checked_timeout(timeout)
        self.on_error = checked_on_error(on_error)
        self.caches = EnvCaches()
        self.waiting: dict[int, list[tuple[TurnRequest, asyncio.Future[Reply]]]] = {}
        self.unreachable: dict[int, Reply] = {}

    async def play(self, index: int, plan: EpisodePlan) -> Episode:
        one = LiveEpisode((index,), plan, self.caches.of(plan))
        while not one.is_over:
            one.take(await self.reply(one.policy, one.request()))
        return one.leave()

    async def reply(self, policy: Policy, request: TurnRequest) -> Reply:
        if is_async(policy):
            return await self.ask_endpoint(policy, request)
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Reply] = loop.create_future()
        if id(policy) not in self.waiting:
            self.waiting[id(policy)] = []
            loop.call_soon(self.answer, policy)
        self.waiting[id(policy)].append((request, future))
        return await future

    async def ask_endpoint(self, policy: AsyncPolicy, request: TurnRequest) -> Reply:
        """An endpoint that cannot be reached is asked no more: its retries take seconds."""
        if id(policy) in self.unreachable:
            return self.unreachable[id(policy)]
        reply = await ask_async(policy, request, self.timeout, self.on_error)
        if reply.error is not None and getattr(policy, "is_unreachable", False):
            self.unreachable[id(policy)] = reply
        return reply

    def answer(self, policy: Policy) -> None:
        """One call for all turns that wait for this policy."""
        asked = [pair for pair in self.waiting.pop(id(policy)) if not pair[1].done()]
        requests = [request for request, _ in asked]
        if not requests:  # their episodes were cancelled
            return
        try:
            replies = ask(policy, requests, self.timeout, self.on_error)
        except Exception as error:  # raised again in each of the episodes
            if isinstance(error, StopIteration):  # which no future takes
                error = RuntimeError(f"policy {policy.name!r} raised StopIteration")
            for _, future in asked:
                future.set_exception(error)
            return
        for (_, future), reply in zip(asked, replies, strict=True):
            future.set_result(reply)
