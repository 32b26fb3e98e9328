"""`play_async` and `play_many`: the records of lockstep, without its waits."""

import asyncio
import os
import random
import signal
import subprocess
import sys
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest

import arena_envs
from arena_wrappers import (
    BotPolicy,
    PromptWrapper,
    RandomPolicy,
    Reply,
    ScriptedPolicy,
    make_policy,
    play,
    play_async,
    play_many,
)
from arena_wrappers.play import Branching, plans_of, play_plans
from arena_wrappers.play.schedule import Scheduler, _numbered
from arena_wrappers.policies import is_async
from arena_wrappers.policies.api import ChatAPIPolicy

KUHN = partial(arena_envs.make, "kuhn_poker")


class Remote:
    """Replies as the seed of the request says, often badly, each after its own time."""

    name = "remote"

    def __init__(self, seconds=0.004):
        self.seconds = seconds
        self.asked = self.in_flight = self.most_in_flight = 0

    def act(self, requests):
        return [self.pure(request) for request in requests]

    def pure(self, request):
        rng = random.Random(request.seed)
        if rng.random() < 0.1:
            return Reply(rng.choice(["nonsense", ""]), error=rng.choice([None, "cut"]))
        ids = [rng.randrange(100) for _ in range(3)]
        text = request.wrap(rng.choice(request.legal))
        return Reply(text, [*request.context_ids, 1], ids, [-0.5, -1.0, -0.25])

    async def act_async(self, request, timeout=None):
        self.asked += 1
        self.in_flight += 1
        self.most_in_flight = max(self.most_in_flight, self.in_flight)
        try:
            await self.wait(request, timeout)
        finally:
            self.in_flight -= 1
        return self.pure(request)

    async def wait(self, request, timeout):
        await asyncio.sleep(self.seconds * random.Random(request.seed).random())


class Stalling(Remote):
    """Never replies to a request of episode 2."""

    async def wait(self, request, timeout):
        if request.episode != 2:
            return
        try:
            await asyncio.wait_for(asyncio.Event().wait(), timeout)
        except TimeoutError:
            raise TimeoutError(f"no reply within {timeout} s") from None


class Broken(Remote):
    async def wait(self, request, timeout):
        if request.episode == 2:
            raise KeyError("out of order")


class Mute(Remote):
    def pure(self, request):
        return None if request.episode == 2 else super().pure(request)


def together(*args: Any, **options: Any) -> list[Any]:
    """The episodes of `play_many`, in the order of their ends."""

    async def collected() -> list[Any]:
        return [episode async for episode in play_many(*args, **options)]

    return asyncio.run(collected())


def lines(episodes: Any) -> list[str]:
    ordered = sorted(episodes, key=lambda episode: (episode.seed, episode.sample))
    return [episode.to_json() for episode in ordered]


def lockstep(env_fn: Any, seats: Any, seeds: Any, samples: Any = (0,)) -> list[str]:
    plans = plans_of(env_fn, seats, seeds, samples)
    return lines(dict(Scheduler(None, None).in_lockstep(plans, None)).values())


@pytest.mark.parametrize("history", ["state", "transcript"])
def test_records_are_those_of_lockstep(make_env, history):
    def env():
        return PromptWrapper(make_env(), history=history, on_invalid="retry")

    bot = BotPolicy(lambda game, state, rng: rng.choice(game.legal_actions(state)))
    kinds = [Remote(), "random", "noisy:0.5(random)", bot]
    num_seats = len(make_env().possible_agents)
    for shift in range(2):
        seats = [kinds[(seat + shift) % 4] for seat in range(num_seats)]
        want = lockstep(env, seats, range(5), range(2))
        found = together(env, seats, range(5), num_samples=2, max_in_flight=4)
        assert lines(found) == want
        alone = [
            asyncio.run(play_async(env, seats, s, i)) for s in (0, 4) for i in (0, 1)
        ]
        assert lines(alone) == [want[0], want[1], want[8], want[9]]


def test_records_of_an_endpoint_are_those_of_lockstep(endpoint):
    def choice(body):
        legal = body["messages"][-1]["content"].rpartition("Legal actions: ")[2]
        named = legal.rstrip(".").split(", ")
        return f"<answer>{named[body['seed'] % len(named)]}</answer>"

    endpoint.say = choice
    seats = [ChatAPIPolicy("m", endpoint.url), make_policy("minimax")]
    want = lockstep("tic_tac_toe", seats, range(6))
    random.Random(0).shuffle(order := list(range(6)))
    assert lines(together("tic_tac_toe", seats, order, max_in_flight=4)) == want
    assert lines(play("tic_tac_toe", seats, range(6))) == want
    assert len({request["seed"] for request in endpoint.requests}) > 6


@pytest.mark.parametrize("follow", ["best", "all"])
def test_turn_trees_grow_as_in_lockstep(follow):
    branch = Branching(2, seats=[0], follow=follow)
    seats = [Remote(0.002), RandomPolicy()]
    plans = plans_of(KUHN, seats, range(4), [0], branch)
    want = _numbered(dict(Scheduler(None, None).in_lockstep(plans, None)))
    assert play_plans(plans) == want
    assert play_plans(plans, batch_size=2) == want
    assert len(want) > 8


def test_noise_around_an_endpoint_waits_for_nobody(endpoint):
    seats = [make_policy(f"noisy:0.5(api:m@{endpoint.url})"), RandomPolicy()]
    assert is_async(seats[0])
    assert lines(play(KUHN, seats, range(8))) == lockstep(KUHN, seats, range(8))
    asked = len(endpoint.requests) // 2
    assert (
        0
        < asked
        < sum(t.seat == 0 for e in play(KUHN, seats, range(8)) for t in e.turns)
    )


def test_episodes_come_as_they_end_and_no_more_than_allowed_are_in_flight():
    remote = Remote(0.02)
    episodes = together(KUHN, remote, range(24), max_in_flight=8)
    seeds = [episode.seed for episode in episodes]
    assert sorted(seeds) == list(range(24)) != seeds
    assert remote.most_in_flight == 8


def test_a_slow_consumer_holds_up_play():
    remote = Remote(0.0)

    async def consume() -> None:
        async with aclosing(
            play_many(KUHN, remote, range(40), max_in_flight=4)
        ) as found:
            for taken in range(1, 4):
                await anext(found)
                await asyncio.sleep(0.02)
                started = taken + 4
                assert remote.asked <= 3 * started

    asyncio.run(consume())


@pytest.mark.parametrize(
    ("policy", "detail"),
    [
        (Stalling(), "TimeoutError: no reply within 0.05 s"),
        (Broken(), "KeyError: 'out of order'"),
        (Mute(), "TypeError: policy 'remote' gave None, want a Reply"),
    ],
)
def test_a_fault_loses_its_own_episode_and_nothing_else(policy, detail):
    found = lines(together(KUHN, [policy, "random"], range(5), timeout=0.05))
    sound = lockstep(KUHN, [Remote(), "random"], range(5))
    assert found[:2] + found[3:] == sound[:2] + sound[3:]
    kind = "timeout" if detail.startswith("TimeoutError") else "error"
    assert f'"invalid": "{kind}", "detail": "{detail}' in found[2]
    assert f'"lost": "policy \'remote\' gave no reply: {detail}' in found[2]


def test_an_error_that_is_raised_ends_the_other_episodes():
    policy = Stalling()
    bad: Any = ScriptedPolicy("")
    bad.act = lambda requests: 1 / 0
    for seats in ([policy, bad], [Broken(), policy]):
        with pytest.raises((ZeroDivisionError, KeyError)):
            together(KUHN, seats, range(5), on_error="raise")
        assert policy.in_flight == 0


def test_a_policy_in_process_may_raise_anything():
    bad: Any = ScriptedPolicy("")
    bad.act = lambda requests: next(iter(()))
    with pytest.raises(RuntimeError, match="'scripted' raised StopIteration"):
        together(KUHN, [bad, Remote()], range(2), on_error="raise")


@pytest.fixture
def ctrl_c():
    """Python's own answer to the signal, also where the shell ignores it for a background job."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("ctrl_c")
def test_ctrl_c_ends_play_at_once():
    remote = Stalling()
    bot: Any = ScriptedPolicy("")
    bot.act = lambda requests: signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        play(KUHN, [bot, remote], range(3))
    assert remote.in_flight == 0


def test_ctrl_c_ends_play_that_has_a_thread_of_its_own():
    """As in a notebook, whose loop runs already; a process of its own gets the signal."""
    script = """
import asyncio, os, signal, threading
from arena_wrappers import RandomPolicy, play

signal.signal(signal.SIGINT, signal.default_int_handler)

class Silent:
    name, asked, in_flight = "silent", 0, 0

    def act(self, requests):
        raise NotImplementedError

    async def act_async(self, request, timeout=None):
        self.asked += 1
        self.in_flight += 1
        if self.asked == 1:
            threading.Timer(0.1, os.kill, [os.getpid(), signal.SIGINT]).start()
        try:
            await asyncio.Event().wait()
        finally:
            self.in_flight -= 1

silent = Silent()

async def in_loop():
    play("kuhn_poker", [RandomPolicy(), silent], range(3))

try:
    asyncio.new_event_loop().run_until_complete(in_loop())
except KeyboardInterrupt:
    os._exit(0 if silent.asked and not silent.in_flight else 1)
os._exit(2)
"""
    command = [sys.executable, "-c", script]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs os.fork")
def test_endpoints_answer_in_a_process_that_was_forked():
    script = """
import os
from arena_wrappers.policies.network import Threads
threads = Threads("http://localhost", 1)
def answer():
    return threads.submit(lambda line: 1).future.result(9)
answer()
if os.fork() == 0:
    os._exit(answer() - 1)
os._exit(os.waitstatus_to_exitcode(os.wait()[1]))
"""
    command = [sys.executable, "-W", "ignore", "-c", script]
    assert subprocess.run(command, timeout=60, check=False).returncode == 0


def test_a_cancelled_call_cancels_its_requests(endpoint):
    endpoint.behaviour = lambda number: "stall" if number == 0 else "fine"
    remote = ChatAPIPolicy("m", endpoint.url, max_concurrent=1)

    async def cancelled() -> None:
        task = asyncio.create_task(play_async(KUHN, remote, 0))
        while not endpoint.requests:
            await asyncio.sleep(0.005)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert (
            await play_async(KUHN, remote, 1)
        ).forfeited_by is None  # the place is free

    asyncio.run(cancelled())


def test_one_call_answers_all_turns_that_wait_for_a_policy_in_process():
    sizes = []

    def reply(requests):
        sizes.append(len(requests))
        return RandomPolicy().act(requests)

    local: Any = ScriptedPolicy("")
    local.act = reply
    together(KUHN, [local, Remote()], range(12), max_in_flight=12)
    assert sizes[0] == 12
    assert len(sizes) < sum(sizes)


def test_play_needs_no_loop_of_its_own():
    """As in a notebook, whose cells run in an event loop."""

    async def in_a_loop() -> list[Any]:
        return play(KUHN, [Remote(), RandomPolicy()], range(6))

    assert lines(asyncio.run(in_a_loop())) == lockstep(
        KUHN, [Remote(), "random"], range(6)
    )


def test_arguments_are_checked():
    for options, match in [
        ({"max_in_flight": 0}, "max_in_flight of at least 1, got 0"),
        ({"num_samples": 0}, "num_samples of at least 1, got 0"),
        ({"timeout": 0}, "timeout above 0 seconds, got 0"),
    ]:
        with pytest.raises(ValueError, match=match):
            together(KUHN, "random", [0], **options)
    assert together(KUHN, "random", []) == []
