"""Games behind OpenEnv's server: seeds, seats, sessions, bad clients, the web page."""

import os
import random
import runpy
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import arena_envs

pytest.importorskip("openenv", reason="openenv is not installed: make adapters")
pytestmark = pytest.mark.filterwarnings("default")

from openenv.core import GenericEnvClient
from websockets.sync.client import connect

from arena_wrappers.adapters.openenv import GameAction, environment_maker

all_games = pytest.mark.parametrize("id", [i.id for i in arena_envs.game_infos()])


class Server(NamedTuple):
    url: str
    pid: int

    def cpu_seconds(self) -> float:
        stat = Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(stat[11]) + int(stat[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def serving(*arguments: str, folder: Path | None = None) -> Iterator[Server]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "arena_trainers", "serve", "openenv", *arguments]
    if folder is not None:  # that was exported
        command = [sys.executable, "-m", "uvicorn", "server.app:app"]
    process = subprocess.Popen([*command, "--port", str(port)], cwd=folder)
    try:
        end = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < end:
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
            time.sleep(0.2)
        yield Server(f"http://127.0.0.1:{port}", process.pid)
    finally:
        process.terminate()
        process.wait(30)


@pytest.fixture(scope="module")
def one_seat() -> Iterator[Server]:
    with serving("kuhn_poker", "--seat", "0", "--against", "random") as server:
        yield server


@pytest.fixture(scope="module")
def all_seats() -> Iterator[Server]:
    with serving("tic_tac_toe", "--prompt", "reply_format=bare") as server:
        yield server


def replay(client: Any, seed: int, **options: Any) -> list[Any]:
    """What a client sees that always takes the first legal action."""
    result = client.reset(seed=seed, **options)
    seen = [result.observation]
    while not result.done:
        reply = f"<answer>{result.observation['legal_actions'][0]}</answer>"
        result = client.step({"text": reply})
        seen.append(result.observation)
    return seen


def play_randomly(client: Any, seed: int) -> Any:
    result, rng = client.reset(seed=seed), random.Random(seed)
    while not result.done:
        result = client.step({"text": rng.choice(result.observation["legal_actions"])})
    return result.observation


@all_games
def test_every_game_is_played_by_all_seats(id: str) -> None:
    make = environment_maker(id, prompt={"reply_format": "bare"}, max_turns=6)
    env, rng = make(), random.Random(0)
    seen, paid = env.reset(seed=0), dict.fromkeys(make().reset().rewards, 0.0)
    while True:
        paid = {agent: paid[agent] + seen.rewards[agent] for agent in paid}
        if seen.done:
            break
        assert env.web_actions(seen.model_dump())[0][0] == seen.legal_actions[0]
        seen = env.step(GameAction(text=rng.choice(seen.legal_actions)))
    assert list(paid.values()) == pytest.approx(seen.returns)
    assert seen.invalid_reply is None


def test_the_example_plays_within_the_bars(one_seat: Server, record_property) -> None:
    main = runpy.run_path(str(Path(__file__).with_name("example.py")))["main"]
    main(one_seat.url, 20)
    before, client = one_seat.cpu_seconds(), time.process_time()
    mean, num_steps = main(one_seat.url, 400)
    server, client = one_seat.cpu_seconds() - before, time.process_time() - client
    record_property(
        "learned",
        f"CPU per step {client / num_steps * 1e3:.2f} ms of the client, "
        f"{server / num_steps * 1e3:.2f} ms of the server; random play {mean:.2f}",
    )
    assert abs(mean - 0.125) < 5 * 1.5 / 400**0.5  # 1/8 by uniform play


def test_a_seed_gives_the_deal_and_a_sample_the_opponents_choices(one_seat) -> None:
    with GenericEnvClient(base_url=one_seat.url).sync() as client:
        games = [replay(client, 3, sample=k) for k in (0, 0, 1, 2, 3, 4, 5)]
        deals = {
            replay(client, seed)[0]["messages"][-1]["content"] for seed in range(9)
        }
    assert games[0] == games[1]
    assert len({game[0]["messages"][-1]["content"] for game in games}) == 1
    assert len({str(game[-1]) for game in games}) > 1
    assert len(deals) == 3  # J, Q or K


def test_a_client_plays_all_seats(all_seats: Server) -> None:
    with GenericEnvClient(base_url=all_seats.url).sync() as client:
        result, movers = client.reset(seed=0), []
        for text in ("a1", "a2", "b1", "b2", "c1"):
            movers.append(result.observation["agent"])
            result = client.step({"text": text})
    assert movers == ["player_0", "player_1"] * 2 + ["player_0"]
    assert result.done
    assert result.reward == 1
    assert result.observation["rewards"] == {"player_0": 1, "player_1": -1}


def test_an_invalid_reply_ends_the_episode_and_leaves_the_state(all_seats) -> None:
    with GenericEnvClient(base_url=all_seats.url).sync() as client:
        before = client.reset(seed=0).observation
        result = client.step({"text": "z9"})
        assert result.done
        assert result.reward == -1
        assert result.observation["invalid_reply"].startswith("Write `a1`, `b1`,")
        old, new = before["messages"][-1]["content"], result.observation["messages"][-1]
        assert old.startswith(new["content"].partition("Legal")[0])
        with pytest.raises(
            RuntimeError, match=r"no episode is running: call reset\(\)"
        ):
            client.step({"text": "a1"})
        assert len(play_randomly(client, 1)["returns"]) == 2


def test_a_malformed_action_changes_nothing(all_seats: Server) -> None:
    with GenericEnvClient(base_url=all_seats.url).sync() as client:
        client.reset(seed=0)
        with pytest.raises(RuntimeError, match="VALIDATION_ERROR"):
            client.step({"texx": "a1"})
        assert client.step({"text": "a1"}).observation["agent"] == "player_1"


@pytest.mark.parametrize("served", ["one_seat", "all_seats"])
def test_an_unknown_option_of_reset_is_refused(served: str, request) -> None:
    server = request.getfixturevalue(served)
    with GenericEnvClient(base_url=server.url).sync() as client:
        with pytest.raises(
            RuntimeError, match=r"'sed' of reset; did you mean 'seed'\?"
        ):
            client.reset(sed=1)
        assert client.reset(seed=1, sample=2, episode_id="a").observation["messages"]


def entered(stack: ExitStack, url: str) -> Any:
    """A client with a session; waits for the server to end one."""
    for _ in range(50):
        client = stack.enter_context(GenericEnvClient(base_url=url).sync())
        try:
            client.reset(seed=0)
        except RuntimeError as error:
            if "CAPACITY_REACHED" not in str(error):
                raise
            time.sleep(0.2)
        else:
            return client
    pytest.fail("no session became free within 10 seconds")


def test_64_sessions_play_while_others_stall_or_break_off(all_seats: Server) -> None:
    """The 65th is refused; a session that breaks off makes room for another."""
    ended: list[Any] = []

    def work(seed: int) -> None:
        with GenericEnvClient(base_url=all_seats.url).sync() as client:
            ended.extend(play_randomly(client, seed) for _ in range(3))

    with ExitStack() as stack:
        socket_url = f"{all_seats.url.replace('http', 'ws')}/ws"
        rude = stack.enter_context(connect(socket_url))
        rude.send('{"type": "reset", "data": {"seed": 0}}')
        rude.recv()
        for _ in range(61):
            entered(stack, all_seats.url)
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ended) == 6
        for _ in range(2):
            entered(stack, all_seats.url)
        with pytest.raises(RuntimeError, match="CAPACITY_REACHED"):
            stack.enter_context(GenericEnvClient(base_url=all_seats.url).sync()).reset()
        rude.socket.shutdown(socket.SHUT_RDWR)  # says nothing before
        assert len(play_randomly(entered(stack, all_seats.url), 0)["returns"]) == 2


def test_64_sessions_play_at_once(all_seats: Server) -> None:
    ended: list[Any] = []

    def work(seed: int) -> None:
        with GenericEnvClient(base_url=all_seats.url).sync() as client:
            barrier.wait()
            ended.append((seed, play_randomly(client, seed)["returns"]))

    barrier = threading.Barrier(64)
    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(64)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(ended) == 64
    with GenericEnvClient(base_url=all_seats.url).sync() as client:
        assert sorted(ended)[:3] == [
            (seed, play_randomly(client, seed)["returns"]) for seed in range(3)
        ]


def test_the_session_of_a_silent_client_ends() -> None:
    limits = ("--sessions", "1", "--timeout", "1")
    with serving("kuhn_poker", *limits) as server, ExitStack() as stack:
        silent = entered(stack, server.url)
        other = entered(stack, server.url)
        assert other is not silent
        assert other.reset(seed=0).observation["agent"] == "player_0"


def test_people_have_a_page(all_seats: Server) -> None:
    with urllib.request.urlopen(f"{all_seats.url}/web") as page:
        assert page.status == 200


def test_bad_arguments_raise_before_the_server_starts() -> None:
    with pytest.raises(ValueError, match="want seat from 0 to 1, got 2"):
        environment_maker("kuhn_poker", seat=2)
    with pytest.raises(ValueError, match="unknown reply format"):
        environment_maker("kuhn_poker", prompt={"reply_format": "box"})


def test_all_sessions_share_an_opponent(heavy_policy: Any) -> None:
    make = environment_maker("kuhn_poker", 1, heavy_policy.__name__ + ":Heavy")
    for seed in range(3):
        assert make().reset(seed=seed).agent == "player_1"
    assert len(heavy_policy.made) == 1


def test_an_exported_folder_serves_the_game_in_docker_mode(tmp_path: Path) -> None:
    from openenv.cli._validation import get_deployment_modes
    from openenv.cli._validation import validate_multi_mode_deployment as issues_of

    folder = tmp_path / "kuhn"
    command = [sys.executable, "-m", "arena_trainers", "serve", "openenv"]
    command += ["kuhn_poker", "--seat", "0", "--against", "random"]
    subprocess.run([*command, "--export", str(folder)], check=True)
    assert issues_of(folder)[1] == ["Missing uv.lock - run 'uv lock' to generate it"]
    assert get_deployment_modes(folder)["docker"]
    with (
        serving(folder=folder) as served,
        GenericEnvClient(served.url).sync() as client,
    ):
        games = [replay(client, seed) for seed in (3, 3)]
    assert games[0] == games[1]
    assert {seen["agent"] for seen in games[0]} == {"player_0"}
    again = subprocess.run([*command, "--export", str(folder)], check=False)
    assert again.returncode == 2
