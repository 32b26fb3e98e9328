"""`arena report` writes the report of a run."""

import sys

import pytest

from arena_trainers.cli.main import main
from arena_wrappers import play, write_episodes


def report(monkeypatch, *arguments):
    monkeypatch.setattr(sys, "argv", ["arena", "report", *map(str, arguments)])
    main()


def test_a_report_stands_in_the_run_folder_or_where_it_is_wanted(
    tmp_path, monkeypatch, capsys
):
    (tmp_path / "metrics.jsonl").write_text('{"step": 0, "kl": 0.5}\n{"step"\n')
    for words in ([], ["--out", tmp_path / "page.html", "--groups", "1"]):
        with pytest.raises(SystemExit) as exit_:
            report(monkeypatch, tmp_path, *words)
        assert not exit_.value.code
        out, err = capsys.readouterr()
        path = words[1] if words else tmp_path / "report.html"
        assert out == f"{path}: 1 logged step, 0 episodes\n"
        assert (
            err
            == "metrics.jsonl, line 2 is left out: want a JSON object with its step\n"
        )
        assert "KL to the reference" in path.read_text()


def test_a_report_of_several_runs_needs_its_own_place(tmp_path, monkeypatch, capsys):
    runs = [tmp_path / name for name in "ab"]
    for run in runs:
        run.mkdir()
        (run / "metrics.jsonl").write_text('{"step": 0, "kl": 0.5}\n')
    with pytest.raises(SystemExit, match="2"):
        report(monkeypatch, *runs)
    assert "got 2 without; add --out OUT" in " ".join(capsys.readouterr().err.split())
    (tmp_path / "cups").mkdir()
    with pytest.raises(SystemExit, match="2"):
        report(monkeypatch, runs[0], tmp_path / "cups")
    told = " ".join(capsys.readouterr().err.split())
    assert "want run folders (with metrics.jsonl) in a report of several" in told
    page = tmp_path / "both.html"
    with pytest.raises(SystemExit, match="0"):
        report(monkeypatch, *runs, "--out", page)
    assert capsys.readouterr().out == f"{page}: 2 logged steps, 0 episodes\n"


def test_a_file_of_episodes_has_its_page_beside_it(tmp_path, monkeypatch, capsys):
    file = tmp_path / "found.jsonl"
    write_episodes(file, play("kuhn_poker", ["random"] * 2, range(2)))
    with pytest.raises(SystemExit, match="0"):
        report(monkeypatch, file)
    page = tmp_path / "found.html"
    assert capsys.readouterr().out == f"{page}: 0 result tables, 2 episodes\n"
    assert "found.results.jsonl: there are no results" in page.read_text()
    with pytest.raises(SystemExit, match="2"):
        report(monkeypatch, file, "--follow")
    assert "want --follow with folders of runs" in capsys.readouterr().err


def test_a_missing_input_is_named_before_its_folder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(SystemExit, match="2"):
        report(monkeypatch, "no/episodes.jsonl")
    assert "found none at 'no/episodes.jsonl'" in capsys.readouterr().err


def test_a_folder_that_is_no_run_is_refused(tmp_path, monkeypatch, capsys):
    with pytest.raises(SystemExit, match="2"):
        report(monkeypatch, tmp_path)
    assert "give the --output-dir of arena train" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_a_run_with_rounds_names_a_round(tmp_path, monkeypatch, capsys):
    (tmp_path / "start-scores.json").write_text("{}")
    last_training = tmp_path / "round-01" / "train"
    for training in (tmp_path / "round-00" / "train", last_training):
        training.mkdir(parents=True)
        (training / "metrics.jsonl").touch()
    with pytest.raises(SystemExit):
        report(monkeypatch, tmp_path)
    assert f"arena report {last_training} shows" in capsys.readouterr().err


def test_only_a_report_is_overwritten(tmp_path, monkeypatch, capsys):
    (tmp_path / "metrics.jsonl").write_text('{"step": 0}\n')
    config = tmp_path / "config.yaml"
    config.write_text("seed: 1\n")
    with pytest.raises(SystemExit, match="2"):
        report(monkeypatch, tmp_path, "--out", config)
    wanted = "config.yaml exists and was not written by arena report; give another OUT"
    assert wanted in " ".join(capsys.readouterr().err.split())
    assert config.read_text() == "seed: 1\n"
    for _ in range(2):
        with pytest.raises(SystemExit, match="0"):
            report(monkeypatch, tmp_path)
