"""The application of `arena serve web`: paths, files of the page."""

import time
from collections.abc import Callable
from functools import partial
from importlib.resources import files
from typing import TYPE_CHECKING

from arena_envs.extras import import_extra
from arena_envs.scenes.svg import TONES
from arena_studio.web.rates import DEFAULT_LIMITS, Limits
from arena_studio.web.server import HEADERS, Server, Work
from arena_studio.web.tables import Tables

if TYPE_CHECKING:
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import Response

FOLDER = files("arena_studio.web")

ASSETS = {  # files of the page by path, each with its type
    "/": ("index.html", "text/html"),
    "/app.js": ("app.js", "text/javascript"),
    "/style.css": ("style.css", "text/css"),
}


def make_app(
    tables: Tables,
    token: str | None = None,
    limits: Limits = DEFAULT_LIMITS,
    clock: Callable[[], float] = time.monotonic,
) -> "Starlette":
    """The Starlette application.

    Args:
        tables: the games.
        token: what a visitor must know. None lets everybody in who asks for `localhost`.
        limits: what a visitor may ask.
        clock: seconds, of the rates.

    Raises:
        ModuleNotFoundError: the extra `web` is not installed.
    """
    routing = import_extra("starlette.routing", "web")
    server = Server(tables, token, limits, clock)
    table = "/api/tables/{id}"
    requests: list[tuple[str, str, Work | None, float]] = [
        ("POST", "/api/visit", None, 1.0),
        ("GET", "/api/games", server.games, 1.0),
        ("GET", "/pictures/{game}.svg", server.picture, 1.0),
        ("GET", "/api/games/{game}", server.opponents, 5.0),
        ("POST", "/api/tables", server.open, 10.0),
        ("GET", table, server.view, 1.0),
        ("GET", f"{table}/watch", server.watch, 1.0),
        ("POST", f"{table}/join", server.join, 5.0),
        ("POST", f"{table}/reply", server.reply, 1.0),
        ("GET", f"{table}/review", server.review, 5.0),
        ("GET", f"{table}/record", server.record, 5.0),
        ("POST", "/api/replay", server.replay, 5.0),
        ("POST", "/api/values", server.values, 5.0),
    ]
    routes = [
        routing.Route(path, partial(server.answer, work, cost), methods=[method])
        for method, path, work, cost in requests
    ]
    routes.append(routing.Route("/api/visit", server.visit, methods=["GET"]))
    for path, (name, media_type) in ASSETS.items():
        routes.append(routing.Route(path, partial(_asset, name, media_type)))
    applications = import_extra("starlette.applications", "web")
    app: Starlette = applications.Starlette(routes=routes)
    return app


async def _asset(name: str, media_type: str, request: "Request") -> "Response":
    """A file of the page."""
    responses = import_extra("starlette.responses", "web")
    text = style() if name == "style.css" else FOLDER.joinpath(name).read_text()
    response: Response = responses.Response(
        text, media_type=media_type, headers=HEADERS
    )
    return response


def style() -> str:
    """The style sheet of the page, with the colors of pictures."""
    return FOLDER.joinpath("style.css").read_text() + "".join(
        f".t-{tone}{{background:{fill};color:{ink}}}"
        for tone, (fill, ink) in TONES.items()
    )
