"""MCP: games as tools of an agent. `arena serve mcp` starts the server."""

from collections.abc import Callable
from functools import wraps
from importlib.metadata import version
from typing import Any

from arena_envs.checks import install_advice
from arena_wrappers.adapters import check_version

check_version("mcp", "mcp", "2.0", "3")

try:
    from mcp.server.mcpserver import MCPServer
    from mcp.server.mcpserver.exceptions import ToolError
except ModuleNotFoundError as error:
    raise ImportError(
        f"want mcp 2, got {version('mcp')}, which other packages such as openenv want; "
        f"{install_advice('mcp')}, in an environment without them"
    ) from error

from arena_wrappers.play import Lobby, NoReplyError, Opponents  # noqa: E402

Parameters = dict[str, int | float | bool | str]


def make_server(opponents: Opponents = "random", seed: int | None = None) -> MCPServer:
    """A server with the tools `list_games`, `new_game`, `observe` and `act`.

    An agent plays one seat of each game that it starts; `Lobby` says what it may name. An
    illegal action is an error of the tool, and the game stays as it is.

    Args:
        opponents: as for `Lobby`.
        seed: as for `Lobby`.
    """
    server, lobby = MCPServer("arena"), Lobby(opponents, seed)

    def tool(play: Callable[..., Any]) -> None:
        """Adds a tool, whose errors the agent reads."""

        @wraps(play)
        def checked(**arguments: Any) -> Any:
            try:
                return play(**arguments)
            except (ValueError, TypeError, ImportError, NoReplyError) as error:
                raise ToolError(str(error)) from error

        server.tool()(checked)

    @tool
    def list_games() -> list[str]:
        """The ids of all games."""
        return lobby.ids

    @tool
    def new_game(
        id: str, seat: int = 0, parameters: Parameters | None = None
    ) -> dict[str, Any]:
        """Start a game: its handle for the other tools, its rules, and what you see."""
        return lobby.start(id, seat, parameters)

    @tool
    def observe(game: str) -> dict[str, Any]:
        """What you see now, with your legal actions; at the end, your return."""
        return lobby.observe(game)

    @tool
    def act(game: str, action: str) -> dict[str, Any]:
        """Play the text of a legal action, then the opponents; returns what you see next."""
        return lobby.act(game, action)

    return server
