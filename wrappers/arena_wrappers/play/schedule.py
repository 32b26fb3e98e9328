"""Advances many episodes: in lockstep, or each at its own pace where a seat is an endpoint.

In lockstep, one call of a policy answers the waiting turns of all episodes. Otherwise a policy
with `act_async` is awaited, turn by turn. The others answer in the thread of the event loop, in
one call for all turns that wait for them at that moment. If such a policy is slow, the other
episodes' next turns come later. Replies of endpoints do not, because they arrive in another
thread, see `arena_wrappers.policies.network`.
"""

import asyncio
import operator
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from arena_wrappers.play.asking import (
    OnError,
    ask,
    ask_async,
    checked_on_error,
    checked_timeout,
)
from arena_wrappers.play.episodes import (
    EnvCache,
    EnvCaches,
    LiveEpisode,
    unreadable_action,
)
from arena_wrappers.play.plans import EpisodePlan, distinct_policies, in_progress
from arena_wrappers.policies import (
    AsyncPolicy,
    Policy,
    Reply,
    TurnRequest,
    forget_episodes,
    is_async,
)
from arena_wrappers.records import Episode

EpisodeKey = tuple[int, ...]
T = TypeVar("T")


class Scheduler:
    """Plays episodes: in lockstep, or in the running event loop.

    Raises:
        ValueError: as for `play`.
    """

    def __init__(
        self,
        timeout: float | None,
        on_error: OnError,
        caches: EnvCaches | None = None,
    ) -> None:
        self.timeout = checked_timeout(timeout)
        self.on_error = checked_on_error(on_error)
        self.caches = caches or EnvCaches()
        self.latest: tuple[EpisodePlan, EnvCache] | None = None  # that was started
        self.waiting: dict[int, list[tuple[TurnRequest, asyncio.Future[Reply]]]] = {}
        self.unreachable: dict[int, Reply] = {}

    def in_lockstep(
        self, plans: Sequence[EpisodePlan], batch_size: int | None
    ) -> Iterator[tuple[EpisodeKey, Episode]]:
        """Each episode with the key of its `LiveEpisode`, as soon as it is over."""
        try:
            yield from self._in_lockstep(plans, batch_size)
        finally:
            forget_all(plans)

    def _in_lockstep(
        self, plans: Sequence[EpisodePlan], batch_size: int | None
    ) -> Iterator[tuple[EpisodeKey, Episode]]:
        batch_size = in_progress(plans, _checked_size(batch_size), self.timeout)
        done: dict[EpisodeKey, tuple[LiveEpisode, Episode]] = {}
        plans_left = deque(enumerate(plans))
        candidates: list[LiveEpisode] = []
        live: list[LiveEpisode] = []
        while live or candidates or plans_left:
            while batch_size is None or len(live) < batch_size:
                if candidates:  # first, so that few trees are open at a time
                    live.append(candidates.pop())
                elif plans_left:
                    index, plan = plans_left.popleft()
                    live.append(self.start(index, plan))
                else:
                    break
            # some games can end before anybody moves
            self.take_turns([each for each in live if not each.is_over])
            over: list[LiveEpisode] = []
            unfinished: list[LiveEpisode] = []
            for each in live:
                (over if each.is_over else unfinished).append(each)
            live = unfinished
            for live_episode in over:
                episode = self.record(live_episode)
                yield live_episode.key, episode
                if live_episode.plan.branch is not None:
                    done[live_episode.key] = live_episode, episode
                    candidates += _followers(live_episode, done)

    def take_turns(self, live: Sequence[LiveEpisode]) -> None:
        """One reply in each episode; those of one policy come from one call."""
        groups: dict[int, list[LiveEpisode]] = {}
        for episode in live:
            groups.setdefault(id(episode.policy), []).append(episode)
        for group in groups.values():
            policy = group[0].policy
            replies = self.ask(policy, [episode.request() for episode in group])
            for episode, reply in zip(group, replies, strict=True):
                episode.take(reply)
            self._ask_probes(policy, group)

    def _ask_probes(self, policy: Policy, group: Sequence[LiveEpisode]) -> None:
        """Asks what probes want to know beside the turns just taken, in one call."""
        pairs = [
            (episode, question)
            for episode in group
            if episode.plan.probes
            for question in episode.questions()
        ]
        if not pairs:
            return
        replies = self.ask(policy, [question.request for _, question in pairs])
        for (episode, question), reply in zip(pairs, replies, strict=True):
            episode.note(question, reply)

    def ask(self, policy: Policy, requests: Sequence[TurnRequest]) -> Sequence[Reply]:
        return ask(policy, requests, self.timeout, self.on_error)

    def start(self, index: int, plan: EpisodePlan) -> LiveEpisode:
        """The beginning of the episode of a plan."""
        if self.latest is None or not _play_alike(self.latest[0], plan):
            self.latest = plan, self.caches.of(plan)
        return LiveEpisode((index,), plan, self.latest[1])

    async def play(self, live: LiveEpisode) -> Episode:
        """Plays an episode to its end."""
        while not live.is_over:
            policy = live.policy
            live.take(await self.reply(policy, live.request()))
            for question in live.questions():
                live.note(question, await self.reply(policy, question.request))
        return self.record(live)

    def record(self, live: LiveEpisode) -> Episode:
        """The record of an episode that is over; lost if the game cannot read it again."""
        fault = None
        if self.on_error != "raise":
            fault = unreadable_action(live.base.game, live.base.actions)
        episode = live.leave()
        if fault is None or episode.lost is not None:
            return episode
        return replace(episode, lost=fault, returns=[], measures={})

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
        open_requests = [
            pair for pair in self.waiting.pop(id(policy)) if not pair[1].done()
        ]
        requests = [request for request, _ in open_requests]
        if not requests:  # their episodes were cancelled
            return
        try:
            replies = self.ask(policy, requests)
        except Exception as error:  # raised again in each of the episodes
            if isinstance(error, StopIteration):  # which no future takes
                error = RuntimeError(f"policy {policy.name!r} raised StopIteration")
            for _, future in open_requests:
                future.set_exception(error)
            return
        for (_, future), reply in zip(open_requests, replies, strict=True):
            future.set_result(reply)


async def stream_async(
    plans: Sequence[EpisodePlan], max_in_flight: int, run: Scheduler
) -> AsyncGenerator[tuple[EpisodeKey, Episode]]:
    """Each episode with the key of its `LiveEpisode`, as soon as it is over; see `play_many`."""
    done: dict[EpisodeKey, tuple[LiveEpisode, Episode]] = {}
    plans_left = deque(enumerate(plans))
    candidates: list[LiveEpisode] = []
    tasks: set[asyncio.Task[Episode]] = set()
    over: asyncio.Queue[tuple[LiveEpisode, asyncio.Task[Episode]]] = asyncio.Queue()

    def fill() -> None:
        while len(tasks) < max_in_flight and (candidates or plans_left):
            # candidates first, so that few trees are open at a time
            start(candidates.pop() if candidates else run.start(*plans_left.popleft()))

    def start(live: LiveEpisode) -> None:
        task = asyncio.create_task(run.play(live))
        tasks.add(task)
        task.add_done_callback(lambda task: over.put_nowait((live, task)))

    try:
        fill()
        while tasks:
            live, task = await over.get()
            tasks.remove(task)
            episode = task.result()
            if live.plan.branch is not None:
                done[live.key] = live, episode
                candidates += _followers(live, done)
            fill()
            yield live.key, episode
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        forget_all(plans)


def forget_all(plans: Sequence[EpisodePlan]) -> None:
    """Tells all policies of plans that play has ended."""
    for policy in distinct_policies(plans):
        forget_episodes(policy)


def stream_in_own_loop(
    plans: Sequence[EpisodePlan], max_in_flight: int, run: Scheduler
) -> Iterator[tuple[EpisodeKey, Episode]]:
    """As `stream_async`, without `await`, and whether or not a loop runs in this thread."""
    with _runner() as run_coroutine:
        episodes = stream_async(plans, max_in_flight, run)

        async def following() -> tuple[EpisodeKey, Episode] | None:
            return await anext(episodes, None)

        try:
            while (keyed_episode := run_coroutine(following())) is not None:
                yield keyed_episode
        finally:
            run_coroutine(episodes.aclose())


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
    """The result of a coroutine.

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


def _checked_size(batch_size: int | None) -> int | None:
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"want batch_size of at least 1, got {batch_size}")
    return batch_size


def _followers(
    over: LiveEpisode, done: dict[EpisodeKey, tuple[LiveEpisode, Episode]]
) -> list[LiveEpisode]:
    """The episodes that branch next, now that this episode is over.

    Candidates are compared when all of them are over.
    """
    branch, parent = over.plan.branch, over.key[:-1]
    if branch is None:
        return []
    if not parent:
        return over.candidates()
    family = [(*parent, number) for number in range(branch.num_candidates)]
    if any(key not in done for key in family):
        return []
    episodes = [done[key][1] for key in family]
    if any(episode.lost is not None for episode in episodes):
        return []
    followed = branch.followed(episodes, done[parent][1])
    return [new for number in followed for new in done[family[number]][0].candidates()]


def _numbered(episodes: dict[EpisodeKey, Episode]) -> list[Episode]:
    """The episodes in the order of their keys, each with the index of its parent."""
    keys = sorted(episodes)
    place = {key: number for number, key in enumerate(keys)}
    return [
        replace(episodes[key], parent=place[key[:-1]])
        if len(key) > 1
        else episodes[key]
        for key in keys
    ]


def _are_same(first: Sequence[Policy], second: Sequence[Policy]) -> bool:
    """Whether two sequences hold the same policies."""
    if first is second:
        return True
    return len(first) == len(second) and all(map(operator.is_, first, second))


def _play_alike(one: EpisodePlan, other: EpisodePlan) -> bool:
    """Whether two plans hold the same environment, prompts and policies, as those of a group do."""
    return (
        one.env_fn is other.env_fn
        and one.prompts is other.prompts
        and _are_same(one.policies, other.policies)
    )
