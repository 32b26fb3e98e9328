"""One way through all features, by the commands that a user types: a model is trained, killed,
resumed, evaluated, ranked, reported, replayed in a browser, and played against there."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

pytest.importorskip("trl")
pytest.importorskip("starlette", reason="starlette is not installed: extra web")

with warnings.catch_warnings():  # anyio of some versions warns when it is imported
    warnings.simplefilter("ignore")
    from starlette.testclient import TestClient

from arena_studio.web import PERSON, Tables, make_app

pytestmark = pytest.mark.slow

TRAIN = (
    "train --output-dir run --seed 1 --max_steps 60 --save_steps 10 --logging_steps 10 "
    "--episodes_per_step 64 --warm_start steps=60 --evaluate_every 0 --callbacks eval_episodes=20"
)
GAME = "kuhn_poker-v0"


def started(line: str, folder: Path, **options) -> subprocess.Popen:
    # in a group of its own, so that a kill finds whatever it started
    command = [sys.executable, "-m", "arena_trainers", *line.split()]
    return subprocess.Popen(command, cwd=folder, start_new_session=True, **options)


def arena(line: str, folder: Path) -> str:
    process = started(line, folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    out, error = process.communicate(timeout=600)
    assert process.returncode == 0, error.decode()
    return out.decode()


def killed_after_a_checkpoint(folder: Path) -> str:
    """Begins the run, and sends SIGKILL once a checkpoint is whole; the first log."""
    with (folder / "log").open("w") as log:
        process = started(TRAIN, folder, stdout=log, stderr=log)
    until = time.monotonic() + 300
    while not (folder / "run/checkpoint-10/manifest.json").exists():
        assert process.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < until
        time.sleep(0.02)
    os.killpg(process.pid, signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (folder / "run/results.json").exists()
    return (folder / "run/metrics.jsonl").read_text().splitlines()[0]


def opened(page: Path) -> str:
    """The page as Chromium shows it after its script ran; without Chromium, as it is saved."""
    found = shutil.which("chromium") or shutil.which("google-chrome")
    if found is None:
        return page.read_text()
    options = ["--headless", "--no-sandbox", "--disable-gpu", "--dump-dom"]
    command = [found, *options, "--virtual-time-budget=5000", page.as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    text = done.stdout.decode()
    assert re.search('<body[^>]* data-ready="yes"', text)
    return text


def test_train_kill_resume_evaluate_rank_report_replay_and_play(tmp_path):
    first = killed_after_a_checkpoint(tmp_path)
    arena("train --resume run", tmp_path)
    lines = (tmp_path / "run/metrics.jsonl").read_text().splitlines()
    assert lines[0] == first  # with its times, so that no step was done again
    steps = [row["step"] for row in map(json.loads, lines) if "loss" in row]
    assert steps == [10, 20, 30, 40, 50, 60]

    found = json.loads(
        arena("eval lm:run/model kuhn_poker --against cfr -n 40 --json", tmp_path)
    )
    assert found
    cup = "bench tournament random cfr lm:run/model -g kuhn_poker -n 20 --out cup"
    assert "NashConv" in arena(cup, tmp_path)
    for source in ("run", "cup"):
        arena(f"report {source} --out {source}.html", tmp_path)
        assert "kuhn_poker" in opened(tmp_path / f"{source}.html")

    arena("replay run/rollouts/step-60.jsonl --page replay.html", tmp_path)
    assert "Advantage" in opened(tmp_path / "replay.html")

    model = f"lm:{tmp_path / 'run/model'}"
    kept = Tables(tmp_path / "games.sqlite", [model])
    home = "http://localhost"
    client = TestClient(make_app(kept), base_url=home, headers={"Origin": home})
    assert client.post("/api/visit", json={}).status_code == 200
    assert model in kept.offered(GAME)
    asked = {"game": GAME, "seats": [PERSON, model], "seed": 3}
    view = client.post("/api/tables", json=asked).json()
    while not view["done"]:
        reply = {"text": view["legal"][0], "turn": view["turn"]}
        view = client.post(f"/api/tables/{view['table']}/reply", json=reply).json()
    assert sum(view["returns"]) == 0
    assert 2 <= view["turn"] <= 3
    kept.close()
