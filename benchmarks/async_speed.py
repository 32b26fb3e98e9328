"""Speed of play with an endpoint: throughput, requests in flight, own CPU time.

An HTTP server in a process of its own answers chat requests of Kuhn poker after a given
time. Three measurements:

- throughput: 64 seats, replies after 2 s; turns per second while 64 episodes are in progress,
  divided by the ideal 64 / 2 s;
- in flight: replies after 20 to 500 ms, 256 allowed; time-weighted mean, over a whole run, of the
  requests that play has asked and that have no reply yet, and of those that the server has
  accepted and not yet answered, beside the same in lockstep;
- own CPU: milliseconds per turn of this process, with HTTP, and with a pause in its place.

    python benchmarks/async_speed.py
"""

import argparse
import asyncio
import contextlib
import json
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import arena_envs
from arena_wrappers import EpisodePlan, TurnRequest, play_many, play_plans
from arena_wrappers.policies.api import ChatAPIPolicy
from arena_wrappers.policies.client import Client

TEXT = "<answer>bet</answer>"
MESSAGE = {"role": "assistant", "content": TEXT}
ANSWER = {"choices": [{"index": 0, "finish_reason": "stop", "message": MESSAGE}]}
ALLOWED = 256
EPISODES = (
    3000  # the last requests of a run, fewer than allowed, are a small part of it
)


class Level:
    """A number that changes, and its integral over time."""

    def __init__(self) -> None:
        self.now, self.area, self.since = 0, 0.0, time.perf_counter()

    def add(self, change: int) -> None:
        at = time.perf_counter()
        self.area += self.now * (at - self.since)
        self.now, self.since = self.now + change, at


async def serve(low: float, high: float) -> None:
    """Answers after `low` to `high` seconds; GET gives the integral of its number of requests."""
    body, level, rng = json.dumps(ANSWER).encode(), Level(), random.Random(0)

    async def handle(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        nonlocal level
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = await reader.readuntil(b"\r\n\r\n")
                answer = body
                if head.startswith(b"GET"):
                    answer, level = json.dumps(level.area).encode(), Level()
                else:
                    size = head.lower().partition(b"content-length:")[2].split()[0]
                    await reader.readexactly(int(size))
                    level.add(1)
                    await asyncio.sleep(rng.uniform(low, high))
                    level.add(-1)
                line = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n"
                writer.write(
                    line + b"Content-Length: %d\r\n\r\n" % len(answer) + answer
                )
        writer.close()

    server = await asyncio.start_server(handle, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def serving(low: float, high: float) -> Iterator[str]:
    """The URL of a server that answers after `low` to `high` seconds."""
    command = [sys.executable, __file__, "--serve", str(low), str(high)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{process.stdout.readline().strip()}/v1"
        process.kill()


class Counted(ChatAPIPolicy):
    """An endpoint's policy that counts the requests which wait for a reply."""

    def __init__(self, url: str) -> None:
        super().__init__("m", url, max_concurrent=ALLOWED)
        self.level, self.lock = Level(), threading.Lock()

    def _call(self, request: TurnRequest, timeout: float | None) -> Any:
        self._add(1)
        call = super()._call(request, timeout)
        call.future.add_done_callback(lambda future: self._add(-1))
        return call

    def _add(self, change: int) -> None:
        with self.lock:
            self.level.add(change)


def env() -> Any:
    return arena_envs.make("kuhn_poker")


async def play_all(policy: Any, num_episodes: int, max_in_flight: int) -> float:
    """Turns per second until fewer than `max_in_flight` episodes are in progress."""
    start, turns, rate = time.perf_counter(), 0, 0.0
    episodes = play_many(env, policy, range(num_episodes), max_in_flight=max_in_flight)
    number = 0
    async for episode in episodes:
        assert episode.forfeited_by is None, episode.turns[-1].detail
        number += 1
        turns += len(episode.turns)
        if number == num_episodes - max_in_flight:
            rate = turns / (time.perf_counter() - start)
    return rate


def throughput() -> dict[str, float]:
    with serving(2.0, 2.0) as url:
        rate = asyncio.run(play_all(ChatAPIPolicy("m", url), 320, 64))
    return {"turns_per_s": rate, "share_of_ideal": rate / 32}


def in_flight() -> dict[str, dict[str, float]]:
    rows = {}
    with serving(0.02, 0.5) as url:
        for name in ("play_many", "lockstep"):
            policy, start = Counted(url), time.perf_counter()
            if name == "play_many":
                asyncio.run(play_all(policy, EPISODES, ALLOWED))
            else:
                plans = [
                    EpisodePlan(env, [policy] * 2, seed) for seed in range(EPISODES)
                ]
                play_plans(plans, batch_size=ALLOWED)
            seconds = time.perf_counter() - start
            at_server = Client(url).ask("GET", "/").future.result() / seconds
            rows[name] = {"asked": policy.level.area / seconds}
            rows[name] |= {"at_server": at_server, "seconds": seconds}
    return rows


def own_cpu() -> dict[str, float]:
    """CPU ms per turn: medians of five runs with 64 requests that take 0.1 s each."""
    spent: dict[str, list[float]] = {"with_client": [], "own": []}
    with serving(0.1, 0.1) as url:
        whole, bare = ChatAPIPolicy("m", url), ChatAPIPolicy("m", url)
        bare._client._ask = without_http  # type: ignore[assignment, method-assign]
        for _ in range(6):
            for kind, policy in (("with_client", whole), ("own", bare)):
                start, turns = time.process_time(), 300 * 2  # everybody bets
                asyncio.run(play_all(policy, 300, 64))
                spent[kind].append(1000 * (time.process_time() - start) / turns)
    # the first run connects
    return {kind: statistics.median(times[1:]) for kind, times in spent.items()}


def without_http(*arguments: Any) -> Any:
    time.sleep(0.1)
    return ANSWER


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--serve", nargs=2, type=float, help=argparse.SUPPRESS)
    delays = parser.parse_args().serve
    if delays:
        asyncio.run(serve(*delays))
        return
    for measure in (own_cpu, throughput, in_flight):
        print(json.dumps({measure.__name__: measure()}, indent=1), flush=True)


if __name__ == "__main__":
    main()
