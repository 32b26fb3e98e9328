"""The page of `arena report` in Chromium: a real run of a few steps, and a hostile one."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from arena_trainers.report.report_page import write_report
from arena_trainers.report.run_files import read_run_files

pytestmark = pytest.mark.slow

ATTACK = "</script><img src=x onerror=\"document.title = 'hacked'\">{{ 7 * 7 }}"
TRAIN = "--warm_start_steps 20 --max_steps 4 --logging_steps 2 --evaluate_every 2"
TRAIN += " --num_generations 4 --episodes_per_step 16 --eval_episodes 20"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the default job, made short."""
    pytest.importorskip("trl")
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    words = [*TRAIN.split(), "--output-dir", str(folder)]
    command = [sys.executable, "-m", "arena_trainers", "train", *words]
    subprocess.run(command, check=True, env=os.environ, capture_output=True)
    return folder


def test_a_click_on_a_point_opens_the_rollouts_of_its_step(run, open_page):
    path = run / "report.html"
    write_report(path, read_run_files(run, 2))
    page = open_page(path)
    lines = (run / "metrics.jsonl").read_text().splitlines()
    charts = page.locator("#charts figure")
    titles = charts.locator("figcaption").all_inner_texts()
    chart = charts.nth(titles.index("kuhn_poker: return per seat"))
    spots = chart.locator("a:has(.spot)")
    texts = chart.locator(".spot title").all_text_contents()
    seen = {
        tuple(re.findall(r"step (\d+), player_(\d): ([-\d.e]+)", t)[0]) for t in texts
    }
    returns = {
        (str(record["step"]), seat, f"{value:.4g}")
        for record in map(json.loads, lines)
        for seat in "01"
        if (value := record.get(f"arena/kuhn_poker/player_{seat}/return")) is not None
    }
    assert seen == returns
    spots.last.click()
    step = page.input_value("[name=source]")
    assert step == "=step 4"
    rollouts = (run / "rollouts" / "step-4.jsonl").read_text().splitlines()
    assert page.locator("#episodes tbody tr").count() == len(rollouts)
    assert page.inner_text("#name").startswith("step 4, line 1: kuhn_poker-v0")
    page.click("#steps a >> nth=0")
    page.wait_for_function("document.forms[0].elements.source.value == '=step 2'")


def test_the_estimator_and_the_member_of_a_group_are_switched(run, open_page):
    path = run / "report.html"
    write_report(path, read_run_files(run, 2))
    page = open_page(path, "#from=step+4")
    rollouts = (run / "rollouts" / "step-4.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in rollouts]
    rows = page.locator("#group tbody tr")
    assert rows.count() == 4
    for number, record in enumerate(records[:4]):
        cells = rows.nth(number).locator(".turn")
        for place, (turn, earned) in enumerate(
            zip(record["turns"], record["credit"], strict=True)
        ):
            title = cells.nth(place).get_attribute("title")
            assert f"player_{turn['seat']}" in title
            shown = float(title.rpartition("advantage ")[2])
            assert shown == pytest.approx(earned["advantage"], rel=1e-3)
    rows.nth(2).locator(".turn").nth(1).click()
    page.wait_for_selector("#replay[data-turn='1']")
    assert "line 3" in page.inner_text("#name")
    page.select_option("#estimator", "dr_grpo")
    group = [record["returns"][0] for record in records[:4]]
    wanted = group[2] - sum(group) / 4
    title = page.locator("#strip .cell[data-turn='0']").get_attribute("title")
    assert float(title.rpartition("advantage ")[2]) == pytest.approx(wanted, rel=1e-3)
    assert "dr_grpo with its default options" in page.inner_text("#legend")
    page.keyboard.press("ArrowUp")
    page.wait_for_function(
        "document.querySelector('#name').textContent.includes('line 2')"
    )
    assert page.input_value("#estimator") == "dr_grpo"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_broken_run_with_hostile_words_is_shown(scheme, tmp_path, open_page):
    run = tmp_path / ATTACK.replace("/", "")
    run.mkdir()
    record = {"step": 0, f"arena/{ATTACK}/player_0/return": 0.5, ATTACK: ATTACK}
    (run / "metrics.jsonl").write_text(f"{json.dumps(record)}\n{ATTACK}\n")
    results = {"command": ATTACK, "versions": {ATTACK: ATTACK}}
    (run / "results.json").write_text(json.dumps(results))
    (run / "config.yaml").write_text(ATTACK)
    path = tmp_path / "report.html"
    write_report(path, read_run_files(run, 1))
    phone = {"viewport": {"width": 390, "height": 800}}
    page = open_page(path, color_scheme=scheme, **phone)
    assert page.title() == run.name
    assert page.locator("img").count() == 0
    assert ATTACK in page.locator("#bad pre").text_content()
    assert ATTACK in page.locator("#charts figcaption").text_content()
    assert page.evaluate("document.documentElement.scrollWidth") == 390
