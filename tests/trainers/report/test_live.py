"""`arena watch`: the status of a run, its live page and its events."""

import asyncio
import json
import os

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: extra web")

from starlette.testclient import TestClient

from arena_studio.report.live import LiveReport, make_live_app
from arena_studio.report.run_status import run_status, status_lines

HOSTILE = "<script>alert(1)</script>"


def log(folder, step, **figures):
    with open(folder / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": step, "loss": 0.1, **figures}) + "\n")


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "first"
    folder.mkdir()
    (folder / "config.yaml").write_text("max_steps: 100\n")
    return folder


@pytest.fixture
def client(run):
    report = LiveReport([run], 1, seconds=0.01, page_seconds=0.01)
    return TestClient(make_live_app(report), base_url="http://127.0.0.1:8000")


def test_the_time_left_is_that_of_the_steps_so_far(run) -> None:
    assert status_lines(run_status(run)) == ["no step is logged yet"]
    log(run, 20)
    os.utime(run / "config.yaml", (1000, 1000))
    os.utime(run / "metrics.jsonl", (1040, 1040))
    status = run_status(run, now=1050)  # 2 s a step, 80 steps, 10 s ago
    assert (status.seconds_left, status.silence) == (150, 10)
    (run / "results.json").write_text("{}")
    assert run_status(run, now=1050).has_ended


def test_a_fall_of_the_legal_rate_is_a_warning(run) -> None:
    log(run, 1, **{"arena/legal_rate": 0.9})
    log(run, 2, **{"arena/legal_rate": 0.5})
    (warning,) = run_status(run).warnings
    assert warning.startswith(
        "step 2: the rate of legal replies fell from 0.90 to 0.50"
    )


def test_the_page_before_the_first_log_grows_by_events(run, client) -> None:
    page = client.get("/").text
    assert "no step is logged yet" in page
    assert "connect-src &#39;self&#39;" not in page
    assert "connect-src 'self'" in page
    log(run, 5, kl=0.25)
    assert "step 5 of 100" in client.get("/").text


def test_events_tell_the_status_and_then_that_files_changed(run) -> None:
    report = LiveReport([run], 1, seconds=0.01, page_seconds=0.01)

    async def heard() -> list[str]:
        events = report.events(report.mark())
        first = await anext(events)
        log(run, 5)
        return [first, *[event async for event in events]]

    first, *_, last = asyncio.run(heard())
    name, data = first.strip().split("\n")
    assert name == "event: status"
    assert json.loads(data.removeprefix("data: "))[0] == [
        "first",
        ["no step is logged yet"],
    ]
    assert last.startswith("event: changed")


def test_an_ended_run_has_a_page_that_listens_to_nothing(run, client) -> None:
    log(run, 100)
    (run / "results.json").write_text("{}")
    assert "data-events" not in client.get("/").text


def test_other_names_and_sites_are_refused(client) -> None:
    assert client.get("/", headers={"Host": "evil.example"}).status_code == 403
    headers = {"Sec-Fetch-Site": "cross-site"}
    for path in ("/", "/events"):
        assert client.get(path, headers=headers).status_code == 403


def test_a_strangers_texts_are_no_markup(run, client) -> None:
    (run / "config.yaml").write_text(f"model: {HOSTILE}\n")
    log(run, 1, **{f"arena/{HOSTILE}/player_0/return": 0.5})
    assert HOSTILE not in client.get("/").text


def test_the_terminal_and_a_pipe_show_the_same_sentences(run, arena_here) -> None:
    log(run, 5, kl=0.25)
    assert "first: step 5 of 100" in arena_here("watch", str(run), "--terminal").stdout
    assert "found none at" in arena_here("watch", str(run / "x")).stderr
