"""The commands that start servers: `arena serve mcp`, `openenv`, `policy` and `web`."""

import errno
import json
import os
import secrets
import shlex
import socket
import sys
from pathlib import Path
from typing import Any

import typer

from arena_envs import extras
from arena_trainers.cli.options import (
    as_command,
    read_params,
    usage_errors,
)
from arena_trainers.lm import smollm2
from arena_trainers.lm.backends.vllm import RANKS, engine_rank
from arena_trainers.lm.models import ADAPTER, adapter_base, find_model, model_folder


def add_serve(app: typer.Typer) -> None:
    """Adds the commands to the `arena` command."""
    serve = typer.Typer(
        no_args_is_help=True, help="Play in a browser; serve games or models."
    )
    serve.command("mcp")(mcp)
    serve.command("openenv")(openenv)
    serve.command("policy")(policy)
    serve.command("web")(web)
    app.add_typer(serve, name="serve")


@as_command
def mcp(
    against: list[str] | None = None,
    host: str = "127.0.0.1",
    port: int | None = None,
    seed: int | None = None,
) -> None:
    """Serve all games to agents as tools of MCP."""
    with usage_errors():
        extras.require(["mcp"], "mcp")
        from arena_wrappers.adapters.mcp import make_server

        server = make_server(_opponents(against), seed)
        if port is not None:
            _check_free(host, port)
    if port is None:
        server.run()
    else:
        import uvicorn

        app = server.streamable_http_app(host=host)
        uvicorn.run(app, host=host, port=port, log_level="warning", use_colors=False)


@as_command
def openenv(
    game: str,
    seat: str = "all",
    against: list[str] | None = None,
    reply_format: str = "answer",
    host: str = "127.0.0.1",
    port: int = 8000,
    sessions: int = 64,
    timeout: float = 3600.0,
    params: list[str] | None = None,
    max_turns: int | None = None,
    export: Path | None = None,
) -> None:
    """Serve a game to OpenEnv's clients, with a page for people at /web."""
    with usage_errors():
        if not timeout > 0:
            raise ValueError(f"want --timeout above 0, got {timeout}")
        if against and seat == "all":
            raise ValueError("want --against only with --seat, which the client plays")
        if export is None:
            _check_free(host, port)
        options = {"max_turns": max_turns, **read_params(params)}
        own: Any = None if seat == "all" else int(seat) if seat.isdecimal() else seat
        given = (game, own, _opponents(against), reply_format)
        app = _openenv_app(export, given, options, sessions, timeout)
    if app is None:
        typer.echo(f"wrote {export}; next: openenv push {export}")
        return
    typer.echo(f"{game} at http://{host}:{port}, for people at /web; Ctrl-C stops")
    import uvicorn

    uvicorn.run(app, host=host, port=port, log_level="warning", use_colors=False)


def _openenv_app(
    folder: Path | None, given: Any, options: Any, sessions: int, timeout: float
) -> Any:
    """The application; None after an export to a folder."""
    extras.require(["openenv"], "openenv")
    os.environ.setdefault("GRADIO_ANALYTICS_ENABLED", "False")  # no telemetry
    from arena_wrappers.adapters.openenv import environment_maker, export, make_app

    if folder is None:
        return make_app(environment_maker(*given, **options), sessions, timeout)
    export(folder, *given, sessions=sessions, timeout=timeout, **options)
    return None


def _opponents(against: list[str] | None) -> str | list[str]:
    """One policy for all other seats, or one for each."""
    named = against or ["random"]
    return named[0] if len(named) == 1 else named


@as_command
def web(
    against: list[str] | None = None,
    file: Path = Path("arena-web.sqlite"),
    host: str = "127.0.0.1",
    port: int = 8000,
    token: str | None = None,
    tables: int = 10_000,
) -> None:
    """Play any game in a browser, alone or with others by link."""
    with usage_errors():
        _check_free(host, port)
        extras.require(["starlette", "uvicorn"], "web")
        import uvicorn

        from arena_studio.web import (
            LOOPBACK,
            ConnectionLimits,
            Tables,
            make_app,
            protocol_of,
        )

        token = _checked_token(token, is_wanted=host not in LOOPBACK)
        kept = Tables(file, against or [], tables)
        app = make_app(kept, token)
    named = f"[{host}]" if ":" in host else host
    link = f"http://{named}:{port}/" + (f"#token={token}" if token else "")
    typer.echo(f"play at {link}; games are kept in {file}; Ctrl-C stops")
    how: Any = {"log_level": "warning", "use_colors": False}
    uvicorn.run(app, host=host, port=port, http=protocol_of(ConnectionLimits()), **how)
    kept.close()


def _checked_token(token: str | None, is_wanted: bool) -> str | None:
    """The token, or one that is drawn if it is wanted and not given."""
    if token is None:
        return secrets.token_urlsafe(16) if is_wanted else None
    if len(token) < 8:
        told = f"want --token of at least 8 characters, got {len(token)}"
        raise ValueError(
            f"{told}; give a longer one, or leave it out to have one drawn"
        )
    return token


@as_command
def policy(
    model: str,
    options: list[str] | None = None,
    host: str = "127.0.0.1",
    port: int = 8000,
    lora_r: int = 0,
    start: bool = False,
) -> None:
    """Print the command of a vLLM server that generates for training."""
    with usage_errors():
        _check_port(port)
        if start:
            extras.require(["vllm"], "vllm")
        variables, command = server_command(model, lora_r, asks_hub=start)
        served = command[command.index("--model") + 1]
        command += ["--host", host, "--port", str(port), *(options or [])]
    if start:
        os.execve(sys.executable, [sys.executable, *command], os.environ | variables)
    assigned = [f"{name}={value}" for name, value in variables.items()]
    typer.echo(" ".join([*assigned, "python", shlex.join(command)]))
    if not Path(served).is_dir():
        typer.echo(
            f"note: {served} is not on this machine, so its config was not read; vLLM "
            "downloads it when the server starts",
            err=True,
        )


def _check_port(port: int) -> None:
    if not 0 < port < 2**16:
        raise ValueError(f"want --port from 1 to 65535, got {port}")


def _check_free(host: str, port: int) -> None:
    """Listens at the address for a moment, as the server will."""
    _check_port(port)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        socket.create_server((host, port), family=family).close()
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise ValueError(f"port {port} is in use; give another --port") from error
        raise ValueError(
            f"cannot listen at {host}, port {port}: {error.strerror}; give another "
            "--host or --port"
        ) from error


def server_command(
    model: str, lora_r: int = 0, asks_hub: bool = True
) -> tuple[dict[str, str], list[str]]:
    """Environment variables and the arguments of Python, without host and port.

    Args:
        model: a run, a folder with a model or adapter, or an id of the hub.
        lora_r: largest rank of adapters that training sends; 0 for none.
        asks_hub: whether to ask the hub if it has a model that is not on this machine.

    Raises:
        ValueError: there is no such model, or vLLM takes no such rank.
    """
    if not 0 <= lora_r <= RANKS[-1]:
        raise ValueError(f"want --lora-r from 0 to {RANKS[-1]}, got {lora_r}")
    name = str(Path(model, "model")) if Path(model, "model").is_dir() else model
    base = adapter_base(name)
    whole = base or name
    if whole == smollm2.NAME:
        folder: Path | None = model_folder(whole)
    else:
        folder = find_model(whole, asks_hub)
    command = ["-m", "vllm.entrypoints.openai.api_server"]
    command += ["--model", whole if folder is None else str(folder.absolute())]
    # the log-probabilities that training reads; no sampling defaults of the model's folder
    command += ["--logprobs-mode", "processed_logprobs", "--generation-config", "vllm"]
    # with which training compares the weights
    command += ["--worker-extension-cls", "arena_trainers.lm.backends.vllm.WeightSums"]
    variables = {"VLLM_SERVER_DEV_MODE": "1"}  # allows to change weights
    if lora_r:
        variables["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "1"
    if base is not None:
        adapter = Path(name).absolute()
        command += ["--lora-modules", f"{adapter}={adapter}"]
        saved = json.loads((adapter / ADAPTER).read_text(encoding="utf-8"))
        lora_r = max(lora_r, saved["r"])
    if lora_r:
        command += ["--enable-lora", "--max-lora-rank", str(engine_rank(lora_r))]
    return variables, command
