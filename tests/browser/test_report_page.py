"""The page of `arena report` in Chromium: a real run of a few steps, and a hostile one."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from arena_eval.rollouts import Rollout, TurnCredit, write_rollouts
from arena_eval.tournament import play_tournament
from arena_studio.report.played_report import played_page, read_tournament
from arena_studio.report.run_files import read_run_files, read_runs
from arena_studio.report.run_report import report_page
from arena_wrappers import ScriptedPolicy, play

pytestmark = pytest.mark.slow

ATTACK = "</script><img src=x onerror=\"document.title = 'hacked'\">{{ 7 * 7 }}"
TRAIN = "--warm_start steps=20 --max_steps 4 --logging_steps 2 --evaluate_every 2"
TRAIN += " --num_generations 4 --episodes_per_step 16 --callbacks eval_episodes=20"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of the default job, made short."""
    pytest.importorskip("trl")
    folder = tmp_path_factory.mktemp("runs") / "tiny"
    words = [*TRAIN.split(), "--output-dir", str(folder)]
    command = [sys.executable, "-m", "arena_trainers", "train", *words]
    subprocess.run(command, check=True, env=os.environ, capture_output=True)
    return folder


def test_a_click_on_a_point_opens_the_rollouts_of_its_step(run, open_page, wait_until):
    path = run / "report.html"
    path.write_text(report_page(read_run_files(run, 2)))
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
    page.click(".steps a >> nth=0")
    wait_until(page, "document.forms[0].elements.source.value == '=step 2'")


def test_the_estimator_and_the_member_of_a_group_are_switched(
    run, open_page, wait_until
):
    path = run / "report.html"
    path.write_text(report_page(read_run_files(run, 2)))
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
    wait_until(page, "document.querySelector('#name').textContent.includes('line 2')")
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
    path.write_text(report_page(read_run_files(run, 1)))
    phone = {"viewport": {"width": 390, "height": 800}}
    page = open_page(path, color_scheme=scheme, **phone)
    assert page.title() == run.name
    assert page.locator("img").count() == 0
    assert ATTACK in page.locator("#bad pre").text_content()
    assert ATTACK in page.locator("#charts figcaption").text_content()
    assert page.evaluate("document.documentElement.scrollWidth") == 390


def write_run(folder: Path, value: float, steps: tuple[int, ...] = (10, 20)) -> Path:
    """A run of two stored steps with the same starts in every run."""
    (folder / "rollouts").mkdir(parents=True, exist_ok=True)
    names = [f"arena/kuhn_poker/against/{n}/return" for n in range(9)]
    names += ["arena/kuhn_poker/player_0/return", "kl"]
    lines = [json.dumps({"step": s, **dict.fromkeys(names, value)}) for s in steps]
    (folder / "metrics.jsonl").write_text("\n".join(lines) + "\n")
    (folder / "config.yaml").write_text(f"seed: {value}\n")
    for step in (10, 20):
        rollouts = [
            Rollout(e, [TurnCredit("mars", value)] * len(e.turns))
            for e in play("kuhn_poker", ["random"] * 2, [step], num_samples=4)
        ]
        write_rollouts(folder / "rollouts" / f"step-{step}.jsonl", rollouts)
    return folder


def test_a_legend_singles_out_a_curve(tmp_path, open_page):
    path = tmp_path / "report.html"
    path.write_text(report_page(read_run_files(write_run(tmp_path / "a", 0.5), 1)))
    page = open_page(path)
    chart = page.locator("#charts figure", has_text="return by opponent")
    chart.locator("summary").click()
    assert chart.locator(".key button").count() == 9
    chart.locator(".key button").nth(7).click()
    dim = {e.get_attribute("data-curve") for e in chart.locator(".dim").all()}
    assert dim == set("01234568")
    chart.locator(".key button").nth(7).click()
    assert chart.locator(".dim").count() == 0


@pytest.mark.parametrize("width", [390, 1200])
def test_runs_are_compared_by_their_starts(width, tmp_path, open_page, wait_until):
    path = tmp_path / "both.html"
    folders = [write_run(tmp_path / name, v) for name, v in (("a", 0.5), ("b", 1.0))]
    path.write_text(report_page(*read_runs(folders, 1)))
    page = open_page(path, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    page.click("#starts tr:nth-child(2) td:nth-child(5) a")
    wait_until(page, "document.querySelector('#name').innerText.startsWith('b,')")
    rows = page.locator("#group tbody tr td:first-child").all_inner_texts()
    wanted = [f"{run}, step 20, line {n}" for run in "ab" for n in range(1, 5)]
    assert rows == wanted
    kl = page.locator("#charts figure", has_text="KL to the reference")
    names = kl.locator(".key button").all_inner_texts()
    assert [name.strip() for name in names] == ["a", "b"]
    kl.locator("[data-curve='0'] a:has(.spot)").first.focus()
    page.keyboard.press("Enter")
    wait_until(page, "document.forms[0].elements.source.value == '=a, step 10'")


def test_a_live_page_reloads_and_keeps_its_place(tmp_path, open_page, wait_until):
    folder, path = tmp_path / "a", tmp_path / "report.html"
    run = read_run_files(write_run(folder, 0.5), 1)
    path.write_text(report_page(run, live_seconds=1))
    page = open_page(path)
    page.select_option("[name=source]", "=step 20")
    page.click("#episodes tbody tr:nth-child(3)")
    page.wait_for_selector("#replay[data-turn='0']")
    page.keyboard.press("ArrowRight")
    page.wait_for_selector("#replay[data-turn='1']")
    page.select_option("#viewer", "player_1")
    page.select_option("#estimator", "rae")
    page.click("#group summary")
    named = page.locator("#charts figure", has_text="return by opponent")
    named.locator("summary").click()
    named.locator(".key button").nth(7).click()
    place = "document.querySelector('#replay').getBoundingClientRect().top"
    top = page.evaluate(place)
    write_run(folder, 0.5, (10, 20, 30))
    for seconds in (1, 0):
        if not seconds:  # the last page is not live, and lacks nothing
            (folder / "results.json").write_text('{"seed": 1}')
        path.write_text(report_page(read_run_files(folder, 1), live_seconds=seconds))
        live = "true" if seconds else "false"
        wait_until(
            page,
            f"""document.body?.dataset.ready && window.scrollY > 0
            && Boolean(document.querySelector('#live')) === {live}
            && document.body.textContent.includes('step 30, KL')""",
        )
        page.wait_for_selector("#replay[data-turn='1']")
        assert page.inner_text("#name").startswith("step 20, line 3:")
        assert page.input_value("[name=source]") == "=step 20"
        assert page.input_value("#viewer") == "player_1"
        assert page.input_value("#estimator") == "rae"
        assert page.get_attribute("#group", "open") is None
        assert named.locator(".key [aria-pressed=true]").count() == 1
        assert named.locator(".dim").count() > 0
        wait_until(page, f"Math.abs({place} - {top}) < 2")


def test_a_payoff_opens_the_episodes_of_the_two(tmp_path, open_page):
    policies = ["first", "random", ScriptedPolicy([ATTACK])]
    out = tmp_path / "results.jsonl"
    with pytest.warns(UserWarning, match="replies in kuhn_poker-v0 are invalid"):
        found = play_tournament(policies, ["kuhn_poker"], 2, out=out)
    (tmp_path / "summary.json").write_text(json.dumps(found.to_dict()))
    path = tmp_path / "report.html"
    path.write_text(played_page(read_tournament(tmp_path, 8)))
    page = open_page(path)
    page.click("text=kuhn_poker-v0: payoffs >> xpath=following::td[3]/a")
    rows = page.locator("#episodes tbody tr")
    assert rows.count() == 4
    assert all("first and random" in text for text in rows.all_inner_texts())
    assert page.locator("img").count() == 0
