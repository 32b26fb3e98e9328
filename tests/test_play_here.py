"""What answers the site's page `play/`, beside the session that the server uses."""

import random
import runpy
import subprocess
import sys
from pathlib import Path
from typing import Any
from zipfile import ZipFile

import pytest

import play_here
from arena_envs import game_infos, make_game
from arena_studio.web import links, views
from arena_wrappers import SeatSession, make_policy
from build_play import kept_values, pack


def rivals(game: Any, id: str) -> list[str]:
    name = game.heuristic if id != "sokoban-v0" else None
    return [name or "random"] * (game.num_players - 1)


PROMPT = {"reply_format": "bare"}
LISTED = runpy.run_path(str(Path(__file__).with_name("representative.py")))
SHORT = {id for id, _ in LISTED["REPRESENTATIVE"].values()} | {"limit_holdem-v0"}


@pytest.mark.parametrize(
    "every_game",
    [
        id if id in SHORT else pytest.param(id, marks=pytest.mark.slow)
        for id in (info.id for info in game_infos())
    ],
)
def test_a_game_is_played_as_by_a_seat_session(every_game: str) -> None:
    game, rng = make_game(every_game), random.Random(1)
    others = rivals(game, every_game)
    server = SeatSession(every_game, 0, others, prompt=PROMPT, name="person")
    server.reset(seed=5)
    players = [None, *map(make_policy, others)]
    here = play_here.Session(every_game, players, seed=5)
    here.go_on()
    for _ in range(6):
        assert views.seat_view(here, 0) == views.seat_view(server, 0)
        if here.done:
            break
        reply = rng.choice(here.info()["legal"])
        server.step(reply)
        here.step(reply)
        here.go_on()
    assert views.frames(here) == views.frames(server)


@pytest.fixture
def tables() -> play_here.Tables:
    offers = {"kuhn_poker-v0": ["cfr"], "tic_tac_toe-v0": ["minimax"]}
    return play_here.Tables(
        {
            "games": [{"id": id, "title": id, "players": 2} for id in offers],
            "opponents": offers,
            "values": {"kuhn_poker-v0": kept_values("kuhn_poker-v0")},
        }
    )


def opened(tables: play_here.Tables, game: str, *seats: str) -> dict[str, Any]:
    return tables.answer("/api/tables", {"game": game, "seats": seats, "seed": 7})


def test_the_kept_equilibrium_plays_and_judges_as_the_solver(tables) -> None:
    view = opened(tables, "kuhn_poker-v0", "cfr", "person")
    server = SeatSession("kuhn_poker-v0", 1, "cfr", prompt=PROMPT, name="person")
    server.reset(seed=7)
    assert view["text"] == server.game.observe(server.state, 1)
    server.step("bet")
    path = f"/api/tables/{view['table']}"
    view = tables.answer(f"{path}/reply", {"text": "bet", "turn": view["turn"]})
    assert view["text"] == server.game.observe(server.state, 1)
    number = view["own_turns"][0]
    found = tables.answer(f"{path}/review?turn={number}", {})
    expected = links.solved(server.game, server.turns[number], number)
    assert found == expected


def test_a_table_goes_on_after_a_reload(tables) -> None:
    view = opened(tables, "tic_tac_toe-v0", "person", "minimax")
    path = f"/api/tables/{view['table']}"
    view = tables.answer(f"{path}/reply", {"text": "b2", "turn": 0})
    again = play_here.Tables(
        {"games": tables._games, "opponents": tables._offered, "values": {}}
    )
    with pytest.raises(play_here.Refused, match="no such table"):
        again.answer(path, {})
    assert again.answer(path, {"saved": view["saved"]}) == view


@pytest.mark.parametrize(
    ("change", "wanted"),
    [
        ({"game": "no_game-v0"}, "There is no game"),
        ({"seed": -1}, "no record"),
        ({"replies": [1]}, "no record"),
        ({"replies": ["b2", "b2"]}, "Write `a1`"),
        ({"replies": [f"{c}{r}" for c in "abc" for r in "123"]}, "ended"),
    ],
)
def test_a_record_of_anybody_is_refused_with_a_reason(tables, change, wanted) -> None:
    record = {"game": "tic_tac_toe-v0", "seed": 0, "replies": ["b2"], **change}
    with pytest.raises(play_here.Refused, match=wanted):
        tables.answer("/api/replay", record)


def test_policies_play_a_turn_for_each_look(tables) -> None:
    view = opened(tables, "tic_tac_toe-v0", "minimax", "minimax")
    path, turns = f"/api/tables/{view['table']}", [*view["turns"]]
    while not view["done"]:
        view = tables.answer(f"{path}/watch?from={len(turns)}", {})
        turns += view["turns"]
        assert len(view["turns"]) == 1
    assert tables.answer(f"{path}/record", {})["replies"] == [
        turn["reply"] for turn in turns
    ]


def test_what_the_page_packs_is_all_that_it_imports(tmp_path) -> None:
    pack(tmp_path / "arena.zip")
    with ZipFile(tmp_path / "arena.zip") as packed:
        packed.extractall(tmp_path)
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); import play_here"
    alone = [sys.executable, "-I", "-S", "-c", code]  # as Pyodide: no other package
    done = subprocess.run(alone, capture_output=True, text=True, check=False)
    assert done.stderr == ""
