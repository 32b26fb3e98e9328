"""`arena compare`, called as a user would."""

import csv
import io
import json
import shutil
from pathlib import Path
from typing import Any

import pytest

SMALL = ("-n", "4", "-g", "kuhn_poker")


@pytest.fixture
def run(tmp_path: Path, model_folder: Path) -> Path:
    """The folder of a run of Kuhn poker, with a model."""
    folder = tmp_path / "run"
    shutil.copytree(model_folder, folder / "model")
    (folder / "config.yaml").write_text("games: [kuhn_poker]\nmodel: tiny\n")
    return folder


def test_levels_of_hold_out_come_from_the_run_of_the_trained_model(
    run: Path, arena_here: Any
) -> None:
    games = ("-g", "kuhn_poker,kuhn_poker(num_players=3),nim")
    done = arena_here(
        "compare", "random", f"lm:{run}/model", *games, "-n", "2", "--json"
    )
    assert done.returncode == 0, done.stderr
    rows = [row for row in json.loads(done.stdout) if row["role"] == "trained"]
    assert [row["level"] for row in rows] == ["trained", "sibling", "held out"]
    assert all(row["trained_on"] == ["kuhn_poker"] for row in rows)
    assert all(row["tokens"] > 0 and row["num_seeds"] == 2 for row in rows)


def test_the_games_of_the_training_can_be_given(arena_here: Any) -> None:
    done = arena_here("compare", "first", "cfr:5", *SMALL, "--trained-on", "nim,hex")
    assert "kuhn_poker\theld out\trandom\tdifference\t4\t" in done.stdout
    assert "The training's games: nim, hex" in done.stdout


def test_the_level_is_unknown_without_a_run(arena_here: Any) -> None:
    done = arena_here("compare", "first", "cfr:5", *SMALL)
    assert "kuhn_poker\tunknown\trandom" in done.stdout
    assert "give --trained-on GAME" in done.stdout


def test_csv_has_the_numbers_of_json(arena_here: Any) -> None:
    shown = arena_here("compare", "first", "cfr:5", *SMALL, "--json").stdout
    found = json.loads(shown)
    shown = arena_here("compare", "first", "cfr:5", *SMALL, "--csv").stdout
    for row, record in zip(found, csv.DictReader(io.StringIO(shown)), strict=True):
        assert (float(record["value"]), int(record["num_seeds"])) == (row["value"], 4)
    paid = {row["role"]: row["value"] for row in found}
    assert paid["difference"] == pytest.approx(paid["trained"] - paid["base"])


def test_latex_has_the_table(arena_here: Any) -> None:
    done = arena_here("compare", "first", "cfr:5", *SMALL, "--latex")
    assert done.stdout.count(r"\end{tabular}") == 1


def test_a_page_shows_the_difference_and_the_episodes(
    tmp_path: Path, arena_here: Any
) -> None:
    out, page = tmp_path / "a.jsonl", tmp_path / "a.html"
    files = ("--out", str(out), "--report", str(page))
    done = arena_here("compare", "first", "cfr:5", *SMALL, *files)
    assert done.returncode == 0, done.stderr
    assert "cfr:5 less first against random, paired by 4 seeds" in page.read_text()
    assert arena_here("compare", "first", "cfr:5", *SMALL, *files).returncode == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("random", "first", "--report", "a.html"), "want --out FILE with --report"),
        (("random", "first", "--suite", "transfr"), "did you mean 'transfer'"),
        (("random", "rndom"), "no policy 'rndom'"),
        (("random", "first", "--trained-on", "kuhn"), "unknown game 'kuhn'"),
    ],
)
def test_mistakes_are_one_sentence_and_status_2(
    arguments: tuple[str, ...], sentence: str, arena_here: Any
) -> None:
    done = arena_here("compare", *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert sentence in " ".join(done.stderr.split())


def test_lost_episodes_are_told_and_the_status_is_1(arena_here: Any) -> None:
    dead = "api:m@http://127.0.0.1:9/v1#max_retries=0"
    done = arena_here("compare", "random", dead, *SMALL)
    assert done.returncode == 1
    assert "episodes of" in done.stderr
    assert "lost" in done.stderr
