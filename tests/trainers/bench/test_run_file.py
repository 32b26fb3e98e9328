"""Doing the missing runs of a comparison: what a failing run leaves."""

import time

import pytest

from arena_trainers.bench import run_file

MADE_WITH = {"settings": {"small": 1}, "variants": {"good": 1, "bad": 1}}


def run(setting, name, seed):
    if name == "bad":
        raise ZeroDivisionError(f"{setting} has no {seed}")
    time.sleep(0.1)  # still in progress when the other one fails
    return [seed]


def test_a_failing_run_is_named_and_leaves_those_in_progress(tmp_path):
    path, told = tmp_path / "bench.json", []
    todo = [("small", "good", 0), ("small", "bad", 0)]
    todo += [("small", "good", seed) for seed in range(1, 50)]
    with pytest.raises(ZeroDivisionError, match="small has no 0") as failed:
        run_file.run_missing(path, MADE_WITH, todo, run, 2, told.append)
    assert failed.value.__notes__ == [
        "in the run small bad seed 0; runs that have ended are in the file"
    ]
    kept = run_file.read(path, MADE_WITH)["small"]["good"]
    assert kept[0] == [0]
    assert len(kept) == len(told) < 10
    left = run_file.missing({"small": {"good": kept}}, ["good"], ["small"], 50)
    assert len(left) == 50 - len(kept)


def test_a_file_that_does_not_exist_has_no_outdated_runs(tmp_path):
    assert run_file.num_outdated(tmp_path / "bench.json", MADE_WITH) == 0
