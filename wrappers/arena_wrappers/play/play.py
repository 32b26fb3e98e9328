"""Plays episodes: by seeds or by plans, in one call, as a stream, or with `await`."""

import operator
import sys
from collections.abc import AsyncGenerator, Iterator, Sequence
from contextlib import aclosing
from typing import Any

from arena_wrappers.play.asking import OnError
from arena_wrappers.play.branching import Branching
from arena_wrappers.play.episodes import EnvCaches
from arena_wrappers.play.plans import (
    EnvFn,
    EpisodePlan,
    checked_samples,
    in_progress,
    plans_of,
)
from arena_wrappers.play.schedule import (
    Scheduler,
    _checked_size,
    _numbered,
    stream_async,
    stream_in_own_loop,
)
from arena_wrappers.policies import (
    BotPolicy,
    Policy,
    RandomPolicy,
    is_async,
    without_noise,
)
from arena_wrappers.records import Episode

MAX_IN_FLIGHT = 64


async def play_async(
    env_fn: EnvFn | str,
    seats: Policy | str | Sequence[Policy | str],
    seed: int,
    sample: int = 0,
    *,
    timeout: float | None = None,
    on_error: OnError = None,
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

    >>> import asyncio
    >>> asyncio.run(play_async("kuhn_poker", "random", seed=3)).returns
    [1.0, -1.0]
    """
    (plan,) = plans_of(env_fn, seats, [seed], [sample])
    run = Scheduler(timeout, on_error)
    return await run.play(run.start(0, plan))


async def play_many(
    env_fn: EnvFn | str,
    seats: Policy | str | Sequence[Policy | str],
    seeds: Sequence[int],
    *,
    num_samples: int = 1,
    max_in_flight: int = MAX_IN_FLIGHT,
    timeout: float | None = None,
    on_error: OnError = None,
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
    episodes = stream_async(plans, most, Scheduler(timeout, on_error))
    async with aclosing(episodes):
        async for _, episode in episodes:
            yield episode


def play(
    env_fn: EnvFn | str,
    policies: Policy | str | Sequence[Policy | str],
    seeds: Sequence[int],
    *,
    num_samples: int = 1,
    batch_size: int | None = None,
    timeout: float | None = None,
    on_error: OnError = None,
    branch: Branching | None = None,
) -> list[Episode]:
    """Plays one episode for each seed; all waiting turns of a policy go to one `act`.

    The same seeds and policies give the same episodes whatever the batch size. With a policy
    behind an endpoint (`AsyncPolicy`), episodes do not wait for each other, see
    `arena_wrappers.play_async`; the records are the same.

    Args:
        env_fn: a function that makes the environment, or the id of a game. A `GameEnv`
            gets the default prompts. A policy's own prompt options (`Policy`) hold in its
            seat, unless the `PromptWrapper` names options for that seat.
        policies: one policy for all seats, or one for each: strings for `make_policy`, or
            objects for `as_policy`, such as a function of the request that returns the reply.
        seeds: seeds of the episodes.
        num_samples: episodes per seed: same chance outcomes, other choices of the policies.
        batch_size: most episodes in progress at a time; None for all. Where a person
            plays, one is.
        timeout: seconds that one `act` may take. After a timeout its requests are asked
            again one by one; a request that times out alone loses the episode. A call
            that timed out goes on in its thread, so several calls of `act` may run at once.
            An endpoint's request is asked once, and cancelled after a timeout.
        on_error: what happens without a reply. `"lose"`: the episode ends, is lost
            (`Episode.lost`) and has no returns. `"raise"`: exceptions of policies are raised
            again, and `NoReplyError` for a reply with an `error`. None: an exception in a
            policy of this process is raised again; a timeout, a server that fails, or an
            exception in `act_async` loses the episode.
        branch: where more episodes branch from each episode, see `Branching`.

    Returns:
        The episodes in the order of the seeds, all samples of a seed together. An episode
        that branched follows its parent, see `Episode.parent`.

    Raises:
        ValueError: the number of policies, a seed or a count is out of range; the game, a
            policy or `on_error` is unknown.
        TypeError: `env_fn` is neither a function nor an id, or a policy is none.

    >>> from arena_wrappers import play
    >>> episodes = play("kuhn_poker", ["random", "cfr"], range(3))
    >>> [sum(episode.returns) for episode in episodes]
    [0.0, 0.0, 0.0]
    >>> def first_action(request):
    ...     return request.wrap(request.legal[0])
    >>> play("kuhn_poker", [first_action, "cfr"], [0])[0].turns[0].policy
    'first_action'
    """
    samples = checked_samples(num_samples)
    plans = plans_of(env_fn, policies, seeds, samples, branch)
    limits: Any = {"batch_size": batch_size, "timeout": timeout, "on_error": on_error}
    if branch is not None:
        return play_plans(plans, **limits)
    episodes = dict(stream_plans(plans, **limits))
    return [episodes[index] for index in range(len(plans))]


def play_plans(
    plans: Sequence[EpisodePlan],
    *,
    batch_size: int | None = None,
    timeout: float | None = None,
    on_error: OnError = None,
    caches: EnvCaches | None = None,
) -> list[Episode]:
    """The episodes of the plans in their order.

    They are played in lockstep, unless each policy is an `AsyncPolicy` or a bot: a model in this
    process is fastest if all its turns come in one call.

    The arguments are those of `play`; `caches` keep environments from call to call. An episode
    that branched follows its parent, and `Episode.parent` is the parent's index.
    """
    run = Scheduler(timeout, on_error, caches)
    policies = {id(policy): policy for plan in plans for policy in plan.policies}
    are_async = [is_async(policy) for policy in policies.values()]
    are_fast = map(_replies_at_once, policies.values())
    if any(are_async) and all(map(operator.or_, are_async, are_fast)):
        most = in_progress(plans, _checked_size(batch_size), timeout) or sys.maxsize
        return _numbered(dict(stream_in_own_loop(plans, most, run)))
    return _numbered(dict(run.in_lockstep(plans, batch_size)))


def _replies_at_once(policy: Policy) -> bool:
    return isinstance(without_noise(policy), BotPolicy | RandomPolicy)


def stream_plans(
    plans: Sequence[EpisodePlan],
    *,
    batch_size: int | None = None,
    timeout: float | None = None,
    on_error: OnError = None,
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
    run = Scheduler(timeout, on_error)
    if any(is_async(policy) for plan in plans for policy in plan.policies):
        in_flight = in_progress(plans, _checked_size(batch_size), timeout)
        most = in_flight or len(plans)
        for key, episode in stream_in_own_loop(plans, most, run):
            yield key[0], episode
        return
    for key, episode in run.in_lockstep(plans, batch_size):
        yield key[0], episode
