"""`ChatAPIPolicy` against a real HTTP server, well-behaved and not."""

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from arena_envs import make
from arena_wrappers import RandomPolicy, make_policy, play
from arena_wrappers.api import ChatAPIPolicy

pytest.importorskip("openai")
KEY = "sk-very-secret-4711"


class Endpoint(ThreadingHTTPServer):
    """Answers as `behaviour` says; remembers what it was asked."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviour: Any = lambda number: "fine"
        self.requests: list[dict[str, Any]] = []
        self.in_flight = self.most_in_flight = 0
        self.lock = threading.Lock()
        self.closing = threading.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}/v1"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that gave up is no news."""


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            number = len(server.requests)
            server.requests.append({**body, "key": self.headers["Authorization"]})
        self.answer(body, server.behaviour(number))

    def answer(self, body: dict[str, Any], behaviour: str) -> None:
        if behaviour == "stall":
            self.server.closing.wait(20)
        elif behaviour == "slow":
            self.take_time()
        elif behaviour == "garbage":
            return self.send(200, b"\xff\x00<html>not json")
        elif behaviour == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
            return None
        elif behaviour.isdigit():
            said = f"no: {self.headers['Authorization']}"
            return self.send(int(behaviour), json.dumps({"error": said}).encode())
        elif behaviour.startswith("{"):
            return self.send(200, behaviour.encode())
        choice = {
            "index": 0,
            "finish_reason": "length" if behaviour == "long" else "stop",
            "message": {"role": "assistant", "content": "<answer>bet</answer>"},
        }
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "m"}
        self.send(
            200, json.dumps({**answer, "choices": [choice], "usage": usage}).encode()
        )
        return None

    def take_time(self) -> None:
        """Counts the request as in flight until its answer is about to be sent."""
        server = self.server
        with server.lock:
            server.in_flight += 1
            server.most_in_flight = max(server.most_in_flight, server.in_flight)
        time.sleep(0.05)
        with server.lock:
            server.in_flight -= 1

    def send(self, status: int, content: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        if status == 429:
            self.send_header("Retry-After", "0.01")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@pytest.fixture
def endpoint(monkeypatch: pytest.MonkeyPatch) -> Iterator[Endpoint]:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    server = Endpoint()
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.closing.set()
    server.shutdown()
    server.server_close()


def kuhn(policy: Any, num_episodes: int = 4) -> list[Any]:
    seats = [policy, RandomPolicy()]
    return play(lambda: make("kuhn_poker"), seats, range(num_episodes))


def test_it_plays_and_counts_what_it_took(endpoint: Endpoint) -> None:
    policy = ChatAPIPolicy("m", endpoint.url, prices=(2.0, 30.0), max_tokens=7)
    episodes = kuhn(policy)
    turns = [turn for e in episodes for turn in e.turns if turn.seat == 0]
    assert {turn.reply for turn in turns} == {"<answer>bet</answer>"}
    assert {turn.policy for turn in turns} == {"m"}
    assert policy.usage.num_calls == len(turns) == len(endpoint.requests)
    assert policy.usage.prompt_tokens == 100 * len(turns)
    assert policy.usage.cost == pytest.approx(len(turns) * (200 + 300) / 1e6)
    asked = endpoint.requests[0]
    assert asked["key"] == f"Bearer {KEY}"
    assert asked["max_tokens"] == 7
    assert [message["role"] for message in asked["messages"]] == ["system", "user"]
    assert len({request["seed"] for request in endpoint.requests}) == len(turns)


def test_the_key_is_nowhere_but_in_the_request(endpoint: Endpoint) -> None:
    endpoint.behaviour = lambda number: "401"
    policy = ChatAPIPolicy("m", endpoint.url)
    records = "".join(episode.to_json() for episode in kuhn(policy))
    assert "AuthenticationError" in records
    assert KEY not in records
    assert KEY not in repr(policy)


def test_a_key_that_the_endpoint_repeats_is_hidden(endpoint: Endpoint) -> None:
    message = {"role": "assistant", "content": f"{KEY} <answer>bet</answer>"}
    choice = {"index": 0, "finish_reason": "stop", "message": message}
    endpoint.behaviour = lambda number: json.dumps({"choices": [choice]})
    (episode,) = kuhn(ChatAPIPolicy("m", endpoint.url), 1)
    assert KEY not in episode.to_json()
    assert any("*** <answer>bet</answer>" in turn.reply for turn in episode.turns)


@pytest.mark.parametrize(
    "behaviour", ["500", "404", "garbage", "cut", "stall", '{"choices": []}', "{}"]
)
def test_a_request_that_fails_forfeits_its_episode_and_no_other(
    endpoint: Endpoint, behaviour: str
) -> None:
    endpoint.behaviour = lambda number: behaviour if number == 0 else "fine"
    policy = ChatAPIPolicy(
        "m", endpoint.url, max_retries=0, timeout=0.5, max_concurrent=1
    )
    episodes = kuhn(policy)
    assert [episode.forfeited_by for episode in episodes] == [0, None, None, None]
    assert episodes[0].turns[0].invalid == "error"
    assert policy.usage.num_errors == 1


@pytest.mark.parametrize("behaviour", ["429", "503", "cut", "stall"])
def test_what_passes_is_tried_again(endpoint: Endpoint, behaviour: str) -> None:
    endpoint.behaviour = lambda number: behaviour if number < 2 else "fine"
    policy = ChatAPIPolicy("m", endpoint.url, timeout=0.5, max_concurrent=1)
    episodes = kuhn(policy, 1)
    assert episodes[0].forfeited_by is None
    assert policy.usage.num_errors == 0
    assert len(endpoint.requests) == policy.usage.num_calls + 2


def test_a_reply_that_was_cut_is_overlong(endpoint: Endpoint) -> None:
    endpoint.behaviour = lambda number: "long"
    (episode,) = kuhn(ChatAPIPolicy("m", endpoint.url), 1)
    assert episode.turns[0].invalid == "overlong"


def test_no_more_requests_than_allowed_are_in_flight(endpoint: Endpoint) -> None:
    endpoint.behaviour = lambda number: "slow"
    kuhn(ChatAPIPolicy("m", endpoint.url, max_concurrent=3), 12)
    assert 2 <= endpoint.most_in_flight <= 3


def test_a_string_names_it(endpoint: Endpoint, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", endpoint.url)
    assert kuhn(make_policy("api:m"), 1)[0].forfeited_by is None
    with pytest.raises(ValueError, match="want the name of a model"):
        make_policy("api:")


def test_a_missing_key_and_bad_numbers_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    with pytest.raises(ValueError, match="in the environment variable OPENAI_API_KEY"):
        ChatAPIPolicy("m")
    monkeypatch.setenv("MY_KEY", KEY)
    for options, match in [
        ({"max_concurrent": 0}, "max_concurrent of at least 1, got 0"),
        ({"timeout": 0}, "timeout above 0 seconds, got 0"),
        ({"max_retries": -1}, "max_retries of at least 0, got -1"),
    ]:
        with pytest.raises(ValueError, match=match):
            ChatAPIPolicy("m", key_variable="MY_KEY", **options)
