"""`arena credit check`, called as a user would."""

import sys

import pytest
from typer.testing import CliRunner

from arena_trainers.cli.main import app

MINE = """
from arena_credit import claims, needs
from arena_credit.estimators.turn_level import mars

@claims(bias_infinite="exact", games_apart=True)
def kept(turns):
    return mars(turns)

@claims(groups_apart=True)
def broken(turns):
    return mars(turns)

@needs("rewards.style")
def unmeasured(turns):
    return mars(turns)
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
    (tmp_path / "my_credit.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])  # the command adds to it


def run(*arguments):
    return CliRunner().invoke(app, ["credit", "check", *arguments])


def cells(output):
    return [line.split("\t") for line in output.splitlines()]


def test_claims_are_printed_with_findings(mine):
    done = run("my_credit:kept")
    assert done.exit_code == 0, done.output
    rows = cells(done.output)
    assert ["bias_infinite", "exact", "exact"] in rows
    assert ["games_apart", "yes", "yes"] in rows
    assert ["groups_apart", "-", "-"] in rows
    assert ["zero_mean", "-", "game, seat"] in rows
    assert ["toll", "reversed", "-1.000", "-2.000", "exact", "1.000", "1.000"] in rows
    assert ["hidden_card", "exact", "1.000", "1.000"] in rows
    last = "the claims of kept hold on 40 random batches and on the diagnostic games"
    assert done.output.splitlines()[-1] == last


def test_a_broken_claim_is_an_error(mine):
    done = run("my_credit:broken", "--num-batches", "20")
    assert done.exit_code == 1
    assert "estimator 'broken' breaks a claim: `groups_apart`: other" in done.output


def test_bias_that_cannot_be_measured_is_not_claimed_to_be(mine):
    done = run("my_credit:unmeasured", "--num-batches", "5")
    assert done.exit_code == 0
    assert ["bias_two", "reversed", "-"] in cells(done.output)
    last = "bias not measured: the diagnostic games have no column rewards.style"
    assert last in done.output


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("mras", "no estimator 'mras'; did you mean 'mars'"),
        ("my_credit:nothing", "want an estimator as module:name, got"),
    ],
)
def test_an_unknown_estimator_is_refused(mine, name, message):
    done = run(name)
    assert done.exit_code != 0
    assert message in str(done.exception)
