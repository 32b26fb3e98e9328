"""Connections of browsers: how many an address may have, and how long they may be silent."""

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Protocol

from arena_envs.extras import import_extra


@dataclass(frozen=True)
class ConnectionLimits:
    """What connections may do. A proxy counts as one address.

    Attributes:
        max_by_address: connections of an address. One more closes its longest silent one, or is
            refused if none is silent.
        max_connections: of all addresses, likewise.
        max_silence: seconds without a whole request.
        max_request: seconds from a request to the end of its answer.
    """

    max_by_address: int = 64
    max_connections: int = 500
    max_silence: float = 10.0
    max_request: float = 300.0


class BrowserConnection(Protocol):
    """A connection of a browser."""

    address: str
    transport: asyncio.Transport

    @property
    def is_busy(self) -> bool:
        """Whether a request has come that is not answered yet."""


class Connections:
    """The open connections, those first that have been silent, or busy, for longest."""

    def __init__(self, limits: ConnectionLimits) -> None:
        self.limits = limits
        self._open: dict[BrowserConnection, None] = {}

    def enter(self, connection: BrowserConnection) -> None:
        """Adds a connection, and closes one if that is too many."""
        self._open[connection] = None
        same_address = [
            connected
            for connected in self._open
            if connected.address == connection.address
        ]
        if len(same_address) > self.limits.max_by_address:
            self._close_one(same_address)
        elif len(self._open) > self.limits.max_connections:
            self._close_one([*self._open])

    def leave(self, connection: BrowserConnection) -> None:
        """Forgets a connection; it may be gone already."""
        self._open.pop(connection, None)

    def put_last(self, connection: BrowserConnection) -> None:
        """Puts a connection behind all others, once its request is answered."""
        if connection in self._open:
            self._open[connection] = self._open.pop(connection)

    def _close_one(self, connections: list[BrowserConnection]) -> None:
        *older, newest = connections
        silent = (connection for connection in older if not connection.is_busy)
        surplus = next(silent, newest)
        self.leave(surplus)
        surplus.transport.abort()


class LimitedConnection:
    """What `protocol_of` puts before uvicorn's connection.

    Attributes:
        all_connections: of the server.
        address: where it comes from.
    """

    all_connections: Connections
    address: str
    client: tuple[str, int] | None
    cycle: Any  # of uvicorn: an answer that is under way, None before the first
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport

    def connection_made(self, transport: asyncio.Transport) -> None:
        super().connection_made(transport)  # type: ignore[misc]  # uvicorn's
        self.address = self.client[0] if self.client else ""
        self._since = time.monotonic()
        self._watch()
        self.all_connections.enter(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._timer.cancel()
        self.all_connections.leave(self)
        super().connection_lost(exc)  # type: ignore[misc]

    def on_response_complete(self) -> None:
        self._since = time.monotonic()
        self.all_connections.put_last(self)
        super().on_response_complete()  # type: ignore[misc]

    @property
    def is_busy(self) -> bool:
        """Whether a request has come that is not answered yet."""
        return self.cycle is not None and not self.cycle.response_complete

    def _watch(self) -> None:
        """Closes the connection after its time; looks again until then."""
        limits = self.all_connections.limits
        limit = limits.max_request if self.is_busy else limits.max_silence
        left = max(self._since + limit - time.monotonic(), 0.0)
        self._timer: asyncio.TimerHandle = self.loop.call_later(
            min(left, limits.max_silence), self._watch
        )
        if not left:
            self.transport.abort()


def protocol_of(limits: ConnectionLimits) -> Any:
    """The class of uvicorn's connections that keeps these limits: its argument `http`."""
    protocol = import_extra("uvicorn.protocols.http.h11_impl", "web").H11Protocol
    shared = {"all_connections": Connections(limits)}
    return type("LimitedConnection", (LimitedConnection, protocol), shared)
