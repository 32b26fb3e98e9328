"""Sweeps: which runs they have, what they refuse, and their intervals over seeds."""

import json
import sys

import pytest
import typer

from arena_trainers.cli.sweep import _grid, _train_once


@pytest.fixture
def shown(arena_here):
    return lambda *arguments: arena_here("bench", "sweep", "kuhn-tiny", *arguments)


def finished(folder, value):
    """What a finished run leaves of a game in which NashConv is exact."""
    folder.mkdir(parents=True)
    outcome = {"stages": [{"nash_conv": value}], "evaluation": []}
    results = {"outcomes": {"kuhn_poker": outcome}}
    (folder / "results.json").write_text(json.dumps(results))


def test_differences_are_paired_by_seeds_and_from_the_first_combination(
    tmp_path, shown
):
    """By hand: differences .1, .1, .4; Student's half width 4.303 * .1732 / sqrt 3."""
    for seed, (one, other) in enumerate([(0.5, 0.6), (0.7, 0.8), (0.3, 0.7)]):
        finished(tmp_path / "credit=mars" / f"seed-{seed}", one)
        finished(tmp_path / "credit=episode" / f"seed-{seed}", other)
    options = ("--vary", "credit=mars,episode", "--output-dir", tmp_path, "--json")
    done = shown(*options)
    assert done.returncode == 0, done.stderr
    first, second = json.loads(done.stdout)
    assert (first["difference"], first["difference_low"]) == (0, None)
    assert second["num_seeds"] == 3
    assert second["difference"] == pytest.approx(0.2)
    half = 4.3027 * 0.173205 / 3**0.5
    assert second["difference_low"] == pytest.approx(0.2 - half, abs=1e-4)


def test_a_grid_has_all_combinations_and_brackets_protect_commas():
    assert _grid(["a=1,2", "b=[1, 2],3"]) == [
        ("a=1", "b=[1, 2]"),
        ("a=1", "b=3"),
        ("a=2", "b=[1, 2]"),
        ("a=2", "b=3"),
    ]


def test_tied_options_vary_as_one():
    assert _grid(["a+b=1+2,3+4", "c=1+1"]) == [
        ("a=1", "b=2", "c=1+1"),
        ("a=3", "b=4", "c=1+1"),
    ]


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        (["--vary", "credit"], "want --vary KEY=VALUE,VALUE, got 'credit'"),
        (["--vary", "a+b=1+2,3"], "want --vary KEY=VALUE,VALUE, got 'a+b=1+2,3'"),
        (["--vary", "credti=mars"], "credti"),
        (["--vary", "credit=mars", "--max_stepz", "3"], "max_stepz"),
    ],
)
def test_mistakes_are_told_before_anything_is_trained(
    options, sentence, tmp_path, shown
):
    done = shown(*options, "--output-dir", tmp_path / "new")
    assert done.returncode == 2
    assert sentence in " ".join(done.stderr.split())
    assert not (tmp_path / "new").exists()


def test_a_folder_of_another_sweep_is_refused(tmp_path, shown):
    (tmp_path / "sweep.json").write_text('["leduc-tiny"]')
    error = shown("--vary", "credit=mars", "--output-dir", tmp_path).stderr
    assert "is of a sweep of leduc-tiny" in " ".join(error.split())


def test_a_dry_run_prints_the_plans_alone(tmp_path, shown):
    folder = tmp_path / "new"
    options = ("--vary", "credit=mars", "--output-dir", folder, "--seeds", 1)
    done = shown(*options, "--tiny.num_layers", 1, "--dry-run")
    assert done.returncode == 0
    assert done.stdout.count("refused on this machine") == 1
    assert not folder.exists()


@pytest.mark.parametrize(("name", "status"), [("INT", 130), ("TERM", 143)])
def test_a_signal_to_the_sweep_alone_reaches_its_run_which_saves_a_checkpoint(
    name, status, tmp_path, monkeypatch, capsys
):
    trainer = tmp_path / "trainer"
    trainer.write_text(
        f"#!/bin/sh\ntrap 'sleep 0.3; touch {tmp_path}/saved; exit {status}' {name}\n"
        f"kill -{name} $PPID\nwhile :; do sleep 0.05; done"
    )
    trainer.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(trainer))
    with pytest.raises(typer.Exit) as stopped:
        _train_once(tmp_path / "run", [])
    assert (tmp_path / "saved").exists()
    assert stopped.value.exit_code == status
    assert "the same command goes on" in capsys.readouterr().err


def test_a_number_without_interval_has_no_brackets(tmp_path, shown):
    finished(tmp_path / "credit=mars" / "seed-0", 0.5)
    options = ("--vary", "credit=mars", "--output-dir", tmp_path, "--seeds", 1)
    assert "\tNashConv\t1\t0.500\t0.000\n" in shown(*options).stdout
