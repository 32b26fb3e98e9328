"""Requests: who may ask, and the answers."""

import asyncio
import hashlib
import hmac
import json
import secrets
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple
from weakref import WeakValueDictionary

from arena_envs.checks import JSON
from arena_envs.extras import import_extra
from arena_studio.web.games import listed, missing_note
from arena_studio.web.links import MAX_SEED, replayed, values_in
from arena_studio.web.pictures import picture_of
from arena_studio.web.rates import Limits, Rates
from arena_studio.web.refusal import Refused
from arena_studio.web.tables import SOON, GameTable, Tables

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

COOKIE = "arena_visitor"
COMPUTES = 5.0  # cost of a request that computes, such as the values of moves
NUM_COMPUTING = 2  # of them at once
LOOPBACK = ("localhost", "127.0.0.1", "::1")

HEADERS = {  # of every answer
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}

PICTURE_HEADERS = {  # of a picture: it styles itself, and runs nothing
    **HEADERS,
    "Content-Security-Policy": "default-src 'none'; style-src 'unsafe-inline'; sandbox",
    "Cache-Control": "private, max-age=86400",
}


class Picture(NamedTuple):
    """The text of an SVG file, as an answer."""

    svg: str


# what a request of a visitor does with its fields
Work = Callable[[str, dict[str, Any]], Any]


class Server:
    """Answers requests.

    Args:
        tables: the games.
        token: what a visitor must know; None lets everybody in, for loopback only.
        limits: what a visitor may ask.
        clock: seconds, of the rates.

    Requests that compute wait for each other without a thread, so that a request that only
    looks at a game finds one: `NUM_COMPUTING` compute at once, one of an address.
    """

    def __init__(
        self,
        tables: Tables,
        token: str | None,
        limits: Limits,
        clock: Callable[[], float],
    ) -> None:
        self.tables, self.token, self.limits = tables, token, limits
        self.rates = Rates(limits, clock)
        self.key = tables.secret.encode()
        self._computing = asyncio.Semaphore(NUM_COMPUTING)
        self._turns = WeakValueDictionary[str, asyncio.Lock]()  # by address

    def visitor(self, request: "Request") -> str:
        """The visitor of a request's cookie, which only this server can make."""
        id, _, mark = request.cookies.get(COOKIE, "").partition(".")
        if not id or not hmac.compare_digest(mark.encode(), self._mark(id).encode()):
            raise Refused(401, "Want a visit that has begun; load the page again.")
        return hashlib.sha256(id.encode()).hexdigest()

    def _mark(self, id: str) -> str:
        # a new token ends the visits that an old one has let in
        signed = f"{self.token or ''} {id}".encode()
        return hmac.new(self.key, signed, hashlib.sha256).hexdigest()

    def check_origin(self, request: "Request") -> None:
        """Refuses requests that another site's page has sent, and names that lead here."""
        host = request.headers.get("host", "")
        name = request.url.hostname or ""
        if self.token is None and name not in LOOPBACK:
            raise Refused(421, f"Want a name such as localhost, got {host!r:.80}.")
        site = request.headers.get("sec-fetch-site", "same-origin")
        if site not in ("same-origin", "none"):
            raise Refused(403, "Requests of other sites are refused.")
        if request.method != "POST":
            return
        origin = request.headers.get("origin")
        if origin != f"{request.url.scheme}://{host}":
            raise Refused(403, "Requests of other sites are refused.")
        kind = request.headers.get("content-type", "").partition(";")[0].strip()
        if kind != "application/json":
            raise Refused(415, "Want a body of type application/json.")

    async def body(self, request: "Request") -> dict[str, Any]:
        """The JSON object of a request, read up to the limit."""
        content = b""
        try:
            async with asyncio.timeout(self.limits.max_body_seconds):
                async for part in request.stream():
                    content += part
                    if len(content) > self.limits.max_body:
                        most = self.limits.max_body
                        raise Refused(413, f"Want at most {most} bytes.")
        except TimeoutError:
            raise Refused(408, "The request did not come to its end.") from None
        return _object(content)

    def enter(
        self, fields: dict[str, Any], address: str, is_secure: bool
    ) -> "Response":
        """Begins a visit, with the token where one is wanted."""
        self.rates.pay(f"address {address}", 10.0)
        token = _text(fields, "token", "")
        if self.token is not None and not hmac.compare_digest(
            token.encode(), self.token.encode()
        ):
            raise Refused(
                401, "Want the token of this server; open the link it printed."
            )
        id = secrets.token_urlsafe(24)
        answer = _answer({"entered": True})
        answer.set_cookie(
            COOKIE,
            f"{id}.{self._mark(id)}",
            max_age=90 * 86_400,
            httponly=True,
            samesite="strict",
            secure=is_secure,
            path="/",
        )
        return answer

    async def visit(self, request: "Request") -> "Response":
        """Whether a visit has begun, and whether beginning one takes the token; 200 in both cases."""
        address = request.client.host if request.client else "?"
        try:
            self.check_origin(request)
            self.rates.pay(f"address {address}", 1.0)
        except Refused as error:
            return _answer({"error": str(error)}, error.status)
        try:
            self.visitor(request)
        except Refused:
            return _answer({"entered": False, "token": self.token is not None})
        return _answer({"entered": True, "token": self.token is not None})

    async def answer(
        self, work: Work | None, cost: float, request: "Request"
    ) -> "Response":
        """Checks a request and does its work in a thread."""
        run = import_extra("starlette.concurrency", "web").run_in_threadpool
        address = request.client.host if request.client else "?"
        try:
            self.check_origin(request)
            fields = await self.body(request) if request.method == "POST" else {}
            if work is None:
                return self.enter(fields, address, request.url.scheme == "https")
            visitor = self.visitor(request)
            self.rates.pay(visitor, cost)
            fields = {**request.query_params, **fields, **request.path_params}
            if cost < COMPUTES:
                return _answer(await run(work, visitor, fields))
            turn = self._turns.setdefault(address, asyncio.Lock())
            async with turn, self._computing:
                return _answer(await run(work, visitor, fields))
        except Refused as error:
            return _answer({"error": str(error)}, error.status)

    def games(self, visitor: str, fields: dict[str, Any]) -> Any:
        return {"games": list(listed().values()), "missing": missing_note()}

    def opponents(self, visitor: str, fields: dict[str, Any]) -> Any:
        return {"opponents": self.tables.offered(_text(fields, "game"))}

    def open(self, visitor: str, fields: dict[str, Any]) -> Any:
        seats, seed = fields.get("seats"), fields.get("seed")
        if not isinstance(seats, list) or not all(isinstance(s, str) for s in seats):
            raise Refused(400, "Want seats as a list of texts.")
        if seed is not None and type(seed) is not int:
            raise Refused(400, f"Want a seed from 0 to {MAX_SEED - 1}, or none.")
        table = self.tables.open(_text(fields, "game"), seats, visitor, seed)
        if table.watcher is not None:
            return self.tables.watch(table, visitor, 0)
        return self.tables.view(table, visitor, SOON)

    def picture(self, visitor: str, fields: dict[str, Any]) -> Any:
        return Picture(picture_of(_text(fields, "game")))

    def watch(self, visitor: str, fields: dict[str, Any]) -> Any:
        return self.tables.watch(self.at(fields), visitor, _number(fields, "from"))

    def at(self, fields: dict[str, Any]) -> GameTable:
        """The table that a request names."""
        return self.tables.find(_text(fields, "id"))

    def view(self, visitor: str, fields: dict[str, Any]) -> Any:
        return self.tables.view(self.at(fields), visitor)

    def record(self, visitor: str, fields: dict[str, Any]) -> Any:
        return self.tables.record(self.at(fields), visitor)

    def replay(self, visitor: str, fields: dict[str, Any]) -> Any:
        return replayed(fields)

    def values(self, visitor: str, fields: dict[str, Any]) -> Any:
        return values_in(fields, _number(fields, "turn"))

    def reply(self, visitor: str, fields: dict[str, Any]) -> Any:
        text, turn = _text(fields, "text"), _number(fields, "turn")
        return self.tables.reply(self.at(fields), visitor, text, turn)

    def review(self, visitor: str, fields: dict[str, Any]) -> Any:
        return self.tables.review(self.at(fields), visitor, _number(fields, "turn"))

    def join(self, visitor: str, fields: dict[str, Any]) -> Any:
        table = self.at(fields)
        self.tables.join(table, visitor, _text(fields, "invite"))
        return self.tables.view(table, visitor)


def _object(content: bytes) -> dict[str, Any]:
    """The JSON object that a request holds."""
    try:
        fields = json.loads(content)
        json.dumps(
            fields, ensure_ascii=False
        ).encode()  # fails for half a surrogate pair
    except UnicodeError:
        raise Refused(400, "Want texts of whole Unicode characters.") from None
    except (ValueError, RecursionError):
        raise Refused(400, "Want JSON.") from None
    if not isinstance(fields, dict):
        raise Refused(400, "Want a JSON object.")
    return fields


def _text(fields: dict[str, Any], name: str, default: str | None = None) -> str:
    value = fields.get(name, default)
    if not isinstance(value, str):
        raise Refused(400, f"Want {name} as a text.")
    return value


def _number(fields: dict[str, Any], name: str) -> int:
    value = fields.get(name)
    if isinstance(value, str) and value.isdecimal() and value.isascii():
        value = int(value[:9])
    if type(value) is not int:
        raise Refused(400, f"Want {name} as an integer.")
    return value


def _answer(content: "JSON | Picture", status: int = 200) -> "Response":
    responses = import_extra("starlette.responses", "web")
    if isinstance(content, Picture):
        picture: Response = responses.Response(
            content.svg, status, PICTURE_HEADERS, media_type="image/svg+xml"
        )
        return picture
    text = json.dumps(content)  # ASCII, so that no text of a game fails to be encoded
    response: Response = responses.Response(
        text, status, HEADERS, media_type="application/json"
    )
    return response
