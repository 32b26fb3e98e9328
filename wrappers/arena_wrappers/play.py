"""Plays many episodes, in lockstep unless a seat is an endpoint."""

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from arena_wrappers.asking import OnError, ask, checked_on_error, checked_timeout
from arena_wrappers.branching import Branching
from arena_wrappers.episodes import Episode
from arena_wrappers.live_episodes import EnvCaches, EnvFn, EpisodePlan, LiveEpisode
from arena_wrappers.plans import checked_samples, in_progress, plans_of
from arena_wrappers.play_async import is_async, stream_in_own_loop
from arena_wrappers.policies import Policy

__all__ = ["EnvFn", "EpisodePlan", "play", "play_plans", "stream_plans"]

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
