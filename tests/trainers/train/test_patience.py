"""The others wait for work of one process, however long it takes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).with_name("patience_script.py")
TORCHRUN = ["-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]


def texts_of(folder, *launcher, kind=()):
    """What the two processes wrote at their end."""
    done = subprocess.run(
        [sys.executable, *launcher, str(SCRIPT), str(folder), *kind],
        env={**os.environ, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [(folder / f"rank{n}.txt").read_text() for n in (0, 1)]


@pytest.mark.slow
def test_work_that_takes_longer_than_a_collective_call_ends_no_process(tmp_path):
    assert texts_of(tmp_path) == ["[0, 1, 4, 9, 16] a fault of one"] * 2


@pytest.mark.slow
def test_slow_measurements_of_one_process_lose_no_run(tmp_path):
    num_played = texts_of(tmp_path, *TORCHRUN, kind=["job"])
    results = json.loads((tmp_path / "run" / "results.json").read_text())
    outcome = results["outcomes"]["kuhn_poker"]
    assert [stage["num_episodes"] for stage in outcome["stages"][1:]] == [9, 9]
    rows = [row for row in outcome["evaluation"] if row["seat"] == "all"]
    assert [row["num_episodes"] for row in rows] == [18, 18]  # two opponents
    assert num_played == [f"{2 * 5 + 2 * 9}", f"{2 * 4 + 2 * 9}"]
