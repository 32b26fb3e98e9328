"""Connections to `arena serve web`: silent and slow ones keep nobody out."""

import contextlib
import json
import socket
import threading
import time

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed: extra web")

import uvicorn

from arena_studio.web import (
    ConnectionLimits,
    Connections,
    Limits,
    Tables,
    make_app,
    protocol_of,
)

LIMITS = ConnectionLimits(max_by_address=4, max_silence=0.3, max_request=0.6)


@contextlib.contextmanager
def served(tables, limits=LIMITS):
    """The port of a running server."""
    app = make_app(tables, limits=Limits(max_body_seconds=0.3))
    settings = {"http": protocol_of(limits), "log_level": "error", "lifespan": "off"}
    server = uvicorn.Server(uvicorn.Config(app, port=0, **settings))
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=server.run, args=([listener],))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        try:
            yield listener.getsockname()[1]
        finally:
            server.should_exit = True
            thread.join(10)


@pytest.fixture
def tables(tmp_path):
    kept = Tables(tmp_path / "games.sqlite")
    yield kept
    kept.close()


def connected(port, sent=b""):
    client = socket.create_connection(("127.0.0.1", port), timeout=5)
    client.sendall(sent)
    return client


def request(method, path, port, body="", **headers):
    lines = [f"{method} {path} HTTP/1.1", f"Host: localhost:{port}"]
    if method == "POST":
        home = f"http://localhost:{port}"
        headers |= {"Origin": home, "Content-Type": "application/json"}
        headers |= {"Content-Length": len(body)}
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return ("\r\n".join(lines) + "\r\n\r\n" + body).encode()


def answer(client):
    """What a connection gives until it ends or pauses; empty if it was closed."""
    read = b""
    with contextlib.suppress(ConnectionError, TimeoutError):
        while b"\r\n\r\n" not in read and (part := client.recv(65_536)):
            read += part
    return read


def status(client):
    return answer(client).partition(b" ")[2][:3].decode()


def test_idle_connections_of_an_address_keep_no_visitor_of_it_out(tables) -> None:
    with served(tables, ConnectionLimits(max_by_address=4)) as port:
        idle = [connected(port) for _ in range(20)]
        client = connected(port, request("GET", "/", port))
        assert status(client) == "200"
        assert [answer(one) for one in idle[:16]] == [b""] * 16
        for one in (*idle, client):
            one.close()


def test_all_addresses_together_keep_no_visitor_out() -> None:
    """The connection that was silent for longest gives way."""

    class Open:
        def __init__(self, address, is_busy=False):
            self.address, self.is_busy, self.transport = address, is_busy, self
            self.is_closed = False

        def abort(self):
            self.is_closed = True

    limits = ConnectionLimits(max_by_address=2, max_connections=3)
    connections = Connections(limits)
    busy, first, second, third = Open("a", True), Open("a"), Open("b"), Open("c")
    for one in (busy, first, second):
        connections.enter(one)
    connections.put_last(first)
    connections.enter(third)
    assert [x.is_closed for x in (busy, first, second, third)] == [0, 0, 1, 0]
    first.is_busy = True
    connections.enter(refused := Open("a"))
    assert [x.is_closed for x in (busy, first, third, refused)] == [0, 0, 0, 1]


@pytest.mark.parametrize("sent", [b"", b"GET / HTTP/1.1\r\nHost: local"])
def test_a_connection_without_a_whole_request_is_closed(tables, sent) -> None:
    with served(tables) as port, connected(port, sent) as client:
        began = time.monotonic()
        assert answer(client) == b""
        assert 0.2 < time.monotonic() - began < 3


def test_a_request_without_its_end_is_refused(tables) -> None:
    with served(tables) as port:
        whole = request("POST", "/api/visit", port, "{}")
        with connected(port, whole[:-1]) as client:
            assert status(client) == "408"


def test_requests_that_compute_keep_no_view_waiting(tables, monkeypatch) -> None:
    may = threading.Event()
    monkeypatch.setattr("arena_studio.web.server.replayed", lambda given: may.wait(10))
    with served(tables, ConnectionLimits(max_silence=5)) as port:
        with connected(port, request("POST", "/api/visit", port, "{}")) as client:
            head = answer(client).decode()
        cookie = head.partition("set-cookie: ")[2].partition(";")[0]
        asked = request("POST", "/api/replay", port, json.dumps({}), Cookie=cookie)
        computing = [connected(port, asked) for _ in range(30)]
        with connected(port, request("GET", "/api/games", port, Cookie=cookie)) as one:
            assert status(one) == "200"
        may.set()
        assert {status(one) for one in computing} == {"200"}
        for one in computing:
            one.close()
