"""The script that compares two policies: records, levels of hold-out, forms of output."""

import csv
import io
import json
import random

import pytest
from typer.testing import CliRunner

from arena_envs import make_game
from arena_trainers.cli.options import UsageError
from arena_wrappers import Reply
from compare_policies import ComparisonPlan, compare, level_of, training_games
from comparing import script

SMALL = ("-n", "4", "-g", "kuhn_poker")


def shown(*arguments):
    return CliRunner().invoke(script(compare), [*arguments])


def test_cooperative_games_are_played_by_the_policy_in_all_seats():
    plan = ComparisonPlan("random", "first", {"mini_hanabi": ()}, num_episodes=4)
    rows = plan.run()
    roles = ["difference", "trained", "base", "random", "constant"]
    assert [row["role"] for row in rows] == roles
    assert {(row["against"], row["num_seeds"]) for row in rows} == {("self", 4)}


class Counted:
    """Says one word, in three tokens."""

    def __init__(self, word):
        self.name = word

    def act(self, requests):
        return [Reply(f"[{self.name}]", token_ids=[1] * 3) for _ in requests]


def test_tokens_per_point_are_those_above_random_play():
    plan = ComparisonPlan(
        Counted("pass"), Counted("bet"), {"kuhn_poker": ()}, num_episodes=50
    )
    rows = {row["role"]: row for row in plan.run()}
    trained, base, random = (rows[role] for role in ("trained", "base", "random"))
    assert trained["tokens"] >= 3
    gain = trained["value"] - random["value"]
    assert trained["tokens_per_point"] == pytest.approx(trained["tokens"] / gain)
    assert base["value"] < random["value"]
    assert base["tokens_per_point"] is None


class Guesses:
    """Answers a question with the right answer at a probability, in four tokens."""

    name = "guesses"

    def __init__(self, share):
        self.share = share

    def act(self, requests):
        replies = []
        for request in requests:
            rng = random.Random(request.seed)
            right = request.game.task(request.state).answer
            word = right if rng.random() < self.share else f"wrong {rng.random()}"
            replies.append(Reply(f"answer {word}", token_ids=[1] * 4))
        return replies


def test_solo_has_as_many_replies_as_the_tokens_of_the_team_buy():
    """Three of four tokens buy three; of three, two alike are right more often than one."""
    game = "questions(protocol=vote)"
    plan = ComparisonPlan(
        Guesses(0.1), Guesses(0.7), {game: ()}, num_episodes=100, equal_tokens=True
    )
    rows = {row["role"]: row for row in plan.run()}
    assert rows["solo"]["num_samples"] == rows["base solo"]["num_samples"] == 3
    assert rows["solo"]["tokens"] == rows["trained"]["tokens"] == 12
    # any two right of three, or the first of three that differ: .784 + .7 * .09
    assert rows["solo"]["low"] < 0.784 + 0.063 < rows["solo"]["high"]


def test_a_policy_without_tokens_has_no_solo_and_that_is_said():
    plan = ComparisonPlan(
        "first",
        "random",
        {"questions(protocol=vote)": ()},
        num_episodes=2,
        equal_tokens=True,
    )
    assert not {"solo", "base solo"} & {row["role"] for row in plan.run()}
    assert any("random, which reports no tokens" in text for text in plan.warnings)


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


def test_the_games_of_the_training_can_be_given():
    done = shown("first", "cfr:5", *SMALL, "--trained-on", "nim,hex")
    assert "kuhn_poker\theld out\trandom\tdifference\t4\t" in done.stdout
    assert "The training's games: nim, hex" in done.stdout


def test_csv_has_the_numbers_of_json():
    found = json.loads(shown("first", "cfr:5", *SMALL, "--json").stdout)
    lines = io.StringIO(shown("first", "cfr:5", *SMALL, "--csv").stdout)
    for row, record in zip(found, csv.DictReader(lines), strict=True):
        assert (float(record["value"]), int(record["num_seeds"])) == (row["value"], 4)
    paid = {row["role"]: row["value"] for row in found}
    assert paid["difference"] == pytest.approx(paid["trained"] - paid["base"])


def test_a_page_shows_the_difference_and_the_episodes(tmp_path):
    page = tmp_path / "a.html"
    files = ("--out", str(tmp_path / "a.jsonl"), "--report", str(page))
    done = shown("first", "cfr:5", *SMALL, *files, "--latex")
    assert done.exit_code == 0
    assert done.stdout.count(r"\end{tabular}") == 1
    assert "cfr:5 less first against random, paired by 4 seeds" in page.read_text()


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("random", "first", "--report", "a.html"), "want --out FILE with --report"),
        (("random", "first", *SMALL, "--suite", "mars"), "want --suite or --games"),
        (("random", "first", "--suite", "transfr"), "did you mean 'transfer'"),
        (("random", "rndom"), "no policy 'rndom'"),
        (("random", "first", "--trained-on", "kuhn"), "unknown game 'kuhn'"),
    ],
)
def test_mistakes_are_one_sentence(arguments, sentence):
    error = shown(*arguments).exception
    assert isinstance(error, UsageError)
    assert sentence in str(error)


def test_lost_episodes_are_told_and_the_status_is_1():
    done = shown("random", "api:m@http://127.0.0.1:9/v1#max_retries=0", *SMALL)
    assert done.exit_code == 1
    assert "lost" in done.stderr
