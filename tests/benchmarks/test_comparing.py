"""Doing the missing runs of a comparison: what a failing run leaves."""

import doctest
import importlib
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import comparing

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
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
        comparing.run_missing(path, MADE_WITH, todo, run, 2, told.append)
    assert failed.value.__notes__ == [
        "in the run small bad seed 0; runs that have ended are in the file"
    ]
    kept = comparing.read(path, MADE_WITH)["small"]["good"]
    assert kept[0] == [0]
    assert len(kept) == len(told) < 10
    left = comparing.missing({"small": {"good": kept}}, ["good"], ["small"], 50)
    assert len(left) == 50 - len(kept)


def test_a_file_that_does_not_exist_has_no_outdated_runs(tmp_path):
    assert comparing.num_outdated(tmp_path / "bench.json", MADE_WITH) == 0


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", r"got another or a damaged file \(JSONDecodeError: .*delete it or give"),
        ("[]", r"damaged file \(TypeError"),
        ("{}", r"damaged file \(KeyError: 'settings'\); delete it"),
        (
            '{"settings": {}, "variants": {"mars": 1, "rae": 1}, "runs": {}}',
            r"want runs of good, bad.* got those of another comparison \(mars, rae\.\.\.\)",
        ),
    ],
)
def test_a_file_without_runs_of_this_comparison_is_refused(tmp_path, text, sentence):
    path = tmp_path / "bench.json"
    path.write_text(text)
    for look in (comparing.read, comparing.num_outdated):
        with pytest.raises(ValueError, match=sentence):
            look(path, MADE_WITH)
    assert path.read_text() == text


SCRIPT = """
import sys, time
from pathlib import Path
sys.path.insert(0, sys.argv[2])
import comparing

def run(setting, name, seed):
    (Path(sys.argv[1]) / f"began-{seed}").touch()
    time.sleep(60 * seed)

todo = [("small", "good", seed) for seed in range(5)]
made_with = {"settings": {"small": 1}, "variants": {"good": 1}}
comparing.run_missing(Path(sys.argv[1], "bench.json"), made_with, todo, run, 1, print)
"""


def test_after_ctrl_c_no_other_run_begins(tmp_path):
    """Run 0 has ended, run 1 goes on: Ctrl-C ends it, and the file has run 0."""
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, str(tmp_path), str(BENCHMARKS)],
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    try:
        for _ in range(1200):
            if (tmp_path / "began-1").exists() and (tmp_path / "bench.json").exists():
                break
            time.sleep(0.05)
        os.killpg(process.pid, signal.SIGINT)
        _, said = process.communicate(timeout=120)
    finally:
        process.kill()
        process.communicate()
    assert said.endswith(b"KeyboardInterrupt\n")
    assert sorted(path.name for path in tmp_path.glob("began-*")) == [
        "began-0",
        "began-1",
    ]
    made_with = {"settings": {"small": 1}, "variants": {"good": 1}}
    assert comparing.read(tmp_path / "bench.json", made_with) == {
        "small": {"good": {0: None}}
    }


@pytest.mark.parametrize("name", ["comparing", "credit_bench", "methods_bench"])
def test_the_examples_of_docstrings_hold(name):
    failed, tried = doctest.testmod(importlib.import_module(name))
    assert (failed, tried > 0) == (0, True)
