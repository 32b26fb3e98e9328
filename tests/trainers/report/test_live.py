"""`arena watch`: the status of a run, its live page and its events."""

import asyncio
import json
import os

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: extra web")

from starlette.testclient import TestClient

from arena_studio.report import run_status as status_module
from arena_studio.report.live import LiveReport, make_live_app
from arena_studio.report.run_files import metric_records
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


@pytest.mark.parametrize(
    ("metrics", "config"),
    [
        pytest.param('{"step": 1' + 400 * "0" + "}", "", id="step"),
        pytest.param('{"step": 1, "loss": 1' + 400 * "0" + "}", "", id="figure"),
        pytest.param('{"step": -5}', "", id="negative"),
        pytest.param(
            '{"step": 1, "loss": 1, "a/against_start": -1}', "", id="no error"
        ),
        pytest.param('{"step": 1}', "max_steps: 1" + 400 * "0", id="max_steps"),
        pytest.param('{"step": 1}', "max_steps: 2026-99-99", id="date"),
        pytest.param('{"step": 1}', 2_000 * "[", id="nested"),
        pytest.param('{"step": 1}', "max_steps: \udcff", id="no UTF-8"),
    ],
)
def test_a_strangers_numbers_and_nests_are_left_out(
    run, client, metrics, config
) -> None:
    (run / "config.yaml").write_text(config, "utf-8", "surrogateescape")
    (run / "metrics.jsonl").write_text(metrics + "\n")
    status = run_status(run)
    assert (status.max_steps, status.seconds_left) == (None, None)
    assert status.step in (0, 1)
    assert client.get("/").status_code == 200


def test_logs_are_read_anew_only_where_they_changed(run, monkeypatch) -> None:
    reads = list[object]()

    def recorded(path):
        reads.append(path)
        return metric_records(path)

    monkeypatch.setattr(status_module, "metric_records", recorded)
    log(run, 1)
    assert [run_status(run).step, run_status(run).step] == [1, 1]
    log(run, 2)
    assert run_status(run).step == 2
    assert len(reads) == 2


def test_the_terminal_and_a_pipe_show_the_same_sentences(run, arena_here) -> None:
    log(run, 5, kl=0.25)
    assert "first: step 5 of 100" in arena_here("watch", str(run), "--terminal").stdout
    assert "found none at" in arena_here("watch", str(run / "x")).stderr
