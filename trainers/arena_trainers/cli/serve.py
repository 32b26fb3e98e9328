"""The commands that start servers: `arena serve mcp`, `openenv`, `policy` and `web`."""

import errno
import json
import os
import secrets
import shlex
import socket
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from arena_envs import extras
from arena_trainers.cli.options import (
    AgainstOption,
    GameArgument,
    HostOption,
    MaxTurnsOption,
    ParamOption,
    PortOption,
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
            _check_free(host, port)
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
    reply_format: Annotated[
        str, typer.Option(help="answer, boxed, bracket or bare.")
    ] = "answer",
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


def policy(
    model: Annotated[str, typer.Argument(metavar="MODEL")],
    options: Annotated[list[str] | None, typer.Argument(metavar="-- OPTION")] = None,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8000,
    lora_r: Annotated[
        int, typer.Option(help="Largest rank of adapters that training sends; 0: none.")
    ] = 0,
    start: Annotated[
        bool, typer.Option("--start", help="Start the server instead.")
    ] = False,
) -> None:
    """Print the command of a vLLM server that generates for training.

    MODEL is a run, a folder with a model or adapter, or an id of the Hugging Face hub. Give
    vLLM's own options after --. Training with the server:

    arena train --model MODEL --use_vllm true --vllm_mode server
    --vllm_server_base_url http://127.0.0.1:8000

    For example:

    arena serve policy Qwen/Qwen3-0.6B --lora-r 16 --start -- --max-model-len 4096
    """
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
