"""`Server`: JSON over HTTP to a vLLM server, many requests at a time.

Plain `http.client`: a request costs little CPU, and nothing has to be installed.
"""

import http.client
import json
import selectors
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any
from urllib.parse import urlsplit

from arena_wrappers.endpoints import host_of

MAX_SAID = 300  # characters of a server's message in an error


class ServerError(ValueError):
    """A server cannot be used. The message names it and says what to do."""


class Server:
    """A server that takes and gives JSON.

    Args:
        url: `"http://HOST:PORT"`; a path after it, such as that of a proxy, is kept.
        timeout: longest silence in seconds, between the last answer to any request and
            the next.

    Raises:
        ServerError: the URL is of another form.
    """

    def __init__(self, url: str, timeout: float = 240.0) -> None:
        self.url, self.timeout = url.rstrip("/"), timeout
        try:
            host_of(self.url)
        except ValueError as error:
            raise ServerError(f"vllm_server_base_url: {error}") from None
        self._parts = urlsplit(self.url)
        self._heard = time.monotonic()

    def get(self, path: str) -> Any:
        """The answer to a GET request; raises as `post_all`."""
        return self._one("GET", path, None)

    def post(self, path: str, body: Any = None) -> Any:
        """The answer to a POST request; raises as `post_all`."""
        return self._one("POST", path, body)

    def post_all(self, path: str, bodies: Sequence[Any], in_flight: int) -> list[Any]:
        """The answers to many POST requests, in their order: JSON, else text.

        After a failure no further request is sent, and the first failure is raised.

        Args:
            path: of all requests.
            bodies: JSON of each.
            in_flight: most requests at the same time; each has a thread.

        Raises:
            ServerError: the server does not answer, or refuses a request.
        """
        answers: list[Any] = [None] * len(bodies)
        failures: list[Exception] = []
        is_over = threading.Event()
        numbered = _shared(enumerate(bodies))
        self._heard = time.monotonic()

        def work() -> None:
            try:
                with closing(self._connection()) as line:
                    for number, body in numbered:
                        if is_over.is_set():
                            return
                        answers[number] = self._ask(line, "POST", path, body)
            except Exception as error:  # raised again in the caller's thread
                failures.append(error)
                is_over.set()

        count = min(in_flight, len(bodies))
        threads = [threading.Thread(target=work, daemon=True) for _ in range(count)]
        try:
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            is_over.set()  # the caller may be interrupted
        if failures:
            raise failures[0]
        return answers

    def _one(self, method: str, path: str, body: Any) -> Any:
        self._heard = time.monotonic()
        with closing(self._connection()) as line:
            return self._ask(line, method, path, body)

    def _connection(self) -> http.client.HTTPConnection:
        secure = self._parts.scheme == "https"
        kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
        return kind(self._parts.netloc, timeout=self.timeout)

    def _ask(
        self, line: http.client.HTTPConnection, method: str, path: str, body: Any
    ) -> Any:
        if line.sock is None:
            self._connect(line)
        sent = b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if sent else {}
        try:
            line.request(method, f"{self._parts.path}{path}", sent, headers)
            self._wait(line)
            response = line.getresponse()
            status, said = response.status, response.read()
        except TimeoutError:
            raise ServerError(
                f"the server at {self.url} has answered nothing for {self.timeout:g} "
                "seconds; look into its log, or allow more with vllm_server_timeout"
            ) from None
        except (OSError, http.client.HTTPException) as error:
            raise ServerError(
                f"the server at {self.url} broke off the connection "
                f"({type(error).__name__}): it was stopped or has crashed; look into its "
                "log and start it again"
            ) from error
        self._heard = time.monotonic()
        return self._read(path, status, said)

    def _connect(self, line: http.client.HTTPConnection) -> None:
        try:
            line.connect()
        except OSError as error:
            raise ServerError(
                f"no server answers at {self.url} ({error.strerror or error}); start one "
                "with `arena serve policy MODEL --start`, or give another URL as "
                "vllm_server_base_url"
            ) from error

    def _wait(self, line: http.client.HTTPConnection) -> None:
        """Returns when an answer begins; answers to others show that the server lives."""
        with selectors.DefaultSelector() as ready:
            ready.register(line.sock, selectors.EVENT_READ)
            while (left := self._heard + self.timeout - time.monotonic()) > 0:
                if ready.select(left):
                    return
        raise TimeoutError

    def _read(self, path: str, status: int, said: bytes) -> Any:
        try:
            answer = json.loads(said) if said.strip() else None
        except ValueError:  # some of vLLM's answers are a sentence
            answer = said.decode(errors="replace")
        if status < 300:  # no redirects, which lead to another server
            return answer
        text = answer
        if isinstance(answer, dict):
            error = answer.get("error", answer)
            text = error.get("message", error) if isinstance(error, dict) else error
        said_so = " ".join(str(text).split())[:MAX_SAID]
        raise Refused(
            f"the server at {self.url} refuses {path} with status {status}: {said_so}",
            status,
        )


class Refused(ServerError):
    """A server answered with an error.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


def _shared(items: Iterator[Any]) -> Iterator[Any]:
    """The items, each to one of the threads that iterate at the same time."""
    lock = threading.Lock()
    end = object()

    def following() -> Any:
        with lock:
            return next(items, end)

    return iter(following, end)
