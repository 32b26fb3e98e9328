"""Clients of the official SDK play games by tools."""

import asyncio
import importlib
import runpy
import sys
from pathlib import Path

import pytest

pytest.importorskip("mcp", reason="mcp is not installed: make adapters")
pytestmark = pytest.mark.filterwarnings("default")

from mcp import Client

import arena_envs
from arena_wrappers import Reply
from arena_wrappers.adapters.mcp import make_server

main = runpy.run_path(str(Path(__file__).with_name("example.py")))["main"]


def told(server, *calls):
    """What calls return, or the text of an error."""

    async def work():
        found, game = [], None
        async with Client(server) as client:
            for tool, arguments in calls:
                if tool in ("observe", "act"):
                    arguments = {"game": game, **arguments}
                result = await client.call_tool(tool, arguments)
                seen = result.structured_content
                game = seen["game"] if seen and tool == "new_game" else game
                found.append(result.content[0].text if result.is_error else seen)
        return found

    return asyncio.run(work())


def test_an_agent_plays_over_stdin_and_stdout(record_property) -> None:
    here = asyncio.run(main(make_server(seed=0)))
    assert asyncio.run(main()) == here
    record_property("learned", f"mean return of always betting {here:.2f}")


def test_another_version_of_mcp_is_named(monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "mcp.server.mcpserver", None)
    monkeypatch.delitem(sys.modules, "arena_wrappers.adapters.mcp")
    with pytest.raises(ImportError, match="want mcp 2, got"):
        importlib.import_module("arena_wrappers.adapters.mcp")


def test_games_are_listed() -> None:
    (games,) = told(make_server(), ("list_games", {}))
    assert games["result"] == [info.id for info in arena_envs.game_infos()]


def test_an_illegal_action_is_an_error_that_changes_nothing() -> None:
    new, before, error, after = told(
        make_server(),
        ("new_game", {"id": "tic_tac_toe"}),
        *[("observe", {}), ("act", {"action": "z9"}), ("observe", {})],
    )
    assert "tic-tac-toe" in new["rules"].lower()
    assert "Write `a1`" in error
    assert before == after
    assert not after["done"]


class Lost:
    """An endpoint that gives no reply."""

    name = "lost"

    def act(self, requests):
        return [Reply("", error="connection cut") for _ in requests]


@pytest.mark.parametrize(
    ("call", "reason"),
    [
        (("new_game", {"id": "kuhn_pokr"}), "did you mean"),
        (("new_game", {"id": "os:system(kuhn_poker, command='id')"}), "unknown game"),
        (("new_game", {"id": "kuhn_poker", "seat": 2}), "want seat from 0 to 1"),
        (
            ("new_game", {"id": "kuhn_poker", "parameters": {"num_players": 10**8}}),
            "a number from -100 to 100",
        ),
        (("new_game", {"id": "kuhn_poker", "seat": 1}), "connection cut"),
        (("observe", {}), "start one with new_game"),
    ],
)
def test_bad_calls_are_errors_with_the_reason(call, reason) -> None:
    tool, arguments = call
    given = {"game": "none", **arguments} if tool == "observe" else arguments
    (error,) = told(make_server(Lost()), (tool, given))
    assert reason in error


def test_a_game_that_is_over_says_so() -> None:
    *_, end, error = told(
        make_server("first"),
        ("new_game", {"id": "kuhn_poker"}),
        *[("act", {"action": "bet"})] * 2,
    )
    assert end["done"]
    assert end["return"] == end["reward"]
    assert "the game is over" in error
