"""Models behind OpenAI-compatible chat endpoints.

`read_endpoint` reads policy strings, `key_for` finds keys, `Client` repeats and paces requests,
and `ChatAPIPolicy` is the policy. Requests go over HTTP to one host, many at a time, by the standard
library. Each connection is kept by a thread that waits for its answers. The threads are daemons: they
do not keep the process from ending.
"""

import asyncio
import difflib
import http.client
import io
import json
import logging
import math
import os
import queue
import random
import re
import socket
import ssl
import threading
import time
import weakref
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar, cast
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from arena_envs.checks import did_you_mean
from arena_wrappers.policies.basic import Reply, TurnRequest
from arena_wrappers.prompts import PROMPT_OPTIONS, Instead, PromptOptions

MAX_SAID = 300  # characters of a server's message in an error
MAX_CONTENT = 2**26  # bytes
_PIECE = 2**16  # bytes

T = TypeVar("T")


class Unreachable(ConnectionError):
    """No connection could be made."""


class Stopped(Exception):
    """The call was cancelled."""


class Answer(NamedTuple):
    """An answer to a request."""

    status: int
    headers: http.client.HTTPMessage
    content: bytes


class _Timed(io.RawIOBase):
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
            Stopped: `stop` was called.
        """

        def exchange() -> Answer:
            line: Any = self._line
            line.response_class = lambda sock, **given: http.client.HTTPResponse(
                cast(Any, _Timed(sock, timeout, until)), **given
            )
            sock = self._connected(min(timeout, until - time.monotonic()))
            self._line.request(method, f"{self._path}{path}", content, dict(headers))
            if wait is not None:
                wait(sock)
            response = self._line.getresponse()
            found = content_of(response)
            response.close()  # the connection stays, unless the server closes it
            return Answer(response.status, response.headers, found)

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
                raise Stopped from None
            raise

    def pause(self, seconds: float) -> None:
        """Waits; raises Stopped if `stop` is called."""
        if self._stopped.wait(seconds):
            raise Stopped

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
            raise Stopped
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


class Call(Generic[T]):
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

    def submit(self, work: Callable[[Connection], T]) -> Call[T]:
        """Has work done by the next thread that is free."""
        call = Call(work)
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
        self._calls: queue.SimpleQueue[Call[Any] | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        weakref.finalize(self, _end, self._calls, self._threads)

    def _finished(self, future: "Future[Any]") -> None:
        with self._lock:
            self._unfinished -= 1


def _serve(calls: "queue.SimpleQueue[Call[Any] | None]", url: str) -> None:
    line = Connection(url)
    while (call := calls.get()) is not None:
        call.run(line)
    line.close()


def _end(calls: "queue.SimpleQueue[Call[Any] | None]", threads: list[Any]) -> None:
    for _ in threads:
        calls.put(None)


OPENAI_URL = "https://api.openai.com/v1"
KEYS_FILE = "ARENA_KEYS_FILE"
_PREFIX = "ARENA_KEY_"
_PORTS = {"https": 443, "http": 80}
_URL = re.compile(
    r"(https?)://([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?(?:/[^\s#@?\\]*)?"
)
_NO_SCHEME = re.compile(r".+@(?:[^@]*[/:.]|localhost$)")  # m@localhost:8000, not m@2
_HOST = re.compile(r"([A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_NUMBERS = ("max_tokens", "temperature", "max_concurrent", "timeout", "max_retries")
_OWN = ("messages", "model", "n", "seed", "stream", "stream_options", "tools")
_NEAR = 0.8  # a name as near as this to that of an option is a mistake


@dataclass(frozen=True)
class Endpoint:
    """An endpoint as the string of a policy names it.

    Attributes:
        model: name of the model; empty if the string names none.
        base_url: URL of the endpoint; None if the string names none.
        options: the options, as arguments of `ChatAPIPolicy`; `prompt` holds the prompt
            options, and `fields` the fields of requests, by name.
    """

    model: str
    base_url: str | None
    options: Mapping[str, Any] = field(default_factory=dict)


def read_endpoint(text: str) -> Endpoint:
    """The endpoint of `MODEL`, `MODEL@URL` or `URL`; each option follows as `#NAME=VALUE`.

    A name that is no option is that of a field of requests, as in `#top_p=0.9`.

    Raises:
        ValueError: the URL or an option has another form; the URL has no http:// or https://.

    >>> read_endpoint("m@http://localhost:8000/v1#history=transcript#temperature=0")
    ... # doctest: +NORMALIZE_WHITESPACE
    Endpoint(model='m', base_url='http://localhost:8000/v1',
             options={'temperature': 0, 'prompt': {'history': 'transcript'}})
    """
    where, *listed = text.split("#")
    found = re.fullmatch(r"(?:(.*?)@)?(https?://.*)", where)
    model, url = (found[1] or "", found[2]) if found else (where, None)
    if url is None and _NO_SCHEME.match(where):
        shown = where.rpartition("@")[2].partition("?")[0]  # no password, no query
        raise ValueError(
            f"want http:// or https:// after @, got {shown!r:.200}; write the whole "
            "URL, as in my-model@http://localhost:8000/v1"
        )
    if url is not None:
        host_of(url)
    return Endpoint(model, url, _options(listed))


def _options(listed: Sequence[str]) -> dict[str, Any]:
    prompt: dict[str, Any] = {}
    others: dict[str, Any] = {}
    for part in listed:
        name, mark, value = part.partition("=")
        known = (*PROMPT_OPTIONS, *_NUMBERS, "send_seed", "model")
        if name in PROMPT_OPTIONS:
            prompt[name] = _value(name, value)
        elif name in known:
            others[name] = _value(name, value)
        elif (  # as near as this to an option, a name is a mistake
            not (mark and re.fullmatch("[a-z][a-z0-9_]*", name))
            or name in _OWN
            or difflib.get_close_matches(name, known, 1, _NEAR)
        ):
            raise ValueError(
                f"want #NAME=VALUE, got {'#' + part!r}; {did_you_mean(name, known)}"
            )
        else:
            others.setdefault("fields", {})[name] = _value(name, value)
    PromptOptions(**prompt)  # refuses wrong values
    return {**others, "prompt": prompt} if prompt else others


def _value(name: str, text: str) -> Any:
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    if re.search("&[a-z0-9_]+=", text):
        raise ValueError(f"want # before each option, got {name + '=' + text!r:.80}")
    if name == "send_seed" and type(value) is not bool:
        raise ValueError(f"want send_seed as true or false, got {text!r}")
    if name in _NUMBERS and type(value) not in (int, float):
        raise ValueError(f"want {name} as a number, as in {name}=1, got {text!r}")
    return text if name == "model" else value


def host_of(url: str) -> tuple[str, int]:
    """Host and port of a URL.

    Raises:
        ValueError: it is no URL of an endpoint. A user, a password or a query is refused,
            too: URLs stand in records, and these may hold a key.

    >>> host_of("https://api.openai.com/v1")
    ('api.openai.com', 443)
    """
    found = _URL.fullmatch(url)
    port = 0 if found is None else int(found[3] or _PORTS[found[1]])
    if found is None or not 0 < port < 2**16:
        shown = re.sub(r"//.*@", "//***@", url)
        shown = re.sub(r"\?.*", "?***", shown, flags=re.DOTALL)
        raise ValueError(
            "want the URL of an endpoint, such as http://localhost:8000/v1, got "
            f"{shown!r:.200}; leave out user, password and query"
        )
    return found[2].lower(), port


def key_for(url: str) -> str | None:
    """The key that was configured for the host and port of a URL, or None.

    Sources, the first one that has a key for this host and port:

    1. environment variables `ARENA_KEY_<name>`, with any name: `HOST KEY`, or `HOST:PORT KEY`
       where the port is another one than 443;
    2. the lines of the file that `ARENA_KEYS_FILE` names, in the same form;
    3. `OPENAI_API_KEY`, for api.openai.com.

    Raises:
        ValueError: a variable or a line has another form; names it without its content.
        OSError: the file cannot be read.
    """
    host = host_of(url)
    entries = [
        _entry(os.environ[name], f"the environment variable {name}")
        for name in sorted(os.environ)
        if name.startswith(_PREFIX)
    ]
    path = os.environ.get(KEYS_FILE)
    if path:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
        entries += [
            _entry(line, f"{path}, line {number}")
            for number, line in enumerate(lines, 1)
            if line.strip() and not line.startswith("#")
        ]
    if os.environ.get("OPENAI_API_KEY"):
        entries.append((host_of(OPENAI_URL), os.environ["OPENAI_API_KEY"]))
    return next((key for owner, key in entries if owner == host), None)


def _entry(text: str, source: str) -> tuple[tuple[str, int], str]:
    host, _, key = text.strip().partition(" ")
    found = _HOST.fullmatch(host)
    key = key.strip()
    if found is None or not key or not key.isascii() or " " in key:
        raise ValueError(
            f"want 'HOST KEY' in {source}, such as 'localhost:8000 my-key', got "
            "another form; correct it"
        )
    return (found[1].lower(), int(found[2] or _PORTS["https"])), key


def want_key(url: str) -> str:
    """A sentence that says how to configure a key for the host of a URL."""
    host, port = host_of(url)
    name = host if port == _PORTS["https"] else f"{host}:{port}"
    if (host, port) == host_of(OPENAI_URL):
        return "set OPENAI_API_KEY"
    return f"set ARENA_KEY_<any name>='{name} KEY'"


MAX_ERROR = 300  # characters
MIN_SECRET = 12  # characters of a key; shorter ones are not hidden
FIRST_PAUSE, LAST_PAUSE = 0.5, 8.0  # seconds before another attempt
MAX_PAUSE = 60.0  # that a server may ask for, but for a rate limit
LAST_WAIT, PATIENCE = 120.0, 600.0  # longest pause of a rate limit, and of all in a row
POLL = 0.05  # seconds
WHOLE = 10  # longest attempt, as a multiple of the timeout
_AGAIN = (408, 409, 429)  # and 5xx
# of OpenAI, for its own host
_IDS = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}


class TooLate(TimeoutError):
    """All attempts together took longer than the caller allows."""


class Endless(TimeoutError):
    """An answer was begun and had no end."""


class BadAnswer(Exception):
    """An answer is not what the protocol says."""


class StatusError(Exception):
    """A server refused a request.

    Attributes:
        status: of HTTP, or the code in an answer that holds an error.
        wait: seconds after which the server wants the next request, if it says so.
    """

    def __init__(self, status: int, said: str, wait: float | None = None) -> None:
        super().__init__(f"status {status}: {said}")
        self.status, self.wait = status, wait


class Pacer:
    """Lets requests to one server pass, so that a rate limit slows all of them.

    After status 429 no request passes for as long as `Retry-After` says, else for a pause that
    doubles up to minutes. Then one request goes first, and the others follow if it is answered.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._limit: StatusError | None = None  # the last one, while requests wait
        self._since = self._opens = 0.0  # when that began, and when the next may pass
        self._level, self._is_asked = 0, False
        self._jitter = random.Random(0)

    def enter(self, line: Connection, until: float) -> bool:
        """Waits until a request may pass; returns whether it goes first.

        Raises:
            TooLate: that is after `until`, by `time.monotonic`.
            StatusError: the limit has held, or will hold, for too long.
        """
        while True:
            with self._lock:
                now = time.monotonic()
                if now >= self._opens and not self._is_asked:
                    self._is_asked = self._limit is not None
                    return self._is_asked
                wait = max(self._opens - now, POLL)
                if self._limit is not None and now + wait - self._since > PATIENCE:
                    raise self._limit
            if now + wait >= until:
                raise TooLate(f"; the endpoint limits requests ({self._limit})")
            line.pause(wait)

    def leave(self, is_first: bool, failure: Exception | None) -> None:
        """Says how a request that passed ended."""
        with self._lock:
            if is_first:
                self._is_asked = False
            if not isinstance(failure, StatusError) or failure.status != 429:
                if is_first and failure is None:
                    self._limit, self._level = None, 0
                return
            now = time.monotonic()
            if self._limit is None:
                self._since = now
            if is_first or self._limit is None:  # others in flight say nothing new
                pause = min(FIRST_PAUSE * 2**self._level, LAST_WAIT)
                self._level += 1
                self._opens = now + pause * (1 - self._jitter.random() / 4)
            if failure.wait is not None:
                self._opens = max(self._opens, now + failure.wait)
            self._limit = failure


_PACERS: dict[tuple[Any, ...], Pacer] = {}  # by host and port, key and model


Mend = Callable[[StatusError, Mapping[str, Any]], Mapping[str, Any] | None]


class Client:
    """Sends requests to one server, each again if it fails.

    Args:
        url: URL of the endpoint.
        key: the key; None: the one that is configured for the host of `url`, see `key_for`.
            Without one, the word "none" is sent, since local servers accept any word.
        timeout: longest wait of one attempt for a connection or for more bytes, in seconds.
            A whole attempt may take `WHOLE` times as long.
        max_retries: attempts after the first, on connection errors, timeouts, answers that are
            malformed, and status 408, 409 and 5xx. Unless it is 0, a request waits out status
            429, and so do all others to the same model, see `Pacer`.
        max_concurrent: largest number of connections.
        model: name of the model that is asked; requests to it by this key share a `Pacer`.

    Attributes:
        url: of the endpoint.
        is_unreachable: whether a request failed because no connection could be made, and the
            server has never answered one.

    Raises:
        ValueError: the URL or the key has another form, a number is out of range, or
            OpenAI's host has no key.
    """

    def __init__(
        self,
        url: str,
        key: str | None = None,
        timeout: float = 60.0,
        max_retries: int = 4,
        max_concurrent: int = 64,
        model: str = "",
    ) -> None:
        _check(timeout, max_retries, max_concurrent)
        is_openai = host_of(url) == host_of(OPENAI_URL)
        key = (key_for(url) or "" if key is None else key).strip()
        if not key and is_openai:
            raise ValueError(f"want a key for {url}, got none; {want_key(url)}")
        if not key.isascii() or any(char.isspace() for char in key):
            raise ValueError(
                f"want a key of ASCII characters without spaces for {url}, got "
                "another; correct it"
            )
        self.url, self._secret, self._model = url, key, model
        self.is_unreachable, self._is_reached = False, False
        self._timeout, self._max_retries = timeout, max_retries
        self._headers = _headers(key or "none", is_openai)
        self._jitter = random.Random(0)
        self._threads = Threads(url, max_concurrent)
        self._pacer = _PACERS.setdefault((*host_of(url), key, model), Pacer())

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        mend: Mend | None = None,
    ) -> Call[Any]:
        """A request that threads carry out; its future has the answer, as JSON.

        Args:
            method: of HTTP.
            path: of the request.
            body: JSON of the request.
            timeout: seconds that all attempts together may take, from the first one on;
                else the future raises `TooLate`.
            mend: gives another body after status 400 or 422; None for no other.
        """
        work = partial(self._ask, method, path, body, timeout, mend)
        return self._threads.submit(work)

    def _ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        timeout: float | None,
        mend: Mend | None,
        line: Connection,
    ) -> Any:
        until, num_failed = math.inf, 0
        while True:
            is_first, failure = self._pacer.enter(line, until), None
            if timeout is not None and until == math.inf:
                until = time.monotonic() + timeout
            try:
                return self._once(method, path, body, until, line)
            except Exception as error:
                failure = error
            finally:
                self._pacer.leave(is_first, failure)
            if isinstance(failure, StatusError):
                changed = None
                if failure.status in (400, 422) and mend is not None:
                    changed = mend(failure, body or {})
                if changed is not None:
                    body = changed
                    continue
                if failure.status == 429 and self._max_retries:
                    continue  # the pacer waits
            num_failed += 1
            self._pause(failure, num_failed, until, line)

    def _pause(
        self, failure: Exception, num_failed: int, until: float, line: Connection
    ) -> None:
        """Waits before another attempt; raises if there is to be none."""
        pause = min(FIRST_PAUSE * 2 ** (num_failed - 1), LAST_PAUSE)
        pause *= 1 - self._jitter.random() / 4
        if isinstance(failure, StatusError) and failure.wait is not None:
            pause = min(failure.wait, MAX_PAUSE)
        if _passes(failure) and time.monotonic() + pause >= until:
            raise TooLate from failure
        if num_failed > self._max_retries or not _passes(failure):
            no_line = isinstance(failure, Unreachable)
            self.is_unreachable = no_line and not self._is_reached
            raise failure
        line.pause(pause)

    def _once(
        self, method: str, path: str, body: Any, until: float, line: Connection
    ) -> Any:
        """The answer to one attempt; raises for any that is not a success."""
        content = b"" if body is None else json.dumps(body).encode()
        end = time.monotonic() + WHOLE * self._timeout
        given = content, self._headers, self._timeout, min(until, end)
        try:
            answer = line.ask(method, path, *given)
        except TimeoutError as error:
            if end < until and time.monotonic() >= end:
                raise Endless from error
            raise
        self.is_unreachable, self._is_reached = False, True
        if answer.status >= 300:
            said = message_of(answer.content)
            raise StatusError(answer.status, said, _wanted_pause(answer.headers))
        try:
            found = json.loads(answer.content)
        except (ValueError, RecursionError):
            begin = message_of(answer.content[:MAX_ERROR])
            raise BadAnswer(f"want JSON, got {begin[:80]!r}") from None
        if isinstance(found, dict) and found.get("error") and not found.get("choices"):
            told = found["error"]
            code = told.get("code") if isinstance(told, dict) else None
            status = code if isinstance(code, int) and 400 <= code < 600 else 502
            raise StatusError(status, message_of(answer.content))
        return found

    def reason(self, error: Exception) -> str:
        """The reason of a failure, in a sentence that ends with what to do."""
        url, said = self.url, f"{type(error).__name__}: {error}"
        status = error.status if isinstance(error, StatusError) else None
        if isinstance(error.__cause__, ssl.SSLCertVerificationError):
            text = (
                f"the certificate of {url} cannot be checked ({error}); set SSL_CERT_FILE "
                "to a file of certificates, such as that of the package certifi"
            )
        elif isinstance(
            error, Unreachable | ConnectionError | http.client.HTTPException
        ):
            text = (
                f"the connection to {url} failed ({said}); start the server or correct "
                "the URL"
            )
        elif isinstance(error, Endless):
            text = (
                f"{url} began an answer and did not end it within {WHOLE * self._timeout:g} "
                "s; look whether it stalls, or give a longer timeout"
            )
        elif isinstance(error, TimeoutError):
            attempts = f"{1 + self._max_retries} attempts of {self._timeout:g} s"
            text = f"{url} gave no reply in {attempts}; look whether it stalls"
        elif status == 429:
            text = f"{url} limits requests ({said}); wait, or lower max_concurrent"
        elif status in (401, 403):
            got = "refuses its key" if self._secret else "wants a key, and has none"
            text = f"{url} {got}; {want_key(url)} ({said})"
        elif status in (400, 402, 413, 422):
            text = f"{url} refuses the request; change what it names ({said})"
        elif status == 404:
            text = f"{url} has no model {self._model!r}; correct name or URL ({said})"
        elif status is not None and 300 <= status < 400:
            text = f"{url} redirects, which is not followed; give the URL it leads to ({said})"
        else:
            text = f"{url} gave no usable answer; read the server's log ({said})"
        return self.hide(" ".join(text.split()))[:MAX_ERROR]

    def hide(self, text: str) -> str:
        """The text without the key, which an endpoint may repeat."""
        # local servers accept any word as a key, and a reply may contain this word
        is_secret = len(self._secret) >= MIN_SECRET
        return text.replace(self._secret, "***") if is_secret else text


def _headers(key: str, is_openai: bool) -> dict[str, str]:
    """Headers of each request."""
    headers = {
        "Authorization": f"Bearer {key}",
        "Content-Type": "application/json",
        "User-Agent": "arena-envs",  # some hosts refuse requests without one
    }
    ids = {_IDS[name]: os.environ.get(name) for name in _IDS} if is_openai else {}
    return headers | {name: value for name, value in ids.items() if value}


def _wanted_pause(headers: http.client.HTTPMessage) -> float | None:
    """The seconds of the header `Retry-After`, which may hold a date."""
    told = headers.get("Retry-After") or ""
    try:
        seconds = float(told)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(told).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return seconds if 0 < seconds < math.inf else None


def _passes(failure: Exception) -> bool:
    """Whether another attempt may succeed."""
    if isinstance(failure, StatusError):
        return failure.status in _AGAIN or failure.status >= 500
    kinds = OSError, http.client.HTTPException, BadAnswer
    return isinstance(failure, kinds) and not isinstance(failure, TooLate | Endless)


def _check(timeout: float, max_retries: int, max_concurrent: int) -> None:
    if not timeout > 0:
        raise ValueError(f"want a timeout above 0 seconds, got {timeout}")
    if type(max_retries) is not int or max_retries < 0:
        raise ValueError(f"want max_retries of at least 0, got {max_retries}")
    if type(max_concurrent) is not int or max_concurrent < 1:
        raise ValueError(f"want max_concurrent of at least 1, got {max_concurrent}")


@dataclass(frozen=True)
class Usage:
    """Calls, tokens and cost of a policy so far.

    Attributes:
        num_calls: answered requests; retries do not count.
        num_errors: requests without an answer; retries do not count.
        prompt_tokens: tokens of prompts, as the endpoint counts them.
        completion_tokens: tokens of replies, as the endpoint counts them.
        cost: cost by `prices`, in their currency; 0 without prices.
    """

    num_calls: int = 0
    num_errors: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost: float = 0.0


class ChatAPIPolicy:
    """Asks a chat endpoint for each reply, many at a time.

    If a request fails after all retries, its reply has an `error`, and the episode is lost.
    Other episodes go on. The key goes to the host of `base_url` and to no other:
    redirects are not followed. Replies and errors show `***` in place of a key of 12
    characters or more. Shorter keys stay, since local servers accept any word as a key.

    Args:
        model: name of the model at the endpoint.
        base_url: URL of the endpoint; None: `OPENAI_BASE_URL`, else OpenAI's own.
        key: the key for this endpoint; None: the key that is configured for its host, see
            `arena_wrappers.policies.api.key_for`. Without one, the word "none" is sent.
        name: name in records; None: the model's.
        prompt: what the model reads, and how its replies are read; None: as the environment
            says.
        max_concurrent: largest number of requests at the same time.
        timeout: longest wait of one attempt for a connection or for more bytes, in seconds;
            ten times as long for a whole attempt.
        max_retries: attempts after the first, see `arena_wrappers.policies.api.Client`.
        max_tokens: longest reply; None: the endpoint's default.
        temperature: sampling temperature; None: the endpoint's default.
        send_seed: whether requests contain the seed of the turn, modulo 2³¹. If the endpoint
            refuses the field `seed`, requests go on without it, and if it refuses `max_tokens`,
            with `max_completion_tokens`; a line in the log says so once.
        prices: price of a million prompt tokens, and of a million completion tokens.
        fields: further fields of each request, by name.

    Attributes:
        url: of the endpoint.
        usage: calls, errors, tokens and cost so far.

    Raises:
        ValueError: the URL or the key has another form, a number is out of range, or
            OpenAI's host has no key.
    """

    def __init__(
        self,
        model: str,
        base_url: str | None = None,
        key: str | None = None,
        *,
        name: str | None = None,
        prompt: PromptOptions | None = None,
        max_concurrent: int = 64,
        timeout: float = 60.0,
        max_retries: int = 4,
        max_tokens: int | None = None,
        temperature: float | None = None,
        send_seed: bool = True,
        prices: tuple[float, float] = (0.0, 0.0),
        fields: Mapping[str, Any] | None = None,
    ) -> None:
        url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
        self.model, self.name, self.prompt = model, name or model, prompt
        self.url, self.prices = url, prices
        self.usage = Usage()
        self._send_seed = send_seed
        self._refused: tuple[str, ...] = ()
        limits = {"max_tokens": max_tokens, "temperature": temperature}
        given = {k: v for k, v in limits.items() if v is not None}
        self._fields = {"model": model, **given, **(fields or {})}
        self._client = Client(url, key, timeout, max_retries, max_concurrent, model)
        self._counting = threading.Lock()

    @property
    def is_unreachable(self) -> bool:
        """Whether no connection could be made, and the endpoint has never answered."""
        return self._client.is_unreachable

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        calls = [self._call(request, None) for request in requests]
        try:
            return [self._reply_of(call, None) for call in calls]
        finally:
            for call in calls:  # a person may have pressed Ctrl-C
                call.cancel()

    async def act_async(
        self, request: TurnRequest, timeout: float | None = None
    ) -> Reply:
        call = self._call(request, timeout)
        try:
            with suppress(Exception):  # read below
                await asyncio.wrap_future(call.future)
        except asyncio.CancelledError:
            call.cancel()
            raise
        return self._reply_of(call, timeout)

    def _call(self, request: TurnRequest, timeout: float | None) -> Call[Any]:
        body = {**self._fields, "messages": [dict(m) for m in request.messages]}
        if self._send_seed:
            body["seed"] = request.seed % 2**31
        for name in self._refused:
            body = _without(name, body)
        return self._client.ask(
            "POST", "/chat/completions", body, timeout, self._without_refused
        )

    def _without_refused(
        self, error: StatusError, body: Mapping[str, Any]
    ) -> dict[str, Any] | None:
        """The body without the field that the endpoint refuses by its name."""
        said = str(error)
        if _TOO_LONG.search(
            said
        ):  # a reply that fills the context is shorter than limits
            limits = {"max_tokens", "max_completion_tokens"} & body.keys()
            return (
                {k: v for k, v in body.items() if k not in limits} if limits else None
            )
        for name, hint in _REFUSABLE.items():
            if name not in body or not re.search(rf"(?<![\w-]){name}(?![\w-])", said):
                continue
            if name == "max_tokens" and not re.search(_REFUSED, said):
                continue
            with self._counting:
                if name not in self._refused:
                    self._refused = (*self._refused, name)
                    told = f"{self.url} refuses the field {name!r}: {hint} ({said})"
                    LOG.warning("%s", self._client.hide(told))
            return _without(name, body)
        return None

    def _reply_of(self, call: Call[Any], timeout: float | None) -> Reply:
        """The reply of a request, when it is over."""
        try:
            answer = call.future.result()
            reply = _reply(answer)
        except TooLate as error:
            self._count(num_errors=1)
            raise TimeoutError(f"no reply within {timeout} s{error}") from None
        except Exception as error:  # an endpoint may send anything
            is_answer = isinstance(error, StatusError) and error.status in (400, 422)
            if is_answer and _TOO_LONG.search(str(error)):
                self._count(num_calls=1)
                return Reply("", instead="context_length")
            self._count(num_errors=1)
            told = self._client.reason(error)
            return Reply("", error=told, timed_out=isinstance(error, TimeoutError))
        self._count(answer.get("usage"), num_calls=1)
        return replace(reply, text=self._client.hide(reply.text))

    def _count(self, counted: Any = None, **numbers: int) -> None:
        counted = counted if isinstance(counted, dict) else {}
        sent = _number(counted.get("prompt_tokens"))
        came = _number(counted.get("completion_tokens"))
        with self._counting:  # several threads may play
            old = self.usage
            self.usage = replace(
                old,
                prompt_tokens=old.prompt_tokens + sent,
                completion_tokens=old.completion_tokens + came,
                cost=old.cost + (sent * self.prices[0] + came * self.prices[1]) / 1e6,
                **{name: getattr(old, name) + n for name, n in numbers.items()},
            )


def load(argument: str, **options: Any) -> ChatAPIPolicy:
    """The policy of the string `api:MODEL` or `api:MODEL@URL`, see `make_policy`.

    Args:
        argument: what follows `api:`.
        **options: arguments of `ChatAPIPolicy`; they override those of the string.

    Raises:
        ValueError: the string has another form, or an argument is wrong.
    """
    found = read_endpoint(argument)
    if not found.model or "model" in found.options:
        raise ValueError(
            "want the name of a model, as in 'api:my-model' or "
            f"'api:my-model@http://localhost:8000/v1', got 'api:{argument}'"
        )
    given = {**found.options, **options}
    if "prompt" in given:
        given["prompt"] = PromptOptions(**given["prompt"])
    return ChatAPIPolicy(found.model, found.base_url, name=argument, **given)


LOG = logging.getLogger(__name__)
MAX_REPLY = 1_000_000  # characters
# what OpenAI, vLLM and SGLang; llama.cpp; Anthropic; and TGI say
_TOO_LONG = re.compile(
    "(?i)context.?length|available context size|prompt is too long"
    "|inputs. (tokens|must have less)"
)
_REFUSABLE = {
    "seed": "requests go on without it, so that equal seeds may give other replies",
    "max_tokens": "requests go on with 'max_completion_tokens'",
}
_REFUSED = r"(?i)max_completion_tokens|un(supported|known|recogni[sz]ed|expected)|not (supported|permitted|allowed)|extra"


def _without(name: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The body of a request without a field that an endpoint refused."""
    rest = {key: value for key, value in body.items() if key != name}
    if name == "max_tokens" and name in body:
        rest.setdefault("max_completion_tokens", body[name])
    return rest


def _reply(answer: Any) -> Reply:
    """The reply in a chat completion; with token ids if the endpoint tells all of them."""
    try:
        choice = answer["choices"][0]
        message, why = choice["message"], choice.get("finish_reason")
        text = _text_of(message.get("content"))
    except (LookupError, TypeError, AttributeError):
        told = json.dumps(answer)[:80]
        raise BadAnswer(f"want a chat completion with a message, got {told}") from None
    if len(text) > MAX_REPLY:
        note = f"\n[cut: the reply has {len(text)} characters]"
        return Reply(text[:MAX_REPLY] + note, truncated=True)
    cut = why == "length"
    if not text.strip() and not cut:
        refusal = message.get("refusal")
        text = refusal if isinstance(refusal, str) else text
        return Reply(text, instead=_instead(message, why))
    ids = answer.get("prompt_token_ids"), choice.get("token_ids")
    known = all(isinstance(i, list) and all(type(n) is int for n in i) for i in ids)
    prompt_ids, token_ids = ids if known else (None, None)
    return Reply(text, prompt_ids, token_ids, truncated=cut)


def _text_of(content: Any) -> str:
    """The text of a message, which may be a list of parts; raises TypeError for others."""
    if isinstance(content, list):
        parts = (part.get("text") for part in content if isinstance(part, dict))
        return "".join(text for text in parts if isinstance(text, str))
    if not isinstance(content, str | None):
        raise TypeError
    return content or ""


def _instead(message: Mapping[str, Any], why: Any) -> Instead:
    """The kind of a message without text."""
    if message.get("refusal"):
        return "refusal"
    if message.get("tool_calls") or message.get("function_call"):
        return "tool_call"
    if why == "content_filter":
        return "content_filter"
    has_reasoning = message.get("reasoning_content") or message.get("reasoning")
    return "reasoning" if has_reasoning else "empty"


def _number(value: Any) -> int:
    return value if type(value) is int and value > 0 else 0
