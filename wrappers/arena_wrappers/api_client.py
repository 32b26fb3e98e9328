"""`Client`: requests to one OpenAI-compatible server, and the reasons why they failed."""

import http.client
import json
import math
import os
import random
import ssl
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from arena_wrappers.endpoints import OPENAI_URL, host_of, key_for, want_key
from arena_wrappers.network import Call, Line, Threads, Unreachable, message_of

MAX_ERROR = 300  # characters
MIN_SECRET = 12  # characters of a key; shorter ones are not hidden
FIRST_PAUSE, LAST_PAUSE = 0.5, 8.0  # seconds before another attempt
MAX_PAUSE = 60.0  # that a server may ask for
_AGAIN = (408, 409, 429)  # and 5xx
# of OpenAI, for its own host
_IDS = {"OPENAI_ORG_ID": "OpenAI-Organization", "OPENAI_PROJECT_ID": "OpenAI-Project"}


class TooLate(TimeoutError):
    """All attempts together took longer than the caller allows."""


class StatusError(Exception):
    """A server refused a request.

    Attributes:
        status: of HTTP.
    """

    def __init__(self, status: int, said: str) -> None:
        super().__init__(f"status {status}: {said}")
        self.status = status


class Client:
    """Sends requests to one server, each again if it fails.

    Args:
        url: URL of the endpoint.
        key: the key; None: the one that is configured for the host of `url`, see `key_for`.
            Without one, the word "none" is sent, since local servers accept any word.
        timeout: longest wait of one attempt for a connection or for more bytes, in seconds.
        max_retries: attempts after the first, on connection errors, timeouts, and status
            408, 409, 429 and 5xx; exponential backoff, or the header `Retry-After`.
        max_concurrent: largest number of connections.

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
    ) -> None:
        _check(timeout, max_retries, max_concurrent)
        is_openai = host_of(url) == host_of(OPENAI_URL)
        key = (key_for(url) or "" if key is None else key).strip()
        if not key and is_openai:
            raise ValueError(f"want a key for {url}, got none; {want_key(url)}")
        if not key.isascii() or any(char.isspace() for char in key):
            raise ValueError(
                f"want a key of ASCII characters without spaces for {url}, got another; "
                "correct it"
            )
        self.url, self._secret = url, key
        self.is_unreachable, self._is_reached = False, False
        self._timeout, self._max_retries = timeout, max_retries
        self._headers = _headers(key or "none", is_openai)
        self._jitter = random.Random(0)
        self._threads = Threads(url, max_concurrent)

    def ask(
        self,
        method: str,
        path: str,
        body: Mapping[str, Any] | None = None,
        timeout: float | None = None,
    ) -> Call[Any]:
        """A request that threads carry out; its future has the answer, as JSON.

        Args:
            method: of HTTP.
            path: of the request.
            body: JSON of the request.
            timeout: seconds that all attempts together may take, from the first one on;
                else the future raises `TooLate`.
        """
        return self._threads.submit(partial(self._ask, method, path, body, timeout))

    def _ask(
        self, method: str, path: str, body: Any, timeout: float | None, line: Line
    ) -> Any:
        until = math.inf if timeout is None else time.monotonic() + timeout
        content = b"" if body is None else json.dumps(body).encode()
        for attempt in range(1 + self._max_retries):
            given = content, self._headers, self._timeout, until
            pause = min(FIRST_PAUSE * 2**attempt, LAST_PAUSE)
            pause *= 1 - self._jitter.random() / 4
            try:
                answer = line.ask(method, path, *given)
            except (OSError, http.client.HTTPException) as error:
                failure: Exception = error
            else:
                self.is_unreachable, self._is_reached = False, True
                if answer.status < 300:
                    return json.loads(answer.content)
                failure = StatusError(answer.status, message_of(answer.content))
                if answer.status not in _AGAIN and answer.status < 500:
                    raise failure
                pause = _wanted_pause(answer.headers) or pause
            if time.monotonic() + pause >= until:
                raise TooLate(f"no reply within {timeout} s")
            if attempt < self._max_retries:
                line.pause(pause)
        self.is_unreachable = isinstance(failure, Unreachable) and not self._is_reached
        raise failure

    def reason(self, error: Exception, model: str) -> str:
        """Why a request failed, in a sentence that ends with what to do."""
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
        elif isinstance(error, TimeoutError):
            attempts = f"{1 + self._max_retries} attempts of {self._timeout:g} s"
            text = f"{url} gave no reply in {attempts}; look whether it stalls"
        elif status in (401, 403):
            got = "refuses its key" if self._secret else "wants a key, and has none"
            text = f"{url} {got}; {want_key(url)} ({said})"
        elif status == 404:
            text = f"{url} has no model {model!r}; correct name or URL ({said})"
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
    """The seconds of the header `Retry-After`, if they are few."""
    try:
        seconds = float(headers.get("Retry-After") or "")
    except ValueError:  # none, or a date
        return None
    return seconds if 0 < seconds <= MAX_PAUSE else None


def _check(timeout: float, max_retries: int, max_concurrent: int) -> None:
    if not timeout > 0:
        raise ValueError(f"want a timeout above 0 seconds, got {timeout}")
    if type(max_retries) is not int or max_retries < 0:
        raise ValueError(f"want max_retries of at least 0, got {max_retries}")
    if type(max_concurrent) is not int or max_concurrent < 1:
        raise ValueError(f"want max_concurrent of at least 1, got {max_concurrent}")
