"""Answers over HTTP: read until a moment at the latest, and up to a size."""

import http.client
import io
import socket
import time
from typing import Any

MAX_CONTENT = 2**26  # bytes
_PIECE = 2**16  # bytes


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


def timed_response(
    sock: socket.socket, *, timeout: float, until: float, **given: Any
) -> http.client.HTTPResponse:
    """The answer that a socket receives.

    Args:
        sock: the socket.
        timeout: longest wait for more bytes, in seconds.
        until: when the answer must be complete, by `time.monotonic`.
        **given: arguments of `HTTPResponse`.
    """
    timed: Any = _Timed(sock, timeout, until)
    return http.client.HTTPResponse(timed, **given)


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
                f"want an answer of at most {MAX_CONTENT} bytes, got more; look whether "
                "the URL is that of an endpoint"
            )
    if response.length:
        raise http.client.IncompleteRead(b"".join(pieces), response.length)
    return b"".join(pieces)
