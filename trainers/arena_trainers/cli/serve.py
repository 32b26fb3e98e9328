"""The commands that serve games: `arena serve mcp`, `openenv` and `web`."""

import os
import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote

import typer

from arena_envs import extras
from arena_trainers.cli.arguments import read_params
from arena_trainers.cli.errors import usage_errors
from arena_trainers.cli.options import (
    AgainstOption,
    GameArgument,
    HostOption,
    MaxTurnsOption,
    ParamOption,
    PolicyOptions,
    PortOption,
    PromptOption,
)
from arena_trainers.cli.ports import check_free


def mcp(
    against: AgainstOption = None,
    host: HostOption = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(help="Port to listen at; without it, stdin and stdout."),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            help="Seed of the deals that the server draws; others in each start without it."
        ),
    ] = None,
) -> None:
    """Serve all games to agents as tools of MCP.

    An agent lists games, starts one, observes and acts, against --against (default random). It
    names games of the list, with numbers, truth values and short texts as parameters, and a seat.

    For example, as the command of a client: arena serve mcp --against cfr
    """
    with usage_errors():
        extras.require(["mcp"], "mcp")
        from arena_wrappers.adapters.mcp import make_server

        server = make_server(_opponents(against), seed)
        if port is not None:
            check_free(host, port)
    if port is None:
        server.run()
    else:
        import uvicorn

        app = server.streamable_http_app(host=host)
        uvicorn.run(app, host=host, port=port, log_level="warning", use_colors=False)


def openenv(
    game: GameArgument,
    seat: Annotated[
        str, typer.Option(help="The client's seat: a number, random or all.")
    ] = "all",
    against: AgainstOption = None,
    prompt: PromptOption = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    sessions: Annotated[
        int, typer.Option(help="Largest number of sessions at once.", min=1)
    ] = 64,
    timeout: Annotated[
        float, typer.Option(help="Seconds after which a silent client's session ends.")
    ] = 3600.0,
    params: ParamOption = None,
    max_turns: MaxTurnsOption = None,
    export: Annotated[
        Path | None,
        typer.Option(
            metavar="DIR",
            help="Write a folder for openenv push, a Space of Hugging Face, and stop.",
        ),
    ] = None,
) -> None:
    """Serve a game to OpenEnv's clients, with a page for people at /web.

    The client plays all seats in turn, or one seat against --against (default random): one
    policy for all other seats, or one for each; all sessions share them. Serve a model with
    arena serve policy, and name it vllm:URL here.

    For example:

    arena serve openenv kuhn_poker --seat random --against cfr

    In Python: openenv.core.GenericEnvClient(base_url="http://127.0.0.1:8000").sync()
    """
    with usage_errors():
        if not timeout > 0:
            raise ValueError(f"want --timeout above 0, got {timeout}")
        if against and seat == "all":
            raise ValueError("want --against only with --seat, which the client plays")
        options = PolicyOptions.read(prompt, None)
        if export is None:
            check_free(host, port)
        app = _openenv_app(
            folder=export,
            game=game,
            seat=_client_seat(seat),
            opponents=_opponents(against),
            prompt={**options.prompt, **options.invalid},
            params={"max_turns": max_turns, **read_params(params)},
            sessions=sessions,
            timeout=timeout,
        )
    if app is None:
        typer.echo(f"wrote {export}; next: openenv push {export}")
        return
    typer.echo(f"{game} at http://{host}:{port}, for people at /web; Ctrl-C stops")
    import uvicorn

    uvicorn.run(app, host=host, port=port, log_level="warning", use_colors=False)


def _client_seat(seat: str) -> int | str | None:
    """The client's seat: a number, "random", or None for all of them."""
    if seat == "all":
        return None
    return int(seat) if seat.isdecimal() else seat


def _openenv_app(
    *,
    folder: Path | None,
    game: str,
    seat: int | str | None,
    opponents: str | list[str],
    prompt: Mapping[str, Any],
    params: Mapping[str, Any],
    sessions: int,
    timeout: float,
) -> Any:
    """The application; None after an export to a folder."""
    extras.require(["openenv"], "openenv")
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # no telemetry
    from arena_wrappers.adapters.openenv import environment_maker, export, make_app

    if folder is None:
        maker = environment_maker(
            game,
            seat,  # type: ignore[arg-type]  # checked there
            opponents,
            prompt,
            **params,
        )
        return make_app(maker, sessions, timeout)
    export(
        folder,
        game,
        seat,
        opponents,
        prompt,
        sessions=sessions,
        timeout=timeout,
        **params,
    )
    return None


def _opponents(against: list[str] | None) -> str | list[str]:
    """One policy for all other seats, or one for each."""
    specs = against or ["random"]
    return specs[0] if len(specs) == 1 else specs


def web(
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against",
            "-a",
            metavar="POLICY",
            help="A policy that every game offers as opponent; repeatable.",
        ),
    ] = None,
    file: Annotated[
        Path, typer.Option(help="SQLite file that keeps the games.")
    ] = Path("arena-web.sqlite"),
    host: Annotated[
        str,
        typer.Option(help="Address to listen at; beyond this machine with a token."),
    ] = "127.0.0.1",
    port: PortOption = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            help="What visitors must know; drawn if it is needed and not given."
        ),
    ] = None,
    tables: Annotated[
        int, typer.Option(help="Largest number of games that are kept.", min=1)
    ] = 10_000,
) -> None:
    """Play any game in a browser, alone or with others by link.

    Each game offers its own bots; add others, such as a trained model, with --against. Games
    outlive the server. After a move the page shows its regret and the equilibrium's mix, where
    the game can be solved; after a game a replay with credit, and a link to it.

    For example:

    arena serve web --against lm:runs/first/model
    """
    serve_pages(
        against=against or [],
        file=file,
        host=host,
        port=port,
        token=token,
        max_tables=tables,
    )


def serve_pages(
    *,
    against: Sequence[str],
    file: Path,
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    max_tables: int = 10_000,
    game: str = "",
) -> None:
    """Serves the web page until Ctrl-C.

    The printed link opens at a game, if one is named, with the first of `against` as opponent.
    """
    with usage_errors():
        check_free(host, port)
        extras.require(["starlette", "uvicorn"], "web")
        import uvicorn

        from arena_studio.web import (
            LOOPBACK,
            ConnectionLimits,
            Tables,
            listed,
            make_app,
            protocol_of,
        )

        if game and game not in listed():
            raise ValueError(
                f"want a game of the web page, got {game!r:.80}; arena games lists them"
            )
        token = _token_of(token, is_required=host not in LOOPBACK)
        game_tables = Tables(file, against, max_tables)
        app = make_app(game_tables, token)
    url_host = f"[{host}]" if ":" in host else host
    place = f"#token={token}" if token else f"#game={game}" if game else ""
    if place and game and against:
        place += f"&against={quote(against[0], safe='')}"
    typer.echo(
        f"play at http://{url_host}:{port}/{place}; games are kept in {file}; Ctrl-C stops"
    )
    http: Any = protocol_of(ConnectionLimits())
    uvicorn.run(
        app,
        host=host,
        port=port,
        http=http,
        log_level="warning",
        use_colors=False,
    )
    game_tables.close()


def _token_of(token: str | None, is_required: bool) -> str | None:
    """The token, or one that is drawn if it is wanted and not given."""
    if token is None:
        return secrets.token_urlsafe(16) if is_required else None
    if len(token) < 8:
        raise ValueError(
            f"want --token of at least 8 characters, got {len(token)}; give a longer one, or "
            "leave it out to have one drawn"
        )
    return token
