"""`arena serve web`: who sees and does what, limits, restarts, bad clients."""

import hashlib
import json
import random
import sys
import threading
import time
import warnings

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: extra web")

with warnings.catch_warnings():  # anyio of some versions warns when it is imported
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

import arena_envs
from arena_studio.web import PERSON, Limits, Refused, Tables, listed, make_app
from arena_wrappers import RandomPolicy, Reply

FREE = Limits(rate=1e9, burst=1e9)
HOME = "http://localhost"
OPEN = ("tic_tac_toe", "bargaining")
HIDDEN = ("leduc_poker", "goofspiel", "mini_hanabi", "negotiation")


@pytest.fixture
def tables(tmp_path):
    kept = Tables(tmp_path / "games.sqlite")
    yield kept
    kept.close()


def visitor(app, base=HOME, token=None, **headers) -> TestClient:
    """A browser that has begun a visit."""
    client = TestClient(app, base_url=base, headers={"Origin": base, **headers})
    given = {} if token is None else {"token": token}
    assert client.post("/api/visit", json=given).status_code == 200
    return client


@pytest.fixture
def server(tables):
    return make_app(tables, limits=FREE)


def latest(name: str) -> str:
    """The id of a game in its latest version."""
    return max(i.id for i in arena_envs.game_infos() if i.id.startswith(f"{name}-v"))


def begin(client, game="kuhn_poker", others=("random",), seed=None, first=0):
    seats = list(others)
    seats.insert(first, PERSON)
    asked = {"game": latest(game), "seats": seats, "seed": seed}
    answer = client.post("/api/tables", json=asked)
    assert answer.status_code == 200, answer.text
    return settled(client, answer.json())


def settled(client, view):
    """The view after the opponents' turns."""
    while view["thinks"]:
        time.sleep(0.01)
        view = client.get(f"/api/tables/{view['table']}").json()
    return view


def say(client, view, text=None):
    given = {"text": view["legal"][0] if text is None else text, "turn": view["turn"]}
    return client.post(f"/api/tables/{view['table']}/reply", json=given)


def played(client, view):
    """The view at the end of a game of the first legal actions."""
    while not view["done"]:
        view = settled(client, say(client, view).json())
    return view


def two_people(server, game="kuhn_poker"):
    """Two browsers at a table, with their views."""
    one, two = visitor(server), visitor(server)
    view = begin(one, game, (PERSON,))
    invite = view["invites"][1]
    other = two.post(f"/api/tables/{view['table']}/join", json={"invite": invite})
    return one, two, view, other.json()


@pytest.mark.parametrize("id", [*OPEN, *HIDDEN])
def test_a_game_is_played_and_its_link_replays_it(server, id) -> None:
    client = visitor(server)
    num_others = arena_envs.make_game(id).num_players - 1
    end = played(client, begin(client, id, ["random"] * num_others))
    record = client.get(f"/api/tables/{end['table']}/record").json()
    again = client.post("/api/replay", json=record).json()
    assert again["done"]
    assert again["returns"] == end["returns"]
    assert len(again["turns"]) == len(record["replies"]) == end["turn"]


def test_policies_play_on_while_their_maker_watches(server) -> None:
    client, stranger = visitor(server), visitor(server)
    seats = ["random", "minimax"]
    asked = {"game": latest("tic_tac_toe"), "seats": seats}
    view = client.post("/api/tables", json=asked).json()
    path = f"/api/tables/{view['table']}"
    turns = view["turns"]
    while not view["done"]:
        view = client.get(f"{path}/watch?from={len(turns)}").json()
        assert len(view["turns"]) <= 1  # none is played before it is asked for
        turns += view["turns"]
    assert [turn["seat"] for turn in turns] == [i % 2 for i in range(len(turns))]
    assert client.get(f"{path}/record").json()["seats"] == seats
    for other in (f"{path}/watch?from=0", path, f"{path}/record"):
        assert stranger.get(other).status_code == 403


def test_a_first_visit_is_refused_nothing(server) -> None:
    client = TestClient(server, base_url=HOME, headers={"Origin": HOME})
    assert client.get("/api/visit").json() == {"entered": False, "token": False}
    client.post("/api/visit", json={})
    assert client.get("/api/visit").json() == {"entered": True, "token": False}


def test_a_picture_is_of_a_game_that_is_listed_and_runs_nothing(server) -> None:
    client = visitor(server)
    answer = client.get("/pictures/kuhn_poker-v0.svg")
    assert answer.headers["content-type"] == "image/svg+xml"
    assert "script-src" not in answer.headers["content-security-policy"]
    assert answer.headers["content-security-policy"].startswith("default-src 'none'")
    assert "player_0" not in answer.text
    assert client.get("/pictures/..%2Fx.svg").status_code == 404


@pytest.mark.parametrize(("id", "shown"), [("tic_tac_toe", 1), ("goofspiel", 0)])
def test_past_moves_are_listed_where_all_seats_know_them(server, id, shown) -> None:
    client = visitor(server)
    view = say(client, begin(client, id)).json()
    assert len(view["history"]) >= shown
    assert bool(view["history"]) == bool(shown)


def test_an_agent_with_a_scorer_plays_at_a_table(tmp_path) -> None:
    agent = "agent:verify(random, scorer=solver)"
    kept = Tables(tmp_path / "games.sqlite", opponents=[agent])
    client = visitor(make_app(kept, limits=FREE))
    end = played(client, begin(client, "kuhn_poker", [agent], first=1))
    assert end["done"]
    assert sum(end["returns"]) == 0
    kept.close()


def test_two_browsers_play_and_each_sees_its_own_card(server) -> None:
    one, two, mine, theirs = two_people(server)
    assert (mine["seat"], theirs["seat"]) == (0, 1)
    assert (mine["yours"], theirs["yours"]) == (True, False)
    assert theirs["legal"] == []
    assert mine["text"] != theirs["text"]
    assert theirs["invites"] == []
    say(one, mine, "bet")
    theirs = two.get(f"/api/tables/{mine['table']}").json()
    assert theirs["yours"]
    assert say(two, theirs, "pass").json()["done"]
    assert one.get(f"/api/tables/{mine['table']}").json()["returns"] == [1.0, -1.0]


@pytest.mark.parametrize("path", ["", "/review?turn=0", "/record"])
def test_who_has_no_seat_sees_nothing(server, path) -> None:
    one, _, view, _ = two_people(server)
    say(one, view, "bet")
    answer = visitor(server).get(f"/api/tables/{view['table']}{path}")
    assert answer.status_code == 403
    assert set(answer.json()) == {"error"}


def test_a_client_moves_for_its_own_seat_only(server) -> None:
    one, two, mine, theirs = two_people(server)
    for client, asked in ((two, {"text": "bet", "turn": 0}),):
        answer = client.post(f"/api/tables/{mine['table']}/reply", json=asked)
        assert (answer.status_code, answer.json()["error"]) == (
            409,
            "It is the turn of player_0.",
        )
    stranger = visitor(server)
    assert say(stranger, mine).status_code == 403
    seat = {"seat": 0, "visitor": "x", "id": theirs["table"]}
    answer = two.post(
        f"/api/tables/{mine['table']}/reply", json={"text": "bet", "turn": 0, **seat}
    )
    assert answer.status_code == 409
    assert one.get(f"/api/tables/{mine['table']}").json() == mine | {
        "invites": [None, None]
    }


def test_an_invitation_gives_one_seat_once(server) -> None:
    one, two, third = visitor(server), visitor(server), visitor(server)
    view = begin(one, others=(PERSON,))
    path = f"/api/tables/{view['table']}/join"
    for wrong in ("", "x", "\ud800", None, 3):
        answer = two.post(path, content=json.dumps({"invite": wrong}), headers=JSON)
        assert answer.status_code in (400, 403)
    invite = {"invite": view["invites"][1]}
    assert one.post(path, json=invite).json()["seat"] == 0
    assert two.post(path, json=invite).json()["seat"] == 1
    assert third.post(path, json=invite).status_code == 403


JSON = {"Content-Type": "application/json"}


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "https://localhost"}, 403),
        ({"Sec-Fetch-Site": "cross-site"}, 403),
        ({"Sec-Fetch-Site": "same-site"}, 403),
        ({"Content-Type": "text/plain"}, 415),
        ({"Host": "evil.example", "Origin": "http://evil.example"}, 421),
    ],
)
def test_requests_of_other_sites_are_refused(server, headers, status) -> None:
    client = visitor(server)
    view = begin(client)
    body = json.dumps({"text": view["legal"][0], "turn": 0})
    path = f"/api/tables/{view['table']}/reply"
    assert client.post(path, content=body, headers=JSON | headers).status_code == status
    assert client.get(f"/api/tables/{view['table']}").json()["turn"] == view["turn"]


def test_a_visit_cannot_be_forged(server) -> None:
    client = visitor(server)
    view = begin(client)
    (cookie,) = client.cookies.jar
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "strict"
    bare = TestClient(server, base_url=HOME)
    for value in ("", "x", ".", f"{cookie.value}0", cookie.value.partition(".")[0]):
        headers = {"Cookie": f"{cookie.name}={value}"}
        answer = bare.get(f"/api/tables/{view['table']}", headers=headers)
        assert answer.status_code == 401


def test_beyond_loopback_a_token_is_wanted(tables) -> None:
    home = "http://games.example"
    app = make_app(tables, "secret token", FREE)
    client = TestClient(app, base_url=home, headers={"Origin": home})
    for given in ({}, {"token": "secret"}, {"token": 3}):
        assert client.post("/api/visit", json=given).status_code in (400, 401)
        assert client.get("/api/games").status_code == 401
    entered = visitor(app, home, "secret token")
    assert entered.get("/api/games").status_code == 200
    other = make_app(tables, "another token", FREE)
    moved = TestClient(other, base_url=home, cookies=dict(entered.cookies))
    assert moved.get("/api/games").status_code == 401


def test_sizes_are_limited(server) -> None:
    client = visitor(server)
    view = begin(client, "bargaining")
    assert say(client, view, "x" * 10_001).status_code == 413
    assert say(client, view, "x" * 70_000).status_code == 413
    assert say(client, view, "[" * 50_000).status_code == 413
    for body in (
        b"[" * 60_000,
        b"{",
        b"3",
        b"\xff",
        b'{"turn": ' + b"9" * 9_000 + b"}",
    ):
        path = f"/api/tables/{view['table']}/reply"
        assert client.post(path, content=body, headers=JSON).status_code == 400
    assert client.get(f"/api/tables/{view['table']}").json() == view


def test_rates_are_limited_and_come_back(tables) -> None:
    now = [0.0]
    app = make_app(tables, None, Limits(rate=1.0, burst=12.0), lambda: now[0])
    client = visitor(app)
    found = [client.get("/api/games").status_code for _ in range(13)]
    assert found == [200] * 12 + [429]
    now[0] = 1.0
    assert client.get("/api/games").status_code == 200
    assert client.get("/api/games").status_code == 429
    again = TestClient(app, base_url=HOME, headers={"Origin": HOME})
    assert again.post("/api/visit", json={}).status_code == 429


def test_tables_are_limited(tmp_path) -> None:
    kept = Tables(tmp_path / "games.sqlite", max_tables=3, max_by_visitor=2)
    first, second, third = (
        kept.open(latest("kuhn_poker"), [PERSON, "random"], "anna") for _ in range(3)
    )
    with pytest.raises(Refused, match="no such table"):
        kept.find(first.id)
    assert kept.find(second.id) is second
    assert kept.find(third.id) is third
    kept.open(latest("kuhn_poker"), [PERSON, "random"], "berta")
    with pytest.raises(Refused, match="as many games as it keeps"):
        kept.open(latest("kuhn_poker"), [PERSON, "random"], "cleo")
    kept.close()


def test_games_survive_a_restart(tmp_path) -> None:
    path = tmp_path / "games.sqlite"
    kept = Tables(path)
    client = visitor(make_app(kept, limits=FREE))
    view = begin(client, "leduc_poker", seed=5)
    view = settled(client, say(client, view).json())
    kept.close()
    again = Tables(path)
    app = make_app(again, limits=FREE)
    back = TestClient(
        app, base_url=HOME, headers={"Origin": HOME}, cookies=dict(client.cookies)
    )
    assert back.get(f"/api/tables/{view['table']}").json() == view
    assert played(back, view)["done"]
    assert [
        file.name for file in tmp_path.iterdir() if file.stat().st_mode & 0o077
    ] == []
    again.close()


def test_a_game_of_an_older_version_says_so(tables) -> None:
    table = tables.open(latest("kuhn_poker"), [PERSON, "random"], "anna")
    table.game, table.session = "kuhn_poker-v99", None
    with pytest.raises(Refused, match="no game 'kuhn_poker-v99'"):
        tables.view(table, "anna")


@pytest.mark.parametrize(
    "id", [HIDDEN[0], *(pytest.param(id, marks=pytest.mark.slow) for id in HIDDEN[1:])]
)
def test_a_seat_reads_the_same_when_what_is_hidden_changes(tables, id) -> None:
    """Every answer to a seat is equal in states that it cannot tell apart."""
    rng, differ = random.Random(0), 0
    one, two, view, _ = two_people(make_app(tables, limits=FREE), id)
    path, session = f"/api/tables/{view['table']}", tables.find(view["table"]).session
    env = session.environment.env
    while not session.done:
        real, kept = session.state, env.__getstate__()
        views = [client.get(path).json() for client in (one, two)]
        for seat, client in enumerate((one, two)):
            hidden = session.game.resample(real, seat, rng)
            differ += hidden != real
            env.__setstate__({**kept, "_node": hidden})
            assert client.get(path).json() == views[seat]
            wrong = say(client, views[seat], "no such move")
            env.__setstate__(kept)
            again = say(client, views[seat], "no such move")
            assert (wrong.status_code, wrong.text) == (again.status_code, again.text)
        (mover,) = [seat for seat, view in enumerate(views) if view["yours"]]
        say((one, two)[mover], views[mover], rng.choice(views[mover]["legal"]))
    assert differ


def test_regret_is_shown_after_the_move_only(server) -> None:
    client = visitor(server)
    views = [begin(client, first=1, seed=seed) for seed in range(12)]
    view = next(
        v
        for v in views
        if v["yours"]
        and "hold J" in v["text"]
        and "bet" in v["text"].partition("Actions:")[2]
    )
    path = f"/api/tables/{view['table']}"
    for turn, status in ((view["turn"], 409), (0, 403), (-1, 400), (99, 409)):
        answer = client.get(f"{path}/review?turn={turn}")
        assert (answer.status_code, set(answer.json())) == (status, {"error"})
    assert client.get(f"{path}/record").status_code == 409
    end = settled(client, say(client, view, "bet").json())
    moves = client.get(f"{path}/review?turn={end['own_turns'][-1]}").json()
    assert dict(zip(moves["actions"], moves["values"], strict=True)) == {
        "pass": -1.0,
        "bet": -2.0,
    }
    assert moves["regret"] == 1.0
    assert moves["mix"] == pytest.approx([1.0, 0.0], abs=0.01)
    assert moves["advantage"] == pytest.approx(-1.0, abs=0.02)
    record = client.get(f"{path}/record").json()
    assert client.post("/api/values", json={**record, "turn": 1}).json() == moves


def test_a_talking_game_has_no_values(server) -> None:
    client = visitor(server)
    end = played(client, begin(client, "bargaining"))
    moves = client.get(f"/api/tables/{end['table']}/review?turn=0").json()
    assert moves["fault"] == "a language game has no list of actions"


def test_a_move_that_is_not_legal_changes_nothing(server) -> None:
    client = visitor(server)
    view = begin(client, "tic_tac_toe", ["minimax"])
    for text in ("z9", "", "</think>", "\ud800", "a1 b2"):
        body = json.dumps({"text": text, "turn": view["turn"]})
        path = f"/api/tables/{view['table']}/reply"
        status = 400 if text == "\ud800" else 422
        assert client.post(path, content=body, headers=JSON).status_code == status
    assert say(client, view | {"turn": 7}).status_code == 409
    assert client.get(f"/api/tables/{view['table']}").json() == view


@pytest.mark.parametrize(
    "asked",
    [
        {"game": "chess2"},
        {"game": 3},
        {"game": "os:system"},
        {"seats": [PERSON]},
        {"seats": ["random", "lm:/etc/passwd"]},
        {"seats": [PERSON, "mcts:100000000"]},
        {"seats": [PERSON, "lm:/etc/passwd"]},
        {"seats": [PERSON, "os:system"]},
        {"seats": "no"},
        {"seed": -1},
        {"seed": 2**53},
        {"seed": "7"},
        {"seats": [PERSON, PERSON], "seed": 1},
    ],
)
def test_only_what_is_offered_is_opened(server, asked) -> None:
    given = {"game": latest("kuhn_poker"), "seats": [PERSON, "random"], **asked}
    answer = visitor(server).post("/api/tables", json=given)
    assert answer.status_code in (400, 404)
    assert "Want" in answer.text or "no game" in answer.text or "offer" in answer.text


@pytest.mark.parametrize(
    "change",
    [
        {"game": "os"},
        {"game": None},
        {"seed": 1.5},
        {"seed": 2**70},
        {"replies": None},
        {"replies": [["bet"]]},
        {"replies": [3]},
        {"replies": ["pass"] * 99},
    ],
)
def test_a_bad_link_is_refused(server, change) -> None:
    record = {"game": latest("kuhn_poker"), "seed": 3, "replies": ["bet"], **change}
    answer = visitor(server).post("/api/replay", json=record)
    assert answer.status_code in (400, 404)
    assert len(answer.json()["error"]) < 300


@pytest.mark.parametrize(
    ("path", "asked"),
    [
        ("/api/visit", {"token": "\ud800"}),
        ("/api/tables", {"game": "\ud800", "seats": [PERSON, "random"]}),
        ("/api/tables", {"game": "bargaining-v1", "seats": [PERSON, "x\udfff"]}),
        ("/api/replay", {"game": "bargaining-v1", "seed": 3, "replies": ["\ud83d"]}),
        ("/api/replay", {"\ud800": 1}),
    ],
)
def test_half_a_surrogate_pair_is_refused(server, path, asked) -> None:
    answer = visitor(server).post(path, content=json.dumps(asked), headers=JSON)
    assert answer.status_code == 400
    assert "whole Unicode characters" in answer.json()["error"]


def test_what_a_game_says_may_hold_half_a_surrogate_pair(tables) -> None:
    """A plug-in's game, say: the answer is JSON all the same."""
    table = tables.open(latest("bargaining"), [PERSON, "random"], "anna")
    table.seats[1] = "\ud800"
    tables.policy = lambda game, name: RandomPolicy()
    app = make_app(tables, limits=FREE)
    client = visitor(app)
    (cookie,) = client.cookies.jar
    table.owners[0] = hashlib.sha256(
        cookie.value.partition(".")[0].encode()
    ).hexdigest()
    answer = client.get(f"/api/tables/{table.id}")
    assert answer.status_code == 200
    assert answer.json()["seats"] == [PERSON, "\ud800"]


class Slow:
    """Replies when it may; counts how often it is asked."""

    name, num_asked = "slow", 0

    def __init__(self) -> None:
        self.may = threading.Event()

    def act(self, requests):
        self.num_asked += 1
        self.may.wait(10)
        return [Reply(request.legal[0]) for request in requests]


@pytest.fixture
def slow_table(tables):
    """A table whose opponent, which has the first turn, thinks."""
    policy = Slow()
    tables.policy = lambda game, name: policy
    table = tables.open(latest("kuhn_poker"), ["random", PERSON], "anna")
    yield table, policy
    policy.may.set()


def test_a_view_waits_for_no_opponent_and_asks_it_once(tables, slow_table) -> None:
    table, policy = slow_table
    for _ in range(45):
        view = tables.view(table, "anna")
        assert (view["thinks"], view["yours"], view["turn"]) == (True, False, 0)
    with pytest.raises(Refused, match="turn of player_0"):
        tables.reply(table, "anna", "pass", 0)
    policy.may.set()
    view = tables.view(table, "anna", max_wait=10)
    assert (view["thinks"], view["yours"], view["turn"]) == (False, True, 1)
    assert policy.num_asked == 1


def test_an_opponent_that_takes_too_long_is_named(tmp_path, monkeypatch) -> None:
    kept = Tables(tmp_path / "games.sqlite", max_seconds=0.05)
    policy = Slow()
    monkeypatch.setattr(kept, "policy", lambda game, name: policy)
    table = kept.open(latest("kuhn_poker"), ["random", PERSON], "anna")
    view = kept.view(table, "anna", max_wait=10)
    assert view["fault"] == ("slow gave no reply: TimeoutError: no reply within 0.05 s")
    policy.may.set()
    kept.close()


def test_a_policy_of_the_server_is_made_once_for_all_games(
    tmp_path, heavy_policy
) -> None:
    name = heavy_policy.__name__ + ":Heavy"
    kept = Tables(tmp_path / "games.sqlite", [name])
    client = visitor(make_app(kept, limits=FREE))
    for game in ("kuhn_poker", "leduc_poker", "nim"):
        begin(client, game, [name])
    assert len(heavy_policy.made) == 1
    kept.close()


def test_a_game_without_its_extra_is_left_out_with_a_note(tables, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "arena_envs.games.chess", None)
    listed.cache_clear()
    answer = visitor(make_app(tables, limits=FREE)).get("/api/games")
    listed.cache_clear()
    ids = [game["id"] for game in answer.json()["games"]]
    assert "chess-v0" not in ids
    assert "kuhn_poker-v0" in ids
    assert answer.json()["missing"] == (
        "Not installed: chess-v0; install it in a clone of arena-envs: pip install '.[chess]'"
    )


def test_an_opponent_that_gives_no_reply_is_asked_again(tmp_path, monkeypatch) -> None:
    (tmp_path / "shaky_policy.py").write_text(
        "from arena_wrappers import Reply\n"
        "class Shaky:\n"
        "    name, failed = 'shaky', False\n"
        "    def act(self, requests):\n"
        "        error = None if Shaky.failed else 'cut'\n"
        "        Shaky.failed = True\n"
        "        return [Reply('pass', error=error) for _ in requests]\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    kept = Tables(tmp_path / "games.sqlite", ["shaky_policy:Shaky"], pause=0.05)
    client = visitor(make_app(kept, limits=FREE))
    view = begin(client, others=["shaky_policy:Shaky"])
    view = settled(client, say(client, view, "bet").json())
    assert view["fault"] == "shaky gave no reply: cut"
    assert not view["done"]
    time.sleep(0.05)
    view = settled(client, client.get(f"/api/tables/{view['table']}").json())
    assert view["returns"] == [1.0, -1.0]
    assert view["fault"] is None
    kept.close()


def test_the_page_runs_its_own_script_only(server) -> None:
    client = TestClient(server, base_url=HOME)
    for path, kind in (("/", "html"), ("/app.js", "javascript"), ("/style.css", "css")):
        answer = client.get(path)
        assert kind in answer.headers["content-type"]
        policy = answer.headers["content-security-policy"]
        assert "script-src 'self';" in policy
        assert "unsafe" not in policy
    assert "innerHTML" not in client.get("/app.js").text
    assert "://" not in client.get("/").text


def test_wrong_options_are_refused_before_the_server_starts(arena_here, tmp_path):
    for options, told in (
        (["--token", "short"], "got 5; give a longer one, or leave it out"),
        (["--against", "mcst:3"], "mcst"),
        (["--file", tmp_path], "cannot keep games"),
    ):
        done = arena_here("serve", "web", *options, "--port", "18765", cwd=tmp_path)
        assert done.returncode == 2
        assert told in done.stderr
