"""MCP: games as tools of an agent. `arena serve mcp` starts the server."""

from collections.abc import Callable
from functools import wraps
from secrets import token_hex
from threading import Lock
from typing import Any

import arena_envs
from arena_wrappers.adapters import check_version

check_version("mcp", "mcp", "2.0", "3")

from mcp.server.mcpserver import MCPServer  # noqa: E402  # after the check
from mcp.server.mcpserver.exceptions import ToolError  # noqa: E402

from arena_wrappers.play import NoReplyError, Opponents, SeatSession  # noqa: E402
from arena_wrappers.prompts import InvalidReply  # noqa: E402


def make_server(opponents: Opponents = "random") -> MCPServer:
    """A server with the tools `list_games`, `new_game`, `observe` and `act`.

    An agent plays one seat of each game that it starts, against `opponents`, as for
    `SeatSession`. An illegal action is an error of the tool, and the game stays as it is. Calls
    are carried out one by one. Of more than 1,000 games the oldest end.
    """
    server, sessions, lock = MCPServer("arena"), dict[str, SeatSession](), Lock()

    def tool(play: Callable[..., Any]) -> None:
        @wraps(play)
        def guarded(**given: Any) -> Any:
            with lock:
                if "game" in given and given["game"] not in sessions:
                    raise ToolError("there is no such game; start one with new_game")
                try:
                    return play(**given)
                except (ValueError, TypeError, ImportError, NoReplyError) as error:
                    raise ToolError(str(error)) from error

        server.tool()(guarded)

    @tool
    def list_games() -> list[str]:
        """The ids of all games."""
        return [info.id for info in arena_envs.game_infos()]

    @tool
    def new_game(id: str, seat: int = 0, seed: int | None = None) -> dict[str, Any]:
        """Start a game: its handle for the other tools, its rules, and what you see."""
        prompt = {"reply_format": "bare", "rules": False}
        session = SeatSession(id, seat, opponents, prompt=prompt)
        session.reset(seed)
        for oldest in list(sessions)[:-999]:
            del sessions[oldest]
        sessions[game := token_hex(8)] = session
        return {"game": game, "rules": session.game.rules(seat), **observe(game)}

    def observe(game: str) -> dict[str, Any]:
        """What you see now, with your legal actions; at the end, your return."""
        session = sessions[game]
        text, paid = session.prompt(session.seat)[-1]["content"], session.returns
        end = {"return": paid[session.seat]} if session.done else {}
        return {"text": text, "done": session.done, **end}

    tool(observe)

    @tool
    def act(game: str, action: str) -> dict[str, Any]:
        """Play the text of a legal action, then the opponents; returns what you see next."""
        session = sessions[game]
        if session.done:
            raise ValueError("the game is over; start another with new_game")
        if isinstance(read := session.read(action), InvalidReply):
            raise ValueError(read.detail)
        return {"reward": session.step(action)[1], **observe(game)}

    return server
