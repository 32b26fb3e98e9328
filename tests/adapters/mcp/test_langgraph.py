"""A LangGraph agent with a scripted chat model plays through `arena serve mcp`."""

import asyncio
import json
import runpy
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("mcp", reason="mcp is not installed: make adapters")
pytest.importorskip("langgraph", reason="langgraph is not installed: make adapters")
pytestmark = pytest.mark.filterwarnings("default")

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult

from arena_wrappers.play import Lobby

HERE = Path(__file__)
SERVER = runpy.run_path(str(HERE.with_name("example.py")))["SERVER"]
main = runpy.run_path(str(HERE.with_name("langgraph_agent.py")))["main"]


class Script(BaseChatModel):  # type: ignore[misc]
    """Starts a game, plays an action that no game has, then bets to the end."""

    _llm_type = "script"

    def bind_tools(self, tools: Any, **_: Any) -> "Script":
        assert [t.name for t in tools] == ["list_games", "new_game", "observe", "act"]
        return self

    def _generate(self, messages: Any, *_: Any, **__: Any) -> ChatResult:
        told = [m for m in messages if isinstance(m, ToolMessage)]
        seen = [json.loads(m.text) for m in told if m.text.startswith("{")]
        if not told:
            call = "new_game", {"id": "kuhn_poker"}
        elif seen[-1]["done"]:
            reply: BaseMessage = AIMessage(f"The return is {seen[-1]['return']}.")
            return ChatResult(generations=[ChatGeneration(message=reply)])
        else:
            action = "z9" if len(told) == 1 else "bet"
            call = "act", {"game": seen[0]["game"], "action": action}
        name, args = call
        calls = [{"name": name, "args": args, "id": str(len(told))}]
        reply = AIMessage("", tool_calls=calls)
        return ChatResult(generations=[ChatGeneration(message=reply)])


def test_an_agent_plays_a_whole_game_to_its_return(record_property) -> None:
    messages = asyncio.run(main(Script(), SERVER, "Play kuhn_poker."))
    told = [m for m in messages if isinstance(m, ToolMessage)]
    assert "Write `pass`" in told[1].text
    assert all(json.loads(m.text)["done"] is False for m in (told[0], *told[2:-1]))
    end = json.loads(told[-1].text)
    assert end["done"]
    assert messages[-1].text == f"The return is {end['return']}."
    lobby = Lobby(seed=0)  # as the server's
    here = lobby.start("kuhn_poker")
    handle = here["game"]
    while not here["done"]:
        here = lobby.act(handle, "bet")
    assert end["return"] == here["return"]
    record_property("learned", f"return of a LangGraph agent {end['return']:.0f}")
