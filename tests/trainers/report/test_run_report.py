"""The report of a run: its files, curves, tables, estimates and page."""

import base64
import gzip
import json
import re
from dataclasses import replace
from xml.etree import ElementTree

import pytest

from arena_eval.rollouts import Rollout, TurnCredit, write_rollouts
from arena_studio.report import Recorded
from arena_studio.report.chart_styles import legend_of
from arena_studio.report.charts import chart_svg
from arena_studio.report.curves import Chart, Curve, charts_of, missing_from
from arena_studio.report.estimates import ESTIMATORS, estimates_of
from arena_studio.report.run_files import read_run_files
from arena_studio.report.run_report import report_page
from arena_studio.report.tables import facts, result_tables
from arena_wrappers import play

ATTACK = "</script><img src=x onerror=alert(1)>{{ 7*7 }}"
GAME = "kuhn_poker"
METRICS = [
    {"step": 0, f"arena/{GAME}/player_0/return": -0.5, "arena/nash_conv": 0.9},
    {"step": 10, f"arena/{GAME}/player_0/return": 0.25, "kl": float("nan")},
    {"step": 20, f"arena/{GAME}/against/{ATTACK}/return": 1.5, "kl": "text"},
]
STAGES = [
    {"name": "uniform random", "nash_conv": 0.9167, "returns": []},
    {
        "name": "before self-play",
        "nash_conv": 0.9,
        "legal_rate": 0.5,
        "num_episodes": 8,
        "returns": [
            {"mean": -0.5, "low": -0.75, "high": -0.25},
            {"mean": 0.5, "low": None, "high": None},
        ],
        "measures": {"chips": {"mean": 1.0, "low": 0.5, "high": 1.5}},
    },
]
ROW = {"role": "policy", "opponent": ATTACK, "seat": 0, "num_episodes": 8}
ROW |= {"mean_return": 0.1, "low": 0.0, "high": 0.2, "wins": 0.5, "score": 50.0}
RESULTS = {
    "nash_conv": {"uniform": 0.9167},
    "outcomes": {
        GAME: {
            "stages": STAGES,
            "evaluation": [
                {**ROW, "score_interval": [40.0, 60.0]},
                {**ROW, "score": None, "no_score": "it is large"},
                {**ROW, "role": "solver"},
            ],
        }
    },
    "command": f"arena train --model '{ATTACK}'",
    "versions": {"torch": "2.13.0", "arena-envs": None},
}


def rollouts(num_groups):
    """Groups of two episodes of random play; player_1 has no credit."""
    seeds = [seed for seed in range(num_groups) for _ in range(2)]
    credit = TurnCredit("mars", 0.5)
    return [
        Rollout(e, [credit if t.seat == 0 else None for t in e.turns])
        for seed in seeds[::2]
        for e in play(GAME, ["random", "noisy:1(random)"], [seed], num_samples=2)
    ]


@pytest.fixture
def folder(tmp_path):
    run = tmp_path / "first"
    (run / "rollouts").mkdir(parents=True)
    for step in (10, 20):
        write_rollouts(run / "rollouts" / f"step-{step}.jsonl", rollouts(3))
    lines = [json.dumps(record) for record in METRICS]
    (run / "metrics.jsonl").write_text("\n".join([*lines, '{"step": 3']))
    (run / "results.json").write_text(json.dumps(RESULTS))
    (run / "config.yaml").write_text(f"model: {ATTACK}\n")
    return run


def test_the_files_of_a_run_are_read_by_groups(folder):
    with open(folder / "rollouts" / "step-10.jsonl", "r+") as file:
        text = file.read()
        file.seek(0)
        file.write(f"{ATTACK}\n{text}")
    run = read_run_files(folder, 2)
    assert [(line.source, line.line) for line in run.episodes] == [
        *[("step 10", number) for number in (2, 3, 4, 5)],
        *[("step 20", number) for number in (1, 2, 3, 4)],
    ]
    assert run.left == 4
    assert [record["step"] for record in run.metrics] == [0, 10, 20]
    assert [(file, line.line) for file, line in run.bad] == [
        ("metrics.jsonl", 4),
        ("rollouts/step-10.jsonl", 1),
    ]
    assert not run.missing


def test_blank_lines_of_a_run_are_skipped(folder):
    for name in ("metrics.jsonl", "rollouts/step-10.jsonl"):
        text = (folder / name).read_text()
        (folder / name).write_text(f"\n \n{text}\n\n")
    run = read_run_files(folder, 3)
    assert [(file, line.line) for file, line in run.bad] == [("metrics.jsonl", 6)]
    assert len(run.episodes) == 12
    assert run.left == 0


def test_groups_stay_whole_and_steps_are_thinned_out(folder, monkeypatch):
    for step in (30, 40, 50):
        write_rollouts(folder / "rollouts" / f"step-{step}.jsonl", rollouts(3))
    turns = [len(rollout.episode.turns) for rollout in rollouts(3)]
    group = sum(turns[:2])
    for limit, steps in (
        (5 * sum(turns[:4]), [10, 10, 20, 20, 30, 30, 40, 40, 50, 50]),
        (5 * sum(turns[:4]) - 1, [10, 20, 30, 40, 50]),
        (5 * group - 1, [10, 30, 50]),
        (3 * group - 1, [20, 50]),
        (1, [50]),
    ):
        monkeypatch.setattr("arena_studio.report.run_files.MAX_TURNS", limit)
        run = read_run_files(folder, 2)
        wanted = [f"step {step}" for step in steps for _ in range(2)]
        assert [line.source for line in run.episodes] == wanted
        assert list(run.sources) == sorted(set(steps))
        assert run.left == 30 - len(wanted)


def test_what_a_run_lacks_is_named(folder):
    for path in (*folder.glob("rollouts/*"), *folder.glob("[cr]*.*")):
        path.unlink()
    page = report_page(read_run_files(folder, 1))
    for name in ("results.json", "config.yaml", "rollouts/"):
        assert f"<li>{name}: " in page
    assert "entropy (entropy)" in page
    assert "There are no results." in page
    (folder / "metrics.jsonl").unlink()
    with pytest.raises(ValueError, match="want a run folder with metrics"):
        read_run_files(folder, 1)


def test_broken_results_are_refused(folder):
    (folder / "results.json").write_text("[]")
    with pytest.raises(ValueError, match="want a JSON object in"):
        read_run_files(folder, 1)


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("outcomes", "x"),
        ("outcomes", {GAME: None}),
        ("outcomes", {GAME: {"stages": 1}}),
    ],
)
def test_results_with_fields_of_another_kind_are_refused(folder, part, value):
    (folder / "results.json").write_text(json.dumps({**RESULTS, part: value}))
    with pytest.raises(ValueError, match=r"results\.json.*remove the file"):
        read_run_files(folder, 1)


def test_charts_have_the_finite_numbers_of_the_metrics():
    charts = {chart.title: chart for chart in charts_of(METRICS, RESULTS)}
    (line,) = charts[f"{GAME}: return per seat"].lines
    assert line == Curve("player_0", [(0, -0.5), (10, 0.25)], [(0, -0.75, -0.25)])
    (line,) = charts[f"{GAME}: return by opponent"].lines
    assert line == Curve(ATTACK, [(20, 1.5)])
    assert charts["Exact NashConv"].levels == {"uniform random play": 0.9167}
    assert len(charts) == 3  # kl has no number
    absent = missing_from(METRICS)
    assert "KL to the reference (kl)" in absent
    assert "share of flat pools (arena/GAME/flat_pools)" in absent
    assert not any("NashConv" in name for name in absent)


def test_a_strangers_numbers_that_no_axis_can_show_are_left_out():
    seats = f"arena/{GAME}/player_{{}}/return"
    metrics = [
        {"step": 0, "kl": 1e308, seats.format(0): 1.0, seats.format("9" * 5000): 1}
    ]
    stages = [{"name": "before", "returns": [{"low": "x", "high": 1}]}]
    results = {"outcomes": {GAME: {"policy": {"values": 3}, "stages": stages}}}
    (chart,) = charts_of(metrics, results)
    assert (chart.lines, chart.levels) == ([Curve("player_0", [(0, 1.0)], [])], {})


def test_a_chart_has_a_spot_for_each_point_and_links_of_stored_steps():
    lines = [
        Curve("player_0", [(0, 0.0), (10, 1.0)]),
        Curve(f"$a_1$\x1b{ATTACK}", [(5, 0.5)]),
    ]
    stored = {10: "#from=step+10"}
    text = chart_svg(Chart("x", lines), 3, 10, lambda line, step: stored.get(step))
    root = ElementTree.fromstring(text)
    names = [element.tag.partition("}")[2] for element in root.iter()]
    assert not {"style", "script", "img", "metadata"} & set(names)
    assert not any("style" in element.attrib for element in root.iter())
    ids = [element.get("id") for element in root.iter() if element.get("id")]
    assert all(name.startswith("c3-") for name in ids)
    spots = {e[0].text: e for e in root.iter() if e.get("class") == "spot"}
    assert list(spots) == [
        "step 0, player_0: 0",
        "step 10, player_0: 1; click for its rollouts",
        f"step 5, $a_1$\\x1b{ATTACK}: 0.5",
    ]
    first, second, third = (
        (float(e.get("cx")), float(e.get("cy"))) for e in spots.values()
    )
    middle = ((first[0] + second[0]) / 2, (first[1] + second[1]) / 2)
    assert third == pytest.approx(middle, abs=0.02)
    assert first[1] > second[1]  # SVG counts from the top
    links = [e.get("href") for e in root.iter() if e.get("tabindex")]
    assert links == ["#from=step+10"]


def test_every_curve_has_a_number_and_a_name_in_the_legend():
    lines = [Curve(f"past {n}", [(0, float(n))]) for n in range(13)]
    chart = Chart("x", lines, {"uniform": 1.0})
    root = ElementTree.fromstring(chart_svg(chart, 0, 10, lambda line, step: None))
    numbers = {e.get("data-curve") for e in root.iter()} - {None}
    assert numbers == {str(n) for n in range(13)}
    keys = legend_of(chart)
    assert [key.label for key in keys] == [*(line.label for line in lines), "uniform"]
    assert [key.curve for key in keys] == [*range(13), None]
    assert len({key.sample for key in keys}) == 14  # color and dashes differ
    assert all(ElementTree.fromstring(key.sample) is not None for key in keys)
    assert not legend_of(Chart("x", lines[:1]))


def test_groups_games_and_scores_against_the_start_have_charts():
    start = "arena/kuhn_poker/against_start"
    record = {"arena/flat_groups": 0.5, "arena/dropped_groups": 0.25}
    record |= {start: 0.5, f"{start}_error": 0.1}
    record |= {f"arena/{g}/episode_share": 0.5 for g in ("kuhn_poker", "mini(n=2)")}
    metrics = [{"step": 10, **record}]
    charts = {chart.title: chart for chart in charts_of(metrics, {})}
    (line,) = charts["Score against the start of self-play"].lines
    assert line.label == "kuhn_poker"
    ((step, low, high),) = line.intervals
    assert step == 10
    assert [low, high] == pytest.approx([0.304, 0.696])
    flat = charts["Flat groups, share"].lines
    assert [(line.label, line.points) for line in flat] == [
        ("flat", [(10, 0.5)]),
        ("dropped", [(10, 0.25)]),
    ]
    games = charts["Episodes of each game, share"].lines
    assert [line.label for line in games] == ["kuhn_poker", "mini(n=2)"]
    assert not any("flat groups" in name for name in missing_from(metrics))
    assert "share of flat groups (arena/flat_groups)" in missing_from(METRICS)


def test_results_are_tables_with_intervals():
    stages, returns, measures = result_tables(RESULTS)
    assert stages.rows[0] == ["uniform random", "-", "0.9167"]
    assert stages.rows[1] == ["before self-play", "50.0 %", "0.9000"]
    own = ["itself", "0", "8", "-0.500", "-0.750 to -0.250", "", "", "", ""]
    assert returns.rows[0] == own
    assert [row[5] for row in returns.rows[2:]] == ["50.0 (40 to 60)", "-"]
    assert returns.rows[2][6:] == ["50.0 %", "-", "-"]
    assert returns.notes[1:] == [f"score -: it is large (seat 0 against {ATTACK})"]
    name = "before self-play"
    assert measures.rows == [[name, "chips", "1.000", "0.500 to 1.500"]]
    assert facts(RESULTS) == [("torch", "2.13.0")]
    assert not result_tables({})
    assert not facts({})


def test_estimates_are_those_of_the_stored_groups():
    found = [Recorded(n, r, "step 1") for n, r in enumerate(rollouts(2), 1)]
    for line, estimates in zip(found, estimates_of(found), strict=True):
        assert list(estimates) == list(ESTIMATORS)
        episode = line.rollout.episode
        group = [
            one.rollout.episode.returns[0]
            for one in found
            if one.rollout.episode.seed == episode.seed
        ]
        own = episode.returns[0] - sum(group) / len(group)
        wanted = [own if turn.seat == 0 else None for turn in episode.turns]
        assert estimates["dr_grpo"] == pytest.approx(wanted)
    without = [Rollout(e, [None] * len(e.turns)) for e, _ in rollouts(1)]
    assert estimates_of([Recorded(1, rollout) for rollout in without]) == [{}, {}]


def test_a_refusal_of_an_estimator_is_told():
    episode, credit = rollouts(1)[0]
    branched = replace(episode, parent=0, branch=0)
    (found,) = estimates_of([Recorded(1, Rollout(branched, credit))])
    assert "want episodes that did not branch" in found["mars"]


def test_the_page_holds_the_run_and_escapes_it(folder):
    page = report_page(read_run_files(folder, 1))
    assert ATTACK not in page
    assert "unsafe-inline" not in page
    assert len(re.findall("<script", page)) == 2  # data, and ours
    assert not re.findall(r"""<[a-z][^<>]*\s(?:src|style)=|href="[^#]|@import""", page)
    assert '<a href="#from=step+20">step 20</a>' in page
    assert "arena train --model &#39;&lt;/script&gt;" in page
    packed = re.search(r'id="data">([^<]*)<', page)[1]
    data = json.loads(gzip.decompress(base64.b64decode(packed)))
    assert [e["source"] for e in data["episodes"]] == ["step 10"] * 2 + ["step 20"] * 2
    assert all(len(e["estimates"]) == len(ESTIMATORS) for e in data["episodes"])
