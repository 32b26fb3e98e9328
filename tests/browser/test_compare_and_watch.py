"""The pages of `arena compare` and `arena watch` in Chromium: hostile texts, axe-core, and growth."""

import json
import runpy
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from arena_eval.comparison import ComparisonPlan
from arena_studio.report.compare_page import compare_page
from arena_wrappers import ScriptedPolicy

pytest.importorskip("uvicorn", reason="the extra web is not installed")
pytestmark = pytest.mark.slow

PAGES = runpy.run_path(str(Path(__file__).with_name("game_pages.py")))
ATTACK = "</script><img src=x onerror=\"document.title = 'hacked'\">{{ 7 * 7 }}"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_strangers_comparison_is_text_and_accessible(
    tmp_path, open_page, axe, scheme
) -> None:
    out = tmp_path / "episodes.jsonl"
    stranger = ScriptedPolicy(lambda request: f"{ATTACK} bet", ATTACK)
    plan = ComparisonPlan(
        "random", stranger, {"kuhn_poker": ["random"]}, num_episodes=4, out=out
    )
    records = [{**row, "trained_on": []} for row in plan.run()]
    path = tmp_path / "page.html"
    text = compare_page("random", ATTACK, records, plan.evaluations, out, [ATTACK])
    path.write_text(text)
    page = open_page(path, bypass_csp=True, color_scheme=scheme)
    assert page.locator("#results h3").count() == 3
    assert page.locator("#episodes tbody tr").count() > 1
    assert page.locator("img").count() == 0
    assert page.title() != "hacked"
    PAGES["nothing_serious"](page, axe)
    assert path.read_text().count("<script") == 2  # the data and our own


@pytest.fixture
def watched(tmp_path):
    """A run that goes on, and the address of its live page."""
    run = tmp_path / "run"
    run.mkdir()
    (run / "config.yaml").write_text("max_steps: 50\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "arena_trainers", "watch", str(run)]
    server = subprocess.Popen(
        [*command, "--port", str(port)], stdout=subprocess.DEVNULL
    )
    end = time.monotonic() + 60
    while time.monotonic() < end and server.poll() is None:
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                break
        time.sleep(0.1)
    yield run, f"http://127.0.0.1:{port}/"
    server.terminate()
    server.wait(20)


def test_a_live_page_grows_without_a_reload_by_hand(
    watched, browser, axe, wait_until
) -> None:
    run, address = watched
    troubles: list[str] = []
    context = browser.new_context(bypass_csp=True)
    page = context.new_page()
    page.on("console", lambda said: troubles.append(said.text))
    page.on("pageerror", lambda error: troubles.append(str(error)))
    page.goto(address)
    page.wait_for_selector("body[data-ready=yes]")
    assert "no step is logged yet" in page.inner_text("#status")
    with open(run / "metrics.jsonl", "a") as file:
        file.write(json.dumps({"step": 5, "loss": 0.5, "kl": 0.1}) + "\n")
    wait_until(page, "document.querySelector('#status').innerText.includes('step 5')")
    wait_until(page, "document.querySelectorAll('#charts figure').length > 0")
    PAGES["nothing_serious"](page, axe)
    context.close()
    assert troubles == []
