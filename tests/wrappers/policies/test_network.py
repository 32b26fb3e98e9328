"""Connections: kept, made anew, through a proxy, and ended in time."""

import asyncio
import socket
import threading
import time
from contextlib import closing, suppress
from functools import partial
from time import monotonic as now
from typing import Any

import pytest

from arena_wrappers import play_async
from arena_wrappers.policies import network
from arena_wrappers.policies.api import ChatAPIPolicy
from arena_wrappers.policies.network import (
    Connection,
    Threads,
    Unreachable,
    _connection,
)

FINE = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}"
ASK = ("POST", "/x", b"{}", {}, 5.0)


@pytest.fixture
def listen():
    """Starts a server that hands each connection to a function, one after the other."""
    listeners = []

    def start(*handlers):
        listener = socket.create_server(("127.0.0.1", 0))
        listeners.append(listener)

        def serve():
            for handle in handlers:
                connection, _ = listener.accept()
                with connection:
                    handle(connection)

        threading.Thread(target=serve, daemon=True).start()
        return f"http://127.0.0.1:{listener.getsockname()[1]}/v1"

    yield start
    for listener in listeners:
        listener.close()


def answer_each(connection, num=1):
    """Answers requests with the content `{}`, and then closes the connection."""
    for _ in range(num):
        came = b""
        while not came.endswith(b"\r\n\r\n{}"):
            piece = connection.recv(2**16)
            assert piece
            came += piece
        connection.sendall(FINE)


def test_a_connection_is_kept_and_made_anew_when_the_server_has_closed_it(listen):
    url = listen(partial(answer_each, num=2), answer_each)
    with closing(Connection(url)) as line:
        for _ in range(3):
            assert line.ask(*ASK).content == b"{}"


def test_a_new_connection_that_breaks_off_is_an_error(listen):
    with (
        closing(Connection(listen(lambda connection: connection.recv(9)))) as line,
        pytest.raises(ConnectionError),
    ):
        line.ask(*ASK)
    with pytest.raises(Unreachable, match="Connection refused"):
        Connection("http://127.0.0.1:9").ask(*ASK)


HEADER = b"HTTP/1.1 200 OK\r\nContent-Length: 9999\r\n"


@pytest.mark.parametrize(
    ("first", "more"),
    [(HEADER + b"\r\n", b"\n"), (HEADER, b"X: 1\r\n"), (b"HTTP/1.1 200 ", b"O")],
    ids=["content", "header", "status"],
)
def test_a_server_that_sends_a_little_for_ever_is_late(listen, first, more):
    """Some servers keep a connection alive so, and the limit is on the whole reply."""

    def trickle(connection):
        connection.recv(2**16)
        connection.sendall(first)
        with suppress(OSError):  # the client hangs up
            for _ in range(90):  # an answer may have 100 headers
                connection.sendall(more)
                time.sleep(0.02)

    policy = ChatAPIPolicy("m", listen(trickle), max_retries=0)
    game, began = play_async("kuhn_poker", [policy, "random"], 0, timeout=0.2), now()
    episode = asyncio.run(game)
    assert episode.turns[-1].detail == "TimeoutError: no reply within 0.2 s"
    assert now() - began < 1


def test_an_answer_without_end_is_refused(listen, monkeypatch):
    monkeypatch.setattr(network, "MAX_CONTENT", 1)
    with (
        closing(Connection(listen(answer_each))) as line,
        pytest.raises(ValueError, match="at most 1 bytes"),
    ):
        line.ask(*ASK)


def test_calls_that_wait_for_a_thread_can_be_cancelled():
    threads, go = Threads("http://localhost", 1), threading.Event()
    first, second = (threads.submit(lambda line: go.wait(9)) for _ in range(2))
    second.cancel()
    go.set()
    assert first.future.result(9)
    assert second.future.cancelled()
    assert threads.submit(lambda line: 3).future.result(9) == 3


def test_https_goes_through_the_proxy_of_the_environment(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", "http://me:pw@proxy.example:3128")
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.example:3128")
    monkeypatch.setenv("NO_PROXY", "own.example")
    line: Any = _connection("https://api.example/v1")
    assert (line.host, line.port) == ("proxy.example", 3128)
    assert line._tunnel_host == "api.example"
    assert line._tunnel_headers["Proxy-Authorization"] == "Basic bWU6cHc="
    for url in ("https://own.example/v1", "http://localhost:8000/v1"):
        line = _connection(url)
        assert line._tunnel_host is None
