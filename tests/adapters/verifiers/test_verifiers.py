"""verifiers' own command plays `arena` against a local endpoint, good and bad."""

import json
import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("verifiers", reason="verifiers is not installed: make adapters")
pytestmark = pytest.mark.filterwarnings("default")

from verifiers.v1.utils.loaders import env_config_type, load_environment

HERE = Path(__file__)
PACKAGE = HERE.parents[3] / "environments" / "arena"
serving = runpy.run_path(str(HERE.parents[2] / "endpoint.py"))["serving"]


EMPTY = json.dumps(
    {
        **{"id": "1", "object": "chat.completion", "created": 0, "model": "m"},
        "choices": [
            {
                "index": 0,
                "finish_reason": "stop",
                "message": {"role": "assistant", "content": ""},
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 1, "total_tokens": 10},
    }
)


def legal(body) -> str:
    """The reply with the legal action that the number of messages selects."""
    text = body["messages"][-1]["content"]
    actions = re.findall(r"Legal actions: (.*)\.", text)[-1].split(", ")
    return f"<answer>{actions[len(body['messages']) % len(actions)]}</answer>"


def evaluate(folder: Path, url: str, *options: str) -> list[dict]:
    """The episodes that `vf-eval` played."""
    own = {"PYTHONPATH": str(PACKAGE), "FAKE_KEY": "none"}
    command = [
        *(str(Path(sys.executable).with_name("vf-eval")), "arena", "--model", "m"),
        *("--client.base-url", url, "--client.api-key-var", "FAKE_KEY"),
        *("--no-rich", "--no-push", "-o", str(folder), *options),
    ]
    done = subprocess.run(
        command, env=os.environ | own, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:] + done.stdout[-3000:]
    (traces,) = folder.glob("*/traces.jsonl")
    return [json.loads(line) for line in traces.read_text().splitlines()]


def by_name(episode: dict) -> dict[str, dict]:
    return {trace["agent"]["name"]: trace for trace in episode["traces"]}


def test_each_seat_is_an_agent_with_its_rewards(tmp_path, record_property) -> None:
    with serving() as server:
        server.say = legal
        episodes = evaluate(tmp_path, server.url, "-n", "30", "-r", "2")
    assert sorted(e["task"]["data"]["seed"] for e in episodes) == [
        seed for seed in range(30) for _ in range(2)
    ]
    for episode in episodes:
        seats = by_name(episode)
        assert sorted(seats) == ["player_0", "player_1"]
        returns = [trace["rewards"]["return"]["score"] for trace in seats.values()]
        assert sum(returns) == 0
        for trace in seats.values():
            rewards = trace["info"]["turn_rewards"]
            assert sum(rewards) == trace["rewards"]["return"]["score"]
            said = [n for n in trace["nodes"] if n["message"]["role"] == "assistant"]
            assert len(said) == len(rewards)
            assert trace["nodes"][0]["message"]["role"] == "system"
    boxes = {t["agent"]["runtime"]["id"] for e in episodes for t in e["traces"]}
    assert len(boxes) == 1
    traces = [trace["timing"] for episode in episodes for trace in episode["traces"]]
    began = min(timing["start"] for timing in traces)
    seconds = max(timing["scoring"]["end"] for timing in traces) - began
    per_minute = 60 * len(episodes) / seconds
    record_property("learned", f"{per_minute:.0f} episodes of Kuhn poker per minute")
    assert per_minute > 60


@pytest.mark.parametrize(
    ("behaviour", "reason"),
    [
        ("stall", "no reply within 2"),
        ("cut", "ProviderError"),
        ("garbage", "malformed upstream response"),
        ("403", "upstream 403"),
    ],
)
def test_a_bad_endpoint_is_an_error_without_rewards(
    tmp_path, behaviour, reason
) -> None:
    with serving() as server:
        server.say = legal
        server.behaviour = lambda number: (
            behaviour
            if "hold K" in server.requests[number]["messages"][1]["content"]
            else "fine"
        )
        options = ["-n", "6", "--env.reply-timeout", "20"]
        if behaviour == "stall":
            options[-1] = "2"
        episodes = evaluate(tmp_path, server.url, *options)
    assert len(episodes) == 6
    lost = [episode for episode in episodes if episode["errors"]]
    assert 0 < len(lost) < 6
    for episode in lost:
        assert reason in json.dumps(episode)
        assert not any(trace["rewards"] for trace in episode["traces"])
        assert not any("forfeit" in trace["metrics"] for trace in episode["traces"])
    assert all(t["rewards"] for e in episodes if e not in lost for t in e["traces"])


@pytest.mark.parametrize(
    ("behaviour", "said", "reason"),
    [
        ("fine", "fold", "illegal: "),
        ("long", "bet", "overlong: "),
        (EMPTY, "", "empty: "),
    ],
)
def test_an_invalid_reply_forfeits_with_a_penalty(
    tmp_path, behaviour, said, reason
) -> None:
    with serving() as server:
        server.say = lambda body: f"<answer>{said}</answer>"
        server.behaviour = lambda number: behaviour
        (episode,) = evaluate(tmp_path, server.url, "-n", "1")
    trace = by_name(episode)["player_0"]
    assert trace["rewards"]["format"]["score"] == -0.5
    assert trace["info"]["turn_rewards"] == [-2.5]
    assert trace["info"]["forfeit_reason"].startswith(reason)


def test_the_example_reads_what_their_command_wrote(tmp_path, record_property) -> None:
    with serving() as server:
        server.say = lambda body: "<answer>bet</answer>"
        options = ["-n", "30", "--env.players", '["model", "cfr"]']
        evaluate(tmp_path, server.url, *options)
    (path,) = tmp_path.glob("*/traces.jsonl")
    mean, rewards = runpy.run_path(str(HERE.with_name("example.py")))["main"](path)
    record_property("learned", f"mean return of always betting against cfr {mean:.2f}")
    assert mean < 0
    assert len(rewards) == 30


def test_policies_play_the_other_seats_and_boxes_are_read(tmp_path) -> None:
    with serving() as server:
        server.say = lambda body: legal(body).replace("<answer>", r"\boxed{")[:-9] + "}"
        options = ["--env.taskset.game", "kuhn_poker(num_players=3)"]
        options += ["--env.players", '["cfr:100", "model", "random"]']
        options += ["--env.prompt", '{"reply_format": "boxed"}']
        options += ["--env.taskset.split", "test"]
        episodes = evaluate(tmp_path, server.url, "-n", "12", *options)
    assert [e["task"]["data"]["seed"] for e in episodes] != list(range(12))
    for episode in episodes:
        ((name, trace),) = by_name(episode).items()
        assert name == "player_1"
        assert "forfeit_reason" not in trace["info"]


@pytest.mark.parametrize(
    ("players", "reason"),
    [
        (["model", "cfr", "cfr"], "want 1 opponents, one per other seat, got 2"),
        (["cfr"], "want at least one seat"),
    ],
)
def test_wrong_players_are_refused(players, reason, monkeypatch) -> None:
    monkeypatch.syspath_prepend(PACKAGE)
    config = env_config_type("arena")
    given = {"taskset": {"id": "arena"}, "players": players}
    with pytest.raises(ValueError, match=reason):
        load_environment(config.model_validate(given))
