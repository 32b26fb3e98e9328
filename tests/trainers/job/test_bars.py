"""What the default job has to reach; takes about ten minutes on one core."""

import json
import statistics
import subprocess
import sys

import pytest

from arena_trainers.evaluate import evaluate


@pytest.fixture(scope="module")
def default_runs(tmp_path_factory):
    """The folders of the default job with three seeds."""
    folders = [tmp_path_factory.mktemp("run") / str(seed) for seed in range(3)]
    for seed, folder in enumerate(folders):
        command = [sys.executable, "-m", "arena_trainers", "train"]
        command += ["--seed", str(seed), "--output-dir", str(folder)]
        subprocess.run(command, check=True)
    return folders


@pytest.mark.slow
def test_three_seeds_of_the_default_job_approach_equilibrium(default_runs):
    found = [
        json.loads((folder / "results.json").read_text()) for folder in default_runs
    ]
    final = statistics.mean(r["nash_conv"]["final"] for r in found)
    start = statistics.mean(r["nash_conv"]["warm_start"] for r in found)
    assert final <= 0.20
    assert final <= start / 2
    assert all(r["legal_rate"] >= 0.97 for r in found)


@pytest.mark.slow
def test_the_model_of_the_default_job_loses_little_to_cfr_in_1000_episodes(
    default_runs,
):
    """As `arena eval lm:RUN/model kuhn_poker --against cfr -n 1000` finds it."""
    found = evaluate(f"lm:{default_runs[0] / 'model'}", "kuhn_poker", ["cfr"], 1000)
    own = [row for row in found.rows if row.role == "policy" and row.seat != "all"]
    assert [row.seat for row in own] == [0, 1]
    for row in own:
        assert row.mean_return >= -0.1
        assert sum(row.invalid.values()) <= 0.01
