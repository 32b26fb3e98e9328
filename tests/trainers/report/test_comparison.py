"""The report of several runs: curves, results and starts of both."""

import base64
import gzip
import json
import re

import pytest

from arena_eval.rollouts import Rollout, TurnCredit, write_rollouts
from arena_studio.report.comparison import (
    compared_charts,
    compared_tables,
    name_sources,
    setting_table,
    start_table,
)
from arena_studio.report.curves import Curve
from arena_studio.report.run_files import read_runs
from arena_studio.report.run_report import report_page
from arena_wrappers import play

GAME = "kuhn_poker"
ATTACK = "<img src=x onerror=alert(1)>"


def write_run(folder, stored, value, game=GAME):
    """A run with rollouts: the seeds of each step."""
    (folder / "rollouts").mkdir(parents=True)
    record = {"step": 10, f"arena/{game}/player_0/return": value, "kl": value}
    (folder / "metrics.jsonl").write_text(json.dumps(record) + "\n")
    stage = {"name": "after", "num_episodes": 8, "nash_conv": value}
    results = {
        "outcomes": {GAME: {"stages": [stage]}},
        "nash_conv": {"uniform": 0.9},
        "seed": int(value),
    }
    (folder / "results.json").write_text(json.dumps(results))
    (folder / "config.yaml").write_text(f"seed: {int(value)}\nmodel: tiny\n")
    for step, seeds in stored.items():
        rollouts = [
            Rollout(episode, [TurnCredit("mars", 0.5)] * len(episode.turns))
            for episode in play(GAME, ["random"] * 2, seeds, num_samples=2)
        ]
        write_rollouts(folder / "rollouts" / f"step-{step}.jsonl", rollouts)
    return folder


@pytest.fixture
def folders(tmp_path):
    return [
        write_run(tmp_path / "a", {10: [1], 15: [2], 20: [3]}, 1.0),
        write_run(tmp_path / ATTACK, {10: [1], 20: [4], 25: [5]}, 2.0),
    ]


def test_runs_give_the_steps_that_both_stored_and_their_last_ones(folders):
    first, second = read_runs(folders, 2)
    assert list(first.sources) == [10, 20]
    assert list(second.sources) == [10, 20, 25]
    assert (first.left, second.left) == (2, 0)


def test_steps_of_runs_are_thinned_out_alike(folders, monkeypatch):
    monkeypatch.setattr("arena_studio.report.run_files.MAX_TURNS", 1)
    first, second = read_runs(folders, 2)
    assert (list(first.sources), list(second.sources)) == ([20], [25])


def test_curves_of_runs_lie_in_one_chart(folders):
    charts = {chart.title: chart for chart in compared_charts(read_runs(folders, 1))}
    kl = charts["KL to the reference, nats per token"].lines
    assert kl == [
        Curve("a", [(10, 1.0)], run=0, series="KL"),
        Curve(ATTACK, [(10, 2.0)], run=1, series="KL"),
    ]
    (title,) = (title for title in charts if "return per seat" in title)
    assert [line.label for line in charts[title].lines] == ["a", ATTACK]


def test_results_settings_and_starts_stand_side_by_side(folders):
    runs = name_sources(read_runs(folders, 2))
    (stages,) = compared_tables(runs)
    assert stages.heads[:2] == ["policy", "run"]
    assert [row[:2] for row in stages.rows] == [["after", "a"], ["after", ATTACK]]
    assert [row[3] for row in stages.rows] == ["1.0000", "2.0000"]
    assert setting_table(runs).rows == [["seed", "1", "2"]]
    games = ["games: kuhn_poker", "games: [kuhn_poker]", "games: [kuhn_poker, nim]"]
    one, listed, two = (runs[0]._replace(config=text) for text in games)
    assert setting_table([one, listed]).rows == []
    assert len(setting_table([one, two]).rows) == 1
    levels = (f"k{n}: &k{n} [*k{n - 1}, *k{n - 1}]\n" for n in range(1, 40))
    digits = "x: 0x" + 4_000 * "f"
    aliases = "k0: &k0 x\n" + "".join(levels)
    for text in (aliases, "x: 2026-99-99", 2_000 * "[", digits):
        rows = setting_table([one, runs[1]._replace(config=text)]).rows
        assert rows == [["games", "kuhn_poker", "unreadable"]]
    ((moment, game, seed, *cells),) = start_table(runs).rows
    assert (moment, game, seed) == ("step 10", "kuhn_poker-v0", "1")
    means = [
        sum(line.rollout.episode.returns[0] for line in run.episodes[:2]) / 2
        for run in runs
    ]
    assert [cell.text.partition(",")[0] for cell in cells] == [
        f"{mean:+.3g}" for mean in means
    ]
    assert cells[0].link == "#from=a%2C+step+10&line=1"


def test_the_page_of_runs_escapes_them_and_joins_groups(folders):
    page = report_page(*read_runs(folders, 2))
    assert ATTACK not in page
    assert not re.findall(r"""<[a-z][^<>]*\s(?:src|style)=|href="[^#]|@import""", page)
    data = json.loads(
        gzip.decompress(base64.b64decode(re.search(r'id="data">([^<]*)<', page)[1]))
    )
    members = [e for e in data["episodes"] if e["moment"] == "step 10"]
    assert [e["source"] for e in members] == ["a, step 10"] * 2 + [
        f"{ATTACK}, step 10"
    ] * 2
    assert {e["seed"] for e in members} == {"1"}


def test_runs_that_cannot_be_compared_are_refused(folders, tmp_path):
    other = write_run(tmp_path / "c", {}, 1.0, game="tic_tac_toe")
    with pytest.raises(ValueError, match=r"got kuhn_poker \(a\) and tic_tac_toe \(c\)"):
        report_page(*read_runs([folders[0], other], 1))
    with pytest.raises(ValueError, match="a twice; give it once"):
        read_runs([folders[0], folders[0]], 1)
    with pytest.raises(ValueError, match="want at most 6 runs in a report, got 7"):
        read_runs([folders[0]] * 7, 1)
