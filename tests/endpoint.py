"""A chat endpoint for tests: a real HTTP server, well-behaved or not."""

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


class Endpoint(ThreadingHTTPServer):
    """Answers as `behaviour` says; remembers what it was asked.

    Attributes:
        behaviour: of a request, by its number: "fine", "long" (cut at a length limit), "slow",
            "stall", "drip" (bytes without end), "garbage", "cut", a status, or the content of
            a JSON answer. A status may be followed by what the server says: "400 no seed".
        retry_after: the header of status 429; empty for none.
        say: the text of an answer, a function of the request's body.
        models: what `GET /v1/models` lists.
        elsewhere: where status 307 redirects to.
        requests: the body of each request, and its header as `key`.
        headers: all headers of each request.
        closing: set when those that stall should end.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.behaviour: Callable[[int], str] = lambda number: "fine"
        self.say: Callable[[dict[str, Any]], str] = lambda body: "<answer>bet</answer>"
        self.models: list[dict[str, str]] = []
        self.elsewhere, self.retry_after = "", "0.01"
        self.headers: list[dict[str, str]] = []
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
    protocol_version = "HTTP/1.1"
    wbufsize = -1  # an answer is one packet, else it waits for an acknowledgement

    def do_GET(self) -> None:
        self.send(200, json.dumps({"data": self.server.models}).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            number = len(server.requests)
            server.requests.append({**body, "key": self.headers["Authorization"]})
            server.headers.append(dict(self.headers))
        self.answer(body, server.behaviour(number))

    def answer(self, body: dict[str, Any], behaviour: str) -> None:
        if behaviour == "stall":
            self.server.closing.wait(20)
        elif behaviour == "slow":
            self.take_time()
        elif behaviour == "drip":
            return self.drip()
        elif behaviour == "garbage":
            return self.send(200, b"\xff\x00<html>not json")
        elif behaviour == "cut":
            self.send_response(200)
            self.send_header("Content-Length", "1000")
            self.end_headers()
            self.wfile.write(b'{"choices": [')
            self.close_connection = True
            return None
        elif behaviour[:3].isdigit():
            said = behaviour[4:] or f"no: {self.headers['Authorization']}"
            return self.send(int(behaviour[:3]), json.dumps({"error": said}).encode())
        elif behaviour.startswith("{"):
            return self.send(200, behaviour.encode())
        choice: dict[str, Any] = {
            "index": 0,
            "finish_reason": "length" if behaviour == "long" else "stop",
            "message": {"role": "assistant", "content": self.server.say(body)},
        }
        if body.get("return_token_ids"):
            choice["token_ids"] = [7, 8]
        usage = {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110}
        answer: dict[str, Any] = {
            "id": "1",
            "object": "chat.completion",
            "created": 0,
            "model": "m",
        }
        answer |= {"choices": [choice], "usage": usage}
        if body.get("return_token_ids"):
            answer["prompt_token_ids"] = [1, 2, 3]
        return self.send(200, json.dumps(answer).encode())

    def drip(self) -> None:
        """A byte now and then, without end."""
        self.send_response(200)
        self.send_header("Content-Length", "100000")
        self.end_headers()
        with suppress(OSError):  # the client gave up
            while not self.server.closing.wait(0.02):
                self.wfile.write(b" ")
                self.wfile.flush()
        self.close_connection = True

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
        if status == 429 and self.server.retry_after:
            self.send_header("Retry-After", self.server.retry_after)
        if status == 307:
            self.send_header("Location", self.server.elsewhere)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@contextmanager
def serving() -> Iterator[Endpoint]:
    """An endpoint that answers until the end of the block."""
    server = Endpoint()
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    try:
        yield server
    finally:
        server.closing.set()
        server.shutdown()
        server.server_close()
