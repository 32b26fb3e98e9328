"""The reports of an evaluation and of a tournament."""

import json
import re
from dataclasses import asdict

import pytest

from arena_eval import evaluate
from arena_eval.luck import Adjusted
from arena_eval.tournament import play_tournament
from arena_studio.report.played_report import (
    played_page,
    read_evaluation,
    read_tournament,
)
from arena_studio.report.text_tables import TableCell
from arena_wrappers import ScriptedPolicy

ATTACK = "<img src=x onerror=alert(1)>"


def broken():
    policy = ScriptedPolicy(["<answer>pass</answer>", "nothing"])
    policy.name = ATTACK
    return policy


@pytest.fixture(scope="module")
def evaluation(tmp_path_factory):
    path = tmp_path_factory.mktemp("eval") / "found.jsonl"
    found = evaluate(broken(), "kuhn_poker", ["random"], 3, baselines=False, out=path)
    return path, found


def test_an_evaluation_has_rows_with_reasons_that_open_their_episodes(evaluation):
    path, found = evaluation
    read = read_evaluation(path, 2)
    (table,) = read.tables
    assert table.title == "kuhn_poker-v0 (num_players=2)"
    assert len(table.rows) == len(found.rows) == 3
    invalid = table.heads.index("invalid")
    for row, wanted in zip(table.rows, found.rows, strict=True):
        assert row[3:5] == [str(wanted.seat), str(wanted.num_episodes)]
        ends = f"{wanted.low:z.3f} to {wanted.high:z.3f}"
        assert row[6:8] == [f"{wanted.mean_return:z.3f}", ends]
        reasons = ", ".join(f"{k} {v:.1%}" for k, v in wanted.invalid.items())
        assert row[invalid] == (reasons or "0")
    assert any("illegal" in row[invalid] for row in table.rows)
    lineups = {line.source for line in read.episodes}
    first = f"kuhn_poker-v0: {ATTACK} / random"
    assert first in lineups
    assert table.rows[0][0].text == ATTACK
    assert table.rows[0][0].link.startswith("#from=kuhn_poker-v0%3A+%3Cimg")
    assert table.rows[2][0].link == ""
    assert read.left + len(read.episodes) == 6
    assert all(
        sum(line.source == lineup for line in read.episodes) <= 2 for lineup in lineups
    )
    assert not read.missing


def test_a_mean_with_the_luck_taken_out_is_read(evaluation, tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text(evaluation[0].read_text())
    results = json.loads(evaluation[0].with_suffix(".results.jsonl").read_text())
    adjusted = Adjusted(0.25, -0.5, 1.0, 3.0, "fitted", 0.1)
    results["rows"][0]["adjusted"] = asdict(adjusted)
    path.with_suffix(".results.jsonl").write_text(json.dumps(results) + "\n")
    read = read_evaluation(path, 2)
    assert len(read.tables) == 1
    assert not read.bad


def test_the_page_of_an_evaluation_escapes_what_players_wrote(evaluation):
    page = played_page(read_evaluation(evaluation[0], 2))
    assert ATTACK not in page
    assert "Made by arena report." in page
    assert not re.findall(r"""<[a-z][^<>]*\s(?:src|style)=|href="[^#]|@import""", page)


def test_episodes_without_results_are_shown(evaluation, tmp_path):
    path = tmp_path / "alone.jsonl"
    path.write_text(evaluation[0].read_text() + '{"game": ')
    read = read_evaluation(path, 9)
    assert not read.tables
    assert len(read.episodes) == 6
    assert [(file, line.line) for file, line in read.bad] == [("alone.jsonl", 7)]
    assert read.missing[0].startswith("alone.results.jsonl: there are no results")
    path.write_text("\n")
    with pytest.raises(ValueError, match="holds none; give the --out file"):
        read_evaluation(path, 1)


def test_results_that_cannot_be_read_are_named_and_the_others_shown(
    evaluation, tmp_path
):
    source = evaluation[0]
    path, beside = tmp_path / "found.jsonl", tmp_path / "found.results.jsonl"
    path.write_bytes(source.read_bytes())
    whole = source.with_name("found.results.jsonl").read_text()
    beside.write_text(f"[]\n{whole}{{}}\n{whole[:50]}\n{100_000 * '['}")
    read = read_evaluation(path, 2)
    assert len(read.tables) == 1
    assert [(file, line.line) for file, line in read.bad] == [
        (beside.name, number) for number in (1, 3, 4, 5)
    ]
    assert "want the results of an evaluation" in read.bad[0][1].reason


def test_each_payoff_of_a_tournament_opens_the_episodes_of_the_two(tmp_path):
    names, games = ["first", "random", "constant:1"], ["kuhn_poker", "tiny_hanabi"]
    out = tmp_path / "results.jsonl"
    found = play_tournament(names, games, 3, out=out)
    read = read_tournament(tmp_path, 2)
    assert read.missing == [
        "summary.json: the tournament is not finished; the same command resumes it"
    ]
    (tmp_path / "summary.json").write_text(json.dumps(found.to_dict()))
    read = read_tournament(tmp_path, 2)
    assert read.name == tmp_path.name
    payoffs, cooperative, ranking, *_ = read.tables
    assert payoffs.heads == ["against", *names]
    mean = found.games[0].payoffs[0][1].mean
    cell = payoffs.rows[0][2]
    assert isinstance(cell, TableCell)
    assert cell.text.startswith(f"{mean:.3f} (")
    assert cell.link == "#from=kuhn_poker-v0%3A+first+and+random"
    assert payoffs.rows[1][1].link == cell.link
    assert payoffs.rows[0][1] == "-"
    assert cooperative.rows[0][1].link.endswith("first+with+itself")
    heats = [c.heat for row in payoffs.rows for c in row if isinstance(c, TableCell)]
    assert max(map(abs, heats)) == 5
    assert [row[0] for row in ranking.rows] == list(found.games[0].ranking)
    assert ranking.notes[0].startswith("ordered by Nash average, then return; ")
    best = found.games[0].means[names.index(found.games[0].ranking[0])]
    assert ranking.rows[0][4].endswith(f" ({best.low:z.3f} to {best.high:z.3f})")
    sources = [line.source for line in read.episodes]
    assert sources.count("kuhn_poker-v0: first and random") == 2
    assert read.left == len(out.read_text().splitlines()) - 1 - len(sources)
    with open(out, "a") as file:
        file.write('{"match": {"game": "x"}\n')
    (bad,) = read_tournament(tmp_path, 2).bad
    assert bad[0] == "results.jsonl"
    (tmp_path / "summary.json").write_text("[]")
    with pytest.raises(ValueError, match=r"summary.json' does not hold .* remove"):
        read_tournament(tmp_path, 2)


def test_few_episodes_of_long_games_fit_into_a_page(evaluation, monkeypatch):
    monkeypatch.setattr("arena_studio.report.played_report.MAX_TURNS", 1)
    read = read_evaluation(evaluation[0], 9)
    sources = [line.source for line in read.episodes]
    assert len(sources) == len(set(sources))
