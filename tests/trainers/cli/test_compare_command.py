"""`arena compare` and `arena bench attribute`: levels of hold-out, forms of output, mistakes."""

import csv
import io
import json
import re

import pytest

from arena_envs import make_game
from arena_eval.comparison import level_of
from arena_trainers.cli.training_games import training_games

SMALL = ("-n", "4", "-g", "kuhn_poker")


def test_levels_of_hold_out_come_from_the_runs_of_the_trained_model(tmp_path):
    """A run counts with the run that it started from."""
    for name, game, model in (("a", "nim", "tiny"), ("b", "kuhn_poker", "a/model")):
        (tmp_path / name / "model").mkdir(parents=True)
        text = f"games: [{game}]\nmodel: {tmp_path / model}\n"
        (tmp_path / name / "config.yaml").write_text(text)
    games, names = training_games(f"lm:{tmp_path}/b/model", None)
    assert names == ["kuhn_poker", "nim"]
    three = make_game("kuhn_poker", num_players=3)
    levels = [
        level_of(one, games) for one in (make_game("nim"), three, make_game("hex"))
    ]
    assert levels == ["trained", "sibling", "held out"]
    assert level_of(three, training_games("random", None)[0]) == "unknown"


def test_games_of_a_run_may_be_written_with_commas(tmp_path):
    """As `arena train --games a,b` writes them."""
    (tmp_path / "config.yaml").write_text("games: nim,questions(protocol=vote)\n")
    _, names = training_games(f"lm:{tmp_path}/model", None)
    assert names == ["nim", "questions(protocol=vote)"]


def test_the_games_of_the_training_can_be_given(arena_here):
    done = arena_here("compare", "first", "cfr:5", *SMALL, "--trained-on", "nim,hex")
    assert "kuhn_poker\theld out\trandom\tdifference\t4\t" in done.stdout
    assert "The training's games: nim, hex" in done.stdout


def test_csv_has_the_numbers_of_json(arena_here):
    found = json.loads(arena_here("compare", "first", "cfr:5", *SMALL, "--json").stdout)
    lines = io.StringIO(arena_here("compare", "first", "cfr:5", *SMALL, "--csv").stdout)
    for row, record in zip(found, csv.DictReader(lines), strict=True):
        assert (float(record["value"]), int(record["num_seeds"])) == (row["value"], 4)
    paid = {row["role"]: row["value"] for row in found}
    assert paid["difference"] == pytest.approx(paid["trained"] - paid["base"])


def test_a_page_shows_the_difference_and_the_episodes(tmp_path, arena_here):
    page = tmp_path / "a.html"
    files = ("--out", str(tmp_path / "a.jsonl"), "--page", str(page))
    done = arena_here("compare", "first", "cfr:5", *SMALL, *files, "--latex")
    assert done.returncode == 0
    assert done.stdout.count(r"\end{tabular}") == 1
    text = page.read_text()
    assert re.search(r"<td>[-.\d]+ \(exact\)</td>", text)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("random", "first", "--page", "no/a.html"), "no folder 'no'"),
        (("random", "first", *SMALL, "--suite", "mars"), "want --suite or --games"),
        (("random", "first", "--suite", "transfr"), "did you mean 'transfer'"),
        (("random", "rndom"), "no policy 'rndom'"),
        (("random", "first", "--trained-on", "kuhn"), "unknown game 'kuhn'"),
    ],
)
def test_mistakes_are_one_sentence(arguments, sentence, arena_here):
    done = arena_here("compare", *arguments)
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())


def test_lost_episodes_are_told_and_the_status_is_1(arena_here):
    done = arena_here(
        "compare", "random", "api:m@http://127.0.0.1:9/v1#max_retries=0", *SMALL
    )
    assert done.returncode == 1
    assert "lost" in done.stderr


VOTE = "questions(protocol=vote)"


def test_equal_policies_have_no_value_in_any_seat(arena_here):
    done = arena_here(
        *("bench", "attribute", "first", VOTE, "--base", "first", "-n", "3", "--json")
    )
    found = json.loads(done.stdout)
    assert found["method"] == "exact"
    assert [row["value"] for row in found["seats"]] == [0, 0, 0]


def test_the_table_of_seats_says_what_a_value_below_0_is(arena_here):
    done = arena_here(
        "bench", "attribute", "random", VOTE, "--base", "first", "-n", "3"
    )
    assert "below 0: the policy lowers it" in done.stdout
    assert "95 % intervals over n seeds" in done.stdout


def test_a_team_of_one_seat_is_refused(arena_here):
    done = arena_here("bench", "attribute", "first", "kuhn_poker")
    assert done.returncode == 2
    assert "want a team of two seats at least" in " ".join(done.stderr.split())
