"""`JSONServer`: JSON requests to a server of vLLM or SGLang, many at a time."""

import asyncio
import http.client
import json
import selectors
import socket
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_EXCEPTION, wait
from functools import partial
from typing import Any

from arena_wrappers.policies.endpoints import host_of
from arena_wrappers.policies.network import Connection, Threads, Unreachable, message_of

RESTART = (
    "start it again with the command that `arena serve policy MODEL` prints, or for SGLang "
    "with that of docs/scaling.md"
)


class ServerError(ValueError):
    """A server cannot be used. The message names it and says what to do."""


class RequestRefused(ServerError):
    """A server answered with an error.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


class JSONServer:
    """A server that takes and gives JSON.

    Args:
        url: `"http://HOST:PORT"`; a path after it, such as that of a proxy, is kept.
        timeout: longest silence in seconds, between the last answer to any request and
            the next.
        in_flight: most requests at the same time.

    Raises:
        ServerError: the URL is of another form.
    """

    def __init__(self, url: str, timeout: float = 240.0, in_flight: int = 256) -> None:
        self.url, self.timeout = url.rstrip("/"), timeout
        try:
            host_of(self.url)
        except ValueError as error:
            raise ServerError(f"vllm_server_base_url: {error}") from None
        self._threads = Threads(self.url, in_flight)
        self._last_answer_at = time.monotonic()

    def local_address(self) -> str:
        """The address of this machine in the server's network; nothing is sent."""
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
            probe.connect(host_of(self.url))
            return str(probe.getsockname()[0])

    def get(self, path: str) -> Any:
        """The answer to a GET request; raises as `post_all`."""
        return self.post_all(path, [None], "GET")[0]

    def post(self, path: str, body: Any = None) -> Any:
        """The answer to a POST request; raises as `post_all`."""
        return self.post_all(path, [body])[0]

    def post_all(
        self, path: str, bodies: Sequence[Any], method: str = "POST"
    ) -> list[Any]:
        """The answers to many POST requests, in their order: JSON, else text.

        After a failure no further request is sent, and the failure is raised.

        Raises:
            ServerError: the server does not answer, or refuses a request.
        """
        self._last_answer_at = time.monotonic()
        calls = [
            self._threads.submit(partial(self._ask, method, path, body))
            for body in bodies
        ]
        try:
            done, _ = wait((call.future for call in calls), return_when=FIRST_EXCEPTION)
            failures = (future.exception() for future in done)
            if (failure := next(filter(None, failures), None)) is not None:
                raise failure
        finally:
            for call in calls:
                call.cancel()
        return [call.future.result() for call in calls]

    async def post_async(self, path: str, body: Any) -> Any:
        """The answer to a POST request; raises as `post_all`. Many calls may be in progress."""
        self._last_answer_at = time.monotonic()  # nothing may have been asked for long
        call = self._threads.submit(partial(self._ask, "POST", path, body))
        try:
            return await asyncio.wrap_future(call.future)
        finally:
            call.cancel()  # if the task is cancelled

    def _ask(self, method: str, path: str, body: Any, connection: Connection) -> Any:
        payload = b"" if body is None else json.dumps(body).encode()
        headers = {"Content-Type": "application/json"} if payload else {}
        try:
            answer = connection.ask(
                method, path, payload, headers, self.timeout, wait=self._wait_for_answer
            )
        except Unreachable as error:
            raise ServerError(
                f"no server answers at {self.url} ({error}); start one with "
                "`arena serve policy MODEL --start`, or give another URL as "
                "vllm_server_base_url"
            ) from error
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
        self._last_answer_at = time.monotonic()
        return self._parse_answer(path, answer.status, answer.content)

    def _wait_for_answer(self, sock: socket.socket) -> None:
        """Returns when an answer begins; answers to others show that the server lives."""
        with selectors.DefaultSelector() as ready:
            ready.register(sock, selectors.EVENT_READ)
            while True:
                seconds = self._last_answer_at + self.timeout - time.monotonic()
                if seconds <= 0:
                    break
                if ready.select(seconds):
                    return
        raise TimeoutError

    def _parse_answer(self, path: str, status: int, content: bytes) -> Any:
        if status >= 300:  # no redirects, which lead to another server
            raise RequestRefused(
                f"the server at {self.url} refuses {path} with status {status}: "
                f"{message_of(content)}",
                status,
            )
        try:
            return json.loads(content) if content.strip() else None
        except ValueError:  # some of vLLM's answers are a sentence
            return content.decode(errors="replace")
