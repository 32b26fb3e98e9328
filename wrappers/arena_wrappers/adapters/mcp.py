"""MCP: games as tools of an agent. `arena serve mcp` starts the server."""

from collections.abc import Callable
from functools import wraps
from secrets import token_hex
from threading import Lock
from typing import Any

from arena_envs import game_infos
from arena_wrappers.adapters import check_version

check_version("mcp", "mcp", "2.0", "3")

from mcp.server.mcpserver import MCPServer  # noqa: E402  # after the check
from mcp.server.mcpserver.exceptions import ToolError  # noqa: E402

from arena_wrappers.play import NoReplyError, Opponents, SeatSession  # noqa: E402
from arena_wrappers.prompts import InvalidReply  # noqa: E402


class _Sessions(dict[str, SeatSession]):
    def __missing__(self, game: str) -> SeatSession:
        raise ValueError("there is no such game; start one with new_game")


def list_games() -> list[str]:
    """The ids of all games."""
    return [info.id for info in game_infos()]


def _tools_of(server: MCPServer) -> Callable[[Callable[..., Any]], None]:
    """A decorator that adds tools; they are called one by one, and the agent reads errors."""
    lock = Lock()

    def tool(play: Callable[..., Any]) -> None:
        @wraps(play)
        def one_by_one(**given: Any) -> Any:
            with lock:
                try:
                    return play(**given)
                except (ValueError, TypeError, ImportError, NoReplyError) as error:
                    raise ToolError(str(error)) from error

        server.tool()(one_by_one)

    return tool


def make_server(opponents: Opponents = "random") -> MCPServer:
    """A server with the tools `list_games`, `new_game`, `observe` and `act`.

    An agent plays one seat of each game that it starts. An illegal action is an error of the
    tool, and the game stays as it is. Of more than 1,000 games the oldest ends.
    """
    server, sessions = MCPServer("arena"), _Sessions()
    tool = _tools_of(server)
    tool(list_games)

    @tool
    def new_game(id: str, seat: int = 0, seed: int | None = None) -> dict[str, Any]:
        """Start a game: its handle for the other tools, its rules, and what you see."""
        bare = {"reply_format": "bare", "rules": False}
        (session := SeatSession(id, seat, opponents, prompt=bare)).reset(seed)
        if len(sessions) == 1000:
            del sessions[next(iter(sessions))]
        sessions[handle := token_hex(8)] = session
        return _seen(session, game=handle, rules=session.game.rules(seat))

    @tool
    def observe(game: str) -> dict[str, Any]:
        """What you see now, with your legal actions; at the end, your return."""
        return _seen(sessions[game])

    @tool
    def act(game: str, action: str) -> dict[str, Any]:
        """Play the text of a legal action, then the opponents; returns what you see next."""
        if (session := sessions[game]).done:
            raise ValueError("the game is over; start another with new_game")
        if isinstance(read := session.read(action), InvalidReply):
            raise ValueError(read.detail)
        return _seen(session, reward=session.step(action)[1])

    return server


def _seen(session: SeatSession, **told: Any) -> dict[str, Any]:
    text = session.prompt(session.seat)[-1]["content"]
    end = {"return": session.returns[session.seat]} if session.done else {}
    return {"text": text, "done": session.done, **told, **end}
