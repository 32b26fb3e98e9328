"""`arena credit audit`, called as a user would."""

import sys

import pytest
from typer.testing import CliRunner

from arena_trainers.cli.main import app


def run(*arguments):
    return CliRunner().invoke(app, ["credit", *arguments])


@pytest.mark.slow
def test_a_wrong_function_is_shown_with_its_smallest_game(tmp_path, monkeypatch):
    (tmp_path / "my_audited.py").write_text(
        "def wrong(rewards):\n    return [0 * own - own.sum() for own in rewards]\n"
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command adds to it
    done = run("audit", "my_audited:wrong", "--signature", "episodes")
    assert done.exit_code == 1
    assert "reversed in stop_or_go" in done.output
    assert done.output.splitlines()[-1] == "worst: reversed"


def test_a_name_of_another_form_is_told_the_form():
    done = run("audit", "mars")
    assert str(done.exception) == "want a function as module:name, got 'mars'"


def test_a_wrong_signature_is_suspected(tmp_path, monkeypatch):
    (tmp_path / "my_verl.py").write_text("def mine(rewards, mask, index): ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    done = run("audit", "my_verl:mine")
    assert done.exit_code == 1
    assert "is it called as --signature turns?" in done.output


def test_games_are_compared_with_openspiel():
    pytest.importorskip("pyspiel")
    done = run("audit-game", "kuhn_poker", "--twin", "openspiel:kuhn_poker")
    assert (done.exit_code, done.output[:13]) == (0, "no difference")
    done = run(
        "audit-game", "kuhn_poker(num_players=3)", "--twin", "openspiel:kuhn_poker"
    )
    assert done.exit_code == 1
    assert "chance_outcomes differ" in done.output
