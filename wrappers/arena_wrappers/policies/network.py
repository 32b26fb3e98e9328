"""HTTP to one host, many requests at a time, by the standard library.

Each connection is kept by a thread that waits for its answers. The threads are daemons: they do not
keep the process from ending.
"""

import http.client
import io
import json
import math
import os
import queue
import socket
import threading
import time
import weakref
from base64 import b64encode
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, NamedTuple, TypeVar, cast
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

MAX_SAID = 300  # characters of a server's message in an error
MAX_CONTENT = 2**26  # bytes
_PIECE = 2**16  # bytes

T = TypeVar("T")


class Unreachable(ConnectionError):
    """No connection could be made."""


class CallCancelled(Exception):
    """The call was cancelled."""


class Answer(NamedTuple):
    """An answer to a request."""

    status: int
    headers: http.client.HTTPMessage
    content: bytes


class _TimedSocket(io.RawIOBase):
    """The header and the content that a socket receives."""

    def __init__(self, sock: socket.socket, timeout: float, until: float) -> None:
        self._sock, self._timeout, self._until = sock, timeout, until
        self._received = sock.makefile("rb", buffering=0)

    def makefile(self, mode: str) -> io.BufferedReader:
        """The file that an `http.client.HTTPResponse` reads."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int | None:
        """Raises TimeoutError if no bytes came in time."""
        left = self._until - time.monotonic()
        if left <= 0:
            raise TimeoutError
        self._sock.settimeout(min(self._timeout, left))
        return self._received.readinto(buffer)

    def close(self) -> None:
        self._received.close()
        super().close()


def content_of(response: http.client.HTTPResponse) -> bytes:
    """All of an answer, of which some servers send an empty line now and then.

    Raises:
        ValueError: it has more than `MAX_CONTENT` bytes.
        http.client.IncompleteRead: the connection broke off.
    """
    pieces, size = [], 0
    while piece := response.read1(_PIECE):
        pieces.append(piece)
        size += len(piece)
        if size > MAX_CONTENT:
            raise ValueError(
                f"want an answer of at most {MAX_CONTENT} bytes, got more; look "
                "whether the URL is that of an endpoint"
            )
    if response.length:
        raise http.client.IncompleteRead(b"".join(pieces), response.length)
    return b"".join(pieces)


class Connection:
    """A connection to one host, which is made when it is needed and kept.

    One thread asks. Another one may `stop` it.

    Args:
        url: of the host; paths of requests are added to its path.
    """

    def __init__(self, url: str) -> None:
        self._path = urlsplit(url).path.rstrip("/")
        self._line = _connection(url)
        self._stopped = threading.Event()

    def ask(
        self,
        method: str,
        path: str,
        content: bytes,
        headers: Mapping[str, str],
        timeout: float,
        until: float = math.inf,
        wait: Callable[[socket.socket], None] | None = None,
    ) -> Answer:
        """The answer to a request; redirects are not followed.

        A kept connection that the server has closed is made anew.

        Args:
            method: of HTTP.
            path: of the request.
            content: of the request.
            headers: of the request.
            timeout: longest wait for a connection or for more bytes, in seconds.
            until: when the answer must be complete, by `time.monotonic`.
            wait: called before the answer is read; returns when it begins.

        Raises:
            Unreachable: no connection could be made.
            TimeoutError: it took too long.
            ValueError: the answer has more than `MAX_CONTENT` bytes.
            OSError, http.client.HTTPException: the connection broke off.
            CallCancelled: `stop` was called.
        """

        def exchange() -> Answer:
            line: Any = self._line
            line.response_class = lambda sock, **options: http.client.HTTPResponse(
                cast(Any, _TimedSocket(sock, timeout, until)), **options
            )
            sock = self._connected(min(timeout, until - time.monotonic()))
            self._line.request(method, f"{self._path}{path}", content, dict(headers))
            if wait is not None:
                wait(sock)
            response = self._line.getresponse()
            content_bytes = content_of(response)
            response.close()  # the connection stays, unless the server closes it
            return Answer(response.status, response.headers, content_bytes)

        is_kept = self._line.sock is not None
        try:
            try:
                return exchange()
            except ConnectionError:
                self.close()
                if not is_kept or self._stopped.is_set():
                    raise
                return exchange()
        except BaseException:
            self.close()
            if self._stopped.is_set():
                raise CallCancelled from None
            raise

    def pause(self, seconds: float) -> None:
        """Waits; raises CallCancelled if `stop` is called."""
        if self._stopped.wait(seconds):
            raise CallCancelled

    def begin(self) -> None:
        """Begins another request, which `stop` then ends."""
        self._stopped.clear()

    def stop(self) -> None:
        """Has the request of another thread end with an error."""
        self._stopped.set()
        sock = self._line.sock
        if sock is not None:
            with suppress(OSError):  # a plain shutdown, also of a socket with TLS
                socket.socket.shutdown(sock, socket.SHUT_RDWR)

    def close(self) -> None:
        """Closes the connection; the next request makes another one."""
        self._line.close()

    def _connected(self, timeout: float) -> socket.socket:
        line = self._line
        line.timeout = max(timeout, 1e-3)
        if line.sock is None:
            try:
                line.connect()
            except (OSError, http.client.HTTPException) as error:
                line.close()
                raise Unreachable(getattr(error, "strerror", None) or error) from error
        if self._stopped.is_set():
            raise CallCancelled
        line.sock.settimeout(line.timeout)
        sock: socket.socket = line.sock
        return sock


def _connection(url: str) -> http.client.HTTPConnection:
    """A connection that is not made yet; with https through `HTTPS_PROXY`, if that is set."""
    parts = urlsplit(url)
    if parts.scheme == "http":
        return http.client.HTTPConnection(parts.netloc)
    proxy = getproxies().get("https")
    if not proxy or proxy_bypass(parts.netloc):
        return http.client.HTTPSConnection(parts.netloc)
    where = urlsplit(proxy if "//" in proxy else f"//{proxy}")
    line = http.client.HTTPSConnection(where.hostname or "", where.port or 80)
    headers = {}
    if where.username is not None:
        pair = f"{unquote(where.username)}:{unquote(where.password or '')}"
        word = b64encode(pair.encode()).decode()
        headers["Proxy-Authorization"] = f"Basic {word}"
    line.set_tunnel(parts.hostname or "", parts.port or 443, headers)
    return line


def message_of(content: bytes) -> str:
    """The message of a server in an answer that is an error."""
    answer: Any = content.decode(errors="replace")
    with suppress(ValueError):  # some say it in a sentence
        answer = json.loads(answer)
    if isinstance(answer, dict):
        error = answer.get("error", answer)
        answer = error.get("message", error) if isinstance(error, dict) else error
    return " ".join(str(answer).split())[:MAX_SAID]


class ThreadCall(Generic[T]):
    """Work that one of the `Threads` does with its line.

    Attributes:
        future: has the result.
    """

    def __init__(self, work: Callable[[Connection], T]) -> None:
        self.future: Future[T] = Future()
        self._work = work
        self._line: Connection | None = None
        self._lock = threading.Lock()

    def run(self, line: Connection) -> None:
        """Does the work, unless it was cancelled before."""
        with self._lock:
            if not self.future.set_running_or_notify_cancel():
                return
            line.begin()
            self._line = line
        settle: Callable[[Any], None] = self.future.set_result
        try:
            result: Any = self._work(line)
        except BaseException as error:
            settle, result = self.future.set_exception, error
        with self._lock:
            self._line = None
        settle(result)

    def cancel(self) -> None:
        """Ends the work, if it has not ended."""
        with self._lock:
            self.future.cancel()
            if self._line is not None:
                self._line.stop()


class Threads:
    """Threads that ask one host; they start when they are needed.

    Args:
        url: of the host.
        most: largest number of threads, and so of requests at the same time.
    """

    def __init__(self, url: str, most: int) -> None:
        self._url, self._most = url, most
        self._lock = threading.Lock()
        self._begin()

    def submit(self, work: Callable[[Connection], T]) -> ThreadCall[T]:
        """Has work done by the next thread that is free."""
        call = ThreadCall(work)
        if os.getpid() != self._process:  # forked, which leaves threads behind
            self._begin()
        with self._lock:
            self._unfinished += 1
            missing = min(self._unfinished, self._most) - len(self._threads)
            if missing > 0:
                arguments = self._calls, self._url
                thread = threading.Thread(target=_serve, args=arguments, daemon=True)
                self._threads.append(thread)
                thread.start()
        call.future.add_done_callback(self._finished)
        self._calls.put(call)
        return call

    def _begin(self) -> None:
        self._process, self._unfinished = os.getpid(), 0
        self._calls: queue.SimpleQueue[ThreadCall[Any] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        weakref.finalize(self, _end, self._calls, self._threads)

    def _finished(self, future: "Future[Any]") -> None:
        with self._lock:
            self._unfinished -= 1


def _serve(calls: "queue.SimpleQueue[ThreadCall[Any] | None]", url: str) -> None:
    line = Connection(url)
    while (call := calls.get()) is not None:
        call.run(line)
    line.close()


def _end(
    calls: "queue.SimpleQueue[ThreadCall[Any] | None]", threads: list[Any]
) -> None:
    for _ in threads:
        calls.put(None)
