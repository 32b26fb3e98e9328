"""`Client`: requests to one endpoint, repeated after failures and paced by its rate limit."""

import http.client
import json
import logging
import math
import os
import random
import ssl
import threading
import time
from collections.abc import Callable, Mapping
from email.utils import parsedate_to_datetime
from functools import partial
from typing import Any

from arena_wrappers.policies.endpoints import OPENAI_URL, host_of, key_for, want_key
from arena_wrappers.policies.network import (
    Connection,
    ThreadCall,
    Threads,
    Unreachable,
    message_of,
)

MAX_ERROR = 300  # characters
MIN_SECRET = 12  # characters of a key; shorter ones are not hidden
FIRST_PAUSE, LAST_PAUSE = 0.5, 8.0  # seconds before another attempt
MAX_PAUSE = 60.0  # that a server may ask for, but for a rate limit
LAST_WAIT, PATIENCE = 120.0, 600.0  # longest pause of a rate limit, and of all in a row
POLL = 0.05  # seconds
SILENCE = 10.0  # seconds without any answer, after which a line in the log says so
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

    def __init__(self, status: int, message: str, wait: float | None = None) -> None:
        super().__init__(f"status {status}: {message}")
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
        self._level, self._is_probing = 0, False
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
                if now >= self._opens and not self._is_probing:
                    self._is_probing = self._limit is not None
                    return self._is_probing
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
                self._is_probing = False
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

LOG = logging.getLogger(__name__)

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
        _check_limits(timeout, max_retries, max_concurrent)
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
        self._first_failure = threading.Lock()  # never released
        self._first_request = threading.Lock()  # likewise

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout: float | None = None,
        mend: Mend | None = None,
    ) -> ThreadCall[Any]:
        """A request that threads carry out; its future has the answer, as JSON.

        Args:
            method: of HTTP.
            path: of the request.
            body: JSON of the request.
            timeout: seconds that all attempts together may take, from the first one on;
                else the future raises `TooLate`.
            mend: gives another body after status 400 or 422; None for no other.
        """
        if self._first_request.acquire(blocking=False):
            timer = threading.Timer(SILENCE, self._say_silent)
            timer.daemon = True
            timer.start()
        work = partial(self._ask, method, path, body, timeout, mend)
        return self._threads.submit(work)

    def _say_silent(self) -> None:
        """Logs that the server has not answered yet, unless it has."""
        if not self._is_reached:
            LOG.warning(
                "%s has not answered for %g s; an attempt waits %g s, and each request is tried "
                "%d times",
                self.url,
                SILENCE,
                self._timeout,
                1 + self._max_retries,
            )

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
        if _may_succeed(failure) and time.monotonic() + pause >= until:
            raise TooLate from failure
        if num_failed > self._max_retries or not _may_succeed(failure):
            no_line = isinstance(failure, Unreachable)
            self.is_unreachable = no_line and not self._is_reached
            raise failure
        if self._first_failure.acquire(blocking=False):  # once, by one of the threads
            LOG.warning(
                "%s; each request is tried %d times",
                self.reason(failure),
                1 + self._max_retries,
            )
        line.pause(pause)

    def _once(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None,
        until: float,
        line: Connection,
    ) -> Any:
        """The answer to one attempt; raises for any that is not a success."""
        content = b"" if body is None else json.dumps(body).encode()
        end = time.monotonic() + WHOLE * self._timeout
        arguments = content, self._headers, self._timeout, min(until, end)
        try:
            answer = line.ask(method, path, *arguments)
        except TimeoutError as error:
            if end < until and time.monotonic() >= end:
                raise Endless from error
            raise
        self.is_unreachable, self._is_reached = False, True
        if answer.status >= 300:
            message = message_of(answer.content)
            raise StatusError(answer.status, message, _retry_after(answer.headers))
        try:
            content_json = json.loads(answer.content)
        except (ValueError, RecursionError):
            begin = message_of(answer.content[:MAX_ERROR])
            raise BadAnswer(f"want JSON, got {begin[:80]!r}") from None
        if (
            isinstance(content_json, dict)
            and content_json.get("error")
            and not content_json.get("choices")
        ):
            error_field = content_json["error"]
            code = error_field.get("code") if isinstance(error_field, dict) else None
            status = code if isinstance(code, int) and 400 <= code < 600 else 502
            raise StatusError(status, message_of(answer.content))
        return content_json

    def reason(self, error: Exception) -> str:
        """The reason of a failure, in a sentence that ends with what to do."""
        url, description = self.url, f"{type(error).__name__}: {error}"
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
                f"the connection to {url} failed ({description}); start the server or correct "
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
            text = (
                f"{url} limits requests ({description}); wait, or lower max_concurrent"
            )
        elif status in (401, 403):
            got = "refuses its key" if self._secret else "wants a key, and has none"
            text = f"{url} {got}; {want_key(url)} ({description})"
        elif status in (400, 402, 413, 422):
            text = f"{url} refuses the request; change what it names ({description})"
        elif status == 404:
            text = f"{url} has no model {self._model!r}; correct name or URL ({description})"
        elif status is not None and 300 <= status < 400:
            text = f"{url} redirects, which is not followed; give the URL it leads to ({description})"
        else:
            text = f"{url} gave no usable answer; read the server's log ({description})"
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


def _retry_after(headers: http.client.HTTPMessage) -> float | None:
    """The seconds of the header `Retry-After`, which may hold a date."""
    header = headers.get("Retry-After") or ""
    try:
        seconds = float(header)
    except ValueError:
        try:
            seconds = parsedate_to_datetime(header).timestamp() - time.time()
        except (ValueError, OverflowError):
            return None
    return seconds if 0 < seconds < math.inf else None


def _may_succeed(failure: Exception) -> bool:
    """Whether another attempt may succeed."""
    if isinstance(failure, StatusError):
        return failure.status in _AGAIN or failure.status >= 500
    kinds = OSError, http.client.HTTPException, BadAnswer
    return isinstance(failure, kinds) and not isinstance(failure, TooLate | Endless)


def _check_limits(timeout: float, max_retries: int, max_concurrent: int) -> None:
    if not timeout > 0:
        raise ValueError(f"want a timeout above 0 seconds, got {timeout}")
    if type(max_retries) is not int or max_retries < 0:
        raise ValueError(f"want max_retries of at least 0, got {max_retries}")
    if type(max_concurrent) is not int or max_concurrent < 1:
        raise ValueError(f"want max_concurrent of at least 1, got {max_concurrent}")
