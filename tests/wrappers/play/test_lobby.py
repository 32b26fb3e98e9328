"""Games of clients that nobody trusts: what they may name, and that they wait for nobody."""

import importlib
import threading

import pytest

import arena_envs
from arena_envs import trust
from arena_wrappers import Reply
from arena_wrappers.play import Lobby


@pytest.fixture(autouse=True)
def _nothing_named_before(monkeypatch) -> None:
    """As in a new process: what operators named before may be named by clients, too."""
    monkeypatch.setattr(trust, "_named_by_operators", set())


def test_a_game_is_played_to_its_return() -> None:
    lobby = Lobby("first")
    view = lobby.start("kuhn_poker", seat=1)
    game = view["game"]
    assert "Kuhn" in view["rules"]
    assert lobby.observe(game)["text"] == view["text"]
    with pytest.raises(ValueError, match="Write `pass`"):
        lobby.act(game, "z9")
    while not view["done"]:
        view = lobby.act(game, "bet")
    assert view["return"] == view["reward"] in (-2.0, -1.0, 1.0, 2.0)
    with pytest.raises(ValueError, match="the game is over"):
        lobby.act(game, "bet")


def test_the_listed_games_start() -> None:
    lobby = Lobby()
    assert set(lobby.ids) <= {info.id for info in arena_envs.game_infos()}
    for id in lobby.ids:
        assert lobby.start(id)["rules"]


def test_parameters_change_a_game() -> None:
    view = Lobby().start("kuhn_poker", 2, {"num_players": 3})
    assert "player_2" in view["text"]


@pytest.mark.parametrize(
    ("id", "parameters", "reason"),
    [
        ("os:system(kuhn_poker, command='touch canary')", {}, "unknown game"),
        ("os:system", {}, "unknown game"),
        ("antigravity:x", {}, "unknown game"),
        ("questions(source='jsonl:canary.jsonl')", {}, "unknown game"),
        ("disguise:3(leduc_poker)", {}, "unknown game"),
        ("kuhn_poker(num_players=3)", {}, "unknown game"),
        ("", {}, "unknown game"),
        ("questions", {"source": "jsonl:canary.jsonl"}, "registered"),
        ("questions", {"source": "os:system(command='touch canary')"}, "registered"),
        ("questions", {"source": {"os:system": {}}}, "want the parameter 'source'"),
        ("questions", {"protocol": "/etc/passwd"}, "no protocol"),
        ("wordle", {"words": "/etc/passwd"}, "registered"),
        ("wordle", {"words": ["crane", "slate"]}, "want the parameter 'words'"),
        ("kuhn_poker", {"num_players": 10**8}, "from -100 to 100"),
        ("hanabi", {"num_players": float("nan")}, "from -100 to 100"),
        ("kuhn_poker", {"num_player": 3}, "did you mean 'num_players'"),
        ("kuhn_poker", {"id": "leduc_poker"}, "no parameter 'id'"),
        ("kuhn_poker", {"seed": 3}, "no parameter 'seed'"),
        ("chess", {"fen": "8" * 101}, "at most 100 characters"),
    ],
)
def test_a_client_names_what_is_listed_only(
    id, parameters, reason, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "canary.jsonl").write_text('{"question": "?", "answer": "1"}')
    with pytest.raises(ValueError, match=reason):
        Lobby().start(id, 0, parameters)
    assert not (tmp_path / "canary").exists()


def test_the_server_draws_the_seeds() -> None:
    def cards(lobby):
        return [lobby.start("leduc_poker")["text"] for _ in range(12)]

    assert cards(Lobby(seed=4)) == cards(Lobby(seed=4))
    assert cards(Lobby()) != cards(Lobby())


def test_an_opponent_is_made_once_for_all_games(tmp_path, monkeypatch) -> None:
    made = []

    class Heavy:
        name = "heavy"

        def __init__(self):
            made.append(self)

        def act(self, requests):
            return [Reply(request.legal[0]) for request in requests]

    (tmp_path / "heavy_opponent.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("heavy_opponent")

    monkeypatch.setattr(module, "Heavy", Heavy, raising=False)
    lobby = Lobby("heavy_opponent:Heavy")
    for id in ("kuhn_poker", "tic_tac_toe", "nim"):
        lobby.start(id, seat=1)
    assert len(made) == 1


class Slow:
    """Replies when it may."""

    name = "slow"

    def __init__(self):
        self.is_asked, self.may = threading.Event(), threading.Event()

    def act(self, requests):
        self.is_asked.set()
        self.may.wait(10)
        return [Reply(request.legal[0]) for request in requests]


def test_a_game_whose_opponent_thinks_keeps_no_call_waiting() -> None:
    slow = Slow()
    lobby = Lobby(slow)
    game = lobby.start("kuhn_poker")["game"]
    other = lobby.start("kuhn_poker")["game"]
    playing = threading.Thread(target=lobby.act, args=(game, "bet"))
    playing.start()
    slow.is_asked.wait(10)
    with pytest.raises(ValueError, match="another call plays this game"):
        lobby.observe(game)
    assert not lobby.observe(other)["done"]
    slow.may.set()
    playing.join(10)
    assert lobby.observe(game)["done"]


def test_of_many_games_the_oldest_ends() -> None:
    lobby = Lobby(max_games=2)
    games = [lobby.start("nim")["game"] for _ in range(3)]
    with pytest.raises(ValueError, match="start one with new_game"):
        lobby.observe(games[0])
    assert not lobby.observe(games[2])["done"]
