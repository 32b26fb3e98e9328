"""What the default job has to reach; takes about ten minutes on one core."""

import json
import statistics
import subprocess
import sys

import pytest


@pytest.mark.slow
def test_three_seeds_of_the_default_job_approach_equilibrium(tmp_path):
    found = []
    for seed in range(3):
        folder = tmp_path / str(seed)
        command = [sys.executable, "-m", "arena_trainers", "train"]
        command += ["--seed", str(seed), "--output-dir", str(folder)]
        subprocess.run(command, check=True)
        found.append(json.loads((folder / "results.json").read_text()))
    final = statistics.mean(r["nash_conv"]["final"] for r in found)
    start = statistics.mean(r["nash_conv"]["warm_start"] for r in found)
    assert final <= 0.20
    assert final <= start / 2
    assert all(r["legal_rate"] >= 0.97 for r in found)
