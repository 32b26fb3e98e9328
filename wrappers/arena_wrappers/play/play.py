"""Plays episodes: in lockstep, or each at its own pace where a seat is an endpoint.

In lockstep, one call of a policy answers the waiting turns of all episodes. Otherwise a policy
with `act_async` is awaited, turn by turn. The others answer in the thread of the event loop, in
one call for all turns that wait for them at that moment. If such a policy is slow, the other
episodes' next turns come later. Replies of endpoints do not, because they arrive in another
thread, see `arena_wrappers.policies.network`.
"""

import asyncio
import math
import queue
import threading
from collections import deque
from collections.abc import (
    AsyncGenerator,
    Callable,
    Coroutine,
    Iterator,
    Sequence,
)
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, contextmanager, suppress
from dataclasses import replace
from functools import partial
from typing import Any, Literal, TypeGuard, TypeVar, get_args

from arena_wrappers.play.live_episodes import (
    Branching,
    EnvCaches,
    EnvFn,
    EpisodePlan,
    LiveEpisode,
    checked_samples,
    in_progress,
    plans_of,
)
from arena_wrappers.policies import AsyncPolicy, Policy, Reply, TurnRequest
from arena_wrappers.records import Episode

OnError = Literal["lose", "raise"]


class NoReplyError(RuntimeError):
    """A policy gave no reply, such as a model behind an endpoint that cannot be reached."""


def checked_on_error(on_error: OnError) -> OnError:
    """The argument; raises ValueError unless it is `"lose"` or `"raise"`."""
    if on_error not in get_args(OnError):
        raise ValueError(
            f"want on_error 'lose' or 'raise', got {on_error!r:.80}; correct it"
        )
    return on_error


def checked_timeout(timeout: float | None) -> float | None:
    """The timeout; raises ValueError unless it is above 0 or None."""
    if timeout is not None and not 0 < timeout <= threading.TIMEOUT_MAX:
        raise ValueError(f"want a timeout above 0 seconds, got {timeout}")
    return timeout


def ask(
    policy: Policy,
    requests: Sequence[TurnRequest],
    timeout: float | None,
    on_error: OnError,
) -> Sequence[Reply]:
    """The replies of a policy, one for each request.

    When a call fails or times out, its requests are asked again one by one, so that one bad
    request does not lose the other episodes. A policy that always stalls therefore costs
    `timeout` seconds per request. A call that timed out goes on in its thread: with a
    timeout, `act` may run in several threads at once.

    Args:
        policy: who replies.
        requests: what is asked.
        timeout: seconds that one call may take; None for no limit.
        on_error: what a failure does: `"lose"` gives a `Reply` with `error` to each
            request that also fails alone; `"raise"` raises the exception again, and
            `NoReplyError` for a `Reply` with `error`.
    """
    try:
        replies = _checked(policy, requests, _act(policy, requests, timeout))
        return _wanted(policy, replies, on_error)
    except Exception as error:  # a policy may be anybody's code, or a network away
        if on_error == "raise":
            raise
        if len(requests) > 1:
            return [ask(policy, [r], timeout, on_error)[0] for r in requests]
        return [_failed(error)]


async def ask_async(
    policy: AsyncPolicy, request: TurnRequest, timeout: float | None, on_error: OnError
) -> Reply:
    """The reply of an asynchronous policy; the arguments are those of `ask`."""
    try:
        reply = await policy.act_async(request, timeout)
        _checked(policy, [request], [reply])
        return _wanted(policy, [reply], on_error)[0]
    except Exception as error:
        if on_error == "raise":
            raise
        return _failed(error)


MAX_ERROR = 500  # characters


def _failed(error: Exception) -> Reply:
    told = f"{type(error).__name__}: {error}"[:MAX_ERROR]
    return Reply("", error=told, timed_out=isinstance(error, TimeoutError))


def _wanted(
    policy: Policy, replies: Sequence[Reply], on_error: OnError
) -> Sequence[Reply]:
    """The replies; raises NoReplyError if one has an error that is to be raised."""
    for reply in replies:
        if on_error == "raise" and reply.error is not None:
            raise NoReplyError(f"policy {policy.name!r} gave no reply: {reply.error}")
    return replies


def _checked(
    policy: Policy, requests: Sequence[TurnRequest], replies: Sequence[Reply]
) -> Sequence[Reply]:
    if len(replies) != len(requests):
        raise ValueError(
            f"policy {policy.name!r} gave {len(replies)} replies to {len(requests)} "
            "requests; want one for each"
        )
    for reply in replies:
        if not isinstance(reply, Reply) or not isinstance(reply.text, str):
            raise TypeError(f"policy {policy.name!r} gave {reply!r:.80}, want a Reply")
        if not isinstance(reply.error, str | None):
            raise TypeError(f"policy {policy.name!r}: want a text as error")
        for ids in (reply.prompt_ids, reply.token_ids):
            if ids is not None and not all(hasattr(i, "__index__") for i in ids):
                raise TypeError(f"policy {policy.name!r}: want integers as token ids")
        for what, values in (
            ("logprob", reply.logprobs),
            ("entropy", reply.entropies),
        ):
            if values is None:
                continue
            if reply.token_ids is None or len(values) != len(reply.token_ids):
                raise ValueError(f"policy {policy.name!r}: want one {what} per token")
            if not math.isfinite(sum(values)):
                raise ValueError(
                    f"policy {policy.name!r}: want finite numbers, one {what} per token"
                )
    return replies


def _act(
    policy: Policy, requests: Sequence[TurnRequest], timeout: float | None
) -> Sequence[Reply]:
    if timeout is None:
        return policy.act(requests)
    done: queue.SimpleQueue[tuple[Sequence[Reply], Exception | None]]
    done = queue.SimpleQueue()

    def work() -> None:
        try:
            done.put((policy.act(requests), None))
        except Exception as error:  # handed to the caller below
            done.put(((), error))

    threading.Thread(target=work, daemon=True).start()
    try:
        replies, error = done.get(timeout=timeout)
    except queue.Empty:
        raise TimeoutError(f"no reply within {timeout} s") from None
    if error is not None:
        raise error
    return replies


def forfeit_reason(episode: Episode) -> str | None:
    """The reason of a forfeit: that of the seat's last turn; None without a forfeit."""
    if episode.forfeited_by is None:
        return None
    turn = next(t for t in episode.turns[::-1] if t.seat == episode.forfeited_by)
    return f"{turn.invalid}: {turn.detail}"


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


Key = tuple[int, ...]


def play(
    env_fn: EnvFn | str,
    policies: Policy | str | Sequence[Policy | str],
    seeds: Sequence[int],
    *,
    num_samples: int = 1,
    batch_size: int | None = None,
    timeout: float | None = None,
    on_error: OnError = "lose",
    branch: Branching | None = None,
) -> list[Episode]:
    """Plays one episode for each seed; all waiting turns of a policy go to one `act`.

    The same seeds and policies give the same episodes whatever the batch size. With a policy
    behind an endpoint (`AsyncPolicy`) and without `branch`, episodes do not wait for each
    other, see `arena_wrappers.play_async`; the records are the same.

    Args:
        env_fn: a function that makes the environment, or the id of a game. A `GameEnv`
            gets the default prompts. A policy's own prompt options (`Policy`) hold in its
            seat, unless the `PromptWrapper` names options for that seat.
        policies: one policy for all seats, or one for each; a policy or a string for
            `make_policy`.
        seeds: seeds of the episodes.
        num_samples: episodes per seed: same chance outcomes, other choices of the policies.
        batch_size: most episodes in progress at a time; None for all. Where a person
            plays, one is.
        timeout: seconds that one `act` may take. After a timeout its requests are asked
            again one by one; a request that times out alone loses the episode. A call
            that timed out goes on in its thread, so several calls of `act` may run at once.
            An endpoint's request is asked once, and cancelled after a timeout.
        on_error: what a missing reply does, such as one of a server that fails, a timeout or
            an exception in a policy: `"lose"` ends its episode, which is lost
            (`Episode.lost`) and has no returns. `"raise"` raises the exception again, and
            `NoReplyError` for a reply with an `error`.
        branch: where more episodes branch from each episode, see `Branching`.

    Returns:
        The episodes in the order of the seeds, all samples of a seed together. An episode
        that branched follows its parent, see `Episode.parent`.

    Raises:
        ValueError: the number of policies, a seed or a count is out of range; the game, a
            policy or `on_error` is unknown.
        TypeError: `env_fn` is neither a function nor an id, or a policy has no `act`.

    >>> from arena_wrappers import play
    >>> episodes = play("kuhn_poker", ["random", "cfr"], range(3))
    >>> [sum(episode.returns) for episode in episodes]
    [0.0, 0.0, 0.0]
    """
    samples = checked_samples(num_samples)
    plans = plans_of(env_fn, policies, seeds, samples, branch)
    if branch is not None:
        return play_plans(
            plans, batch_size=batch_size, timeout=timeout, on_error=on_error
        )
    episodes = dict(
        stream_plans(plans, batch_size=batch_size, timeout=timeout, on_error=on_error)
    )
    return [episodes[index] for index in range(len(plans))]


def play_plans(
    plans: Sequence[EpisodePlan],
    *,
    batch_size: int | None = None,
    timeout: float | None = None,
    on_error: OnError = "lose",
) -> list[Episode]:
    """The episodes of the plans in their order, always played in lockstep.

    The arguments are those of `play`. An episode that branched follows its parent, and
    `Episode.parent` is the parent's index.
    """
    return _numbered(
        dict(_stream(plans, batch_size=batch_size, timeout=timeout, on_error=on_error))
    )


def stream_plans(
    plans: Sequence[EpisodePlan],
    *,
    batch_size: int | None = None,
    timeout: float | None = None,
    on_error: OnError = "lose",
) -> Iterator[tuple[int, Episode]]:
    """Plays the planned episodes, several games at once if need be.

    The arguments are those of `play`. Plans with an `AsyncPolicy` are played by
    `arena_wrappers.play_async`, the others in lockstep.

    Yields:
        The index of a plan and its episode, as soon as it is over.

    Raises:
        ValueError: `batch_size` is below 1, or a plan branches. `Episode.parent` is an index
            into all episodes, which is known only when all are over.
    """
    if any(plan.branch is not None for plan in plans):
        raise ValueError("stream_plans does not take plans that branch: use play_plans")
    if any(is_async(policy) for plan in plans for policy in plan.policies):
        in_flight = in_progress(plans, _checked_size(batch_size), timeout)
        most = in_flight or len(plans)
        yield from stream_in_own_loop(plans, most, timeout, on_error)
        return
    for key, episode in _stream(
        plans, batch_size=batch_size, timeout=timeout, on_error=on_error
    ):
        yield key[0], episode


def _stream(
    plans: Sequence[EpisodePlan],
    *,
    batch_size: int | None,
    timeout: float | None,
    on_error: OnError,
) -> Iterator[tuple[Key, Episode]]:
    """Each episode with the key of its `LiveEpisode`, as soon as it is over."""
    batch_size = in_progress(plans, _checked_size(batch_size), timeout)
    checked_timeout(timeout)
    checked_on_error(on_error)
    caches = EnvCaches()
    done: dict[Key, tuple[LiveEpisode, Episode]] = {}
    plans_left = deque(enumerate(plans))
    candidates: list[LiveEpisode] = []
    live: list[LiveEpisode] = []
    while live or candidates or plans_left:
        while batch_size is None or len(live) < batch_size:
            if candidates:  # first, so that few trees are open at a time
                live.append(candidates.pop())
            elif plans_left:
                index, plan = plans_left.popleft()
                live.append(LiveEpisode((index,), plan, caches.of(plan)))
            else:
                break
        # some games can end before anybody moves
        _take_turns([one for one in live if not one.is_over], timeout, on_error)
        waiting, live = live, []
        for one in waiting:
            if not one.is_over:
                live.append(one)
                continue
            episode = one.leave()
            yield one.key, episode
            if one.plan.branch is not None:
                done[one.key] = one, episode
                candidates += _followers(one, done)


def _checked_size(batch_size: int | None) -> int | None:
    if batch_size is not None and batch_size < 1:
        raise ValueError(f"want batch_size of at least 1, got {batch_size}")
    return batch_size


def _take_turns(
    live: Sequence[LiveEpisode], timeout: float | None, on_error: OnError
) -> None:
    """One reply in each episode; those of one policy come from one call."""
    groups: dict[int, list[LiveEpisode]] = {}
    for one in live:
        groups.setdefault(id(one.policy), []).append(one)
    for group in groups.values():
        requests = [one.request() for one in group]
        replies = ask(group[0].policy, requests, timeout, on_error)
        for one, reply in zip(group, replies, strict=True):
            one.take(reply)


def _followers(
    over: LiveEpisode, done: dict[Key, tuple[LiveEpisode, Episode]]
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
    chosen = branch.followed(episodes, done[parent][1])
    return [new for number in chosen for new in done[family[number]][0].candidates()]


def _numbered(episodes: dict[Key, Episode]) -> list[Episode]:
    """The episodes in the order of their keys, each with the index of its parent."""
    keys = sorted(episodes)
    place = {key: number for number, key in enumerate(keys)}
    return [
        replace(episodes[key], parent=place[key[:-1]])
        if len(key) > 1
        else episodes[key]
        for key in keys
    ]
