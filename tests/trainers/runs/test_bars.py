"""What the default job has to reach; takes about ten minutes on one core."""

import json
import statistics
import subprocess
import sys

import pytest

import arena_envs
from arena_envs.solvers import expected_returns
from arena_eval import tabular
from arena_trainers.lm import LMPolicy
from arena_wrappers import make_policy


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
def test_the_model_of_the_default_job_loses_little_to_cfr(default_runs):
    """Expected returns by enumeration; an equilibrium has -1/18 and 1/18."""
    game = arena_envs.make_game("kuhn_poker")
    policy = LMPolicy.from_pretrained(default_runs[0] / "model", device="cpu")
    own, _ = tabular(policy, game)
    others, _ = tabular(make_policy("cfr"), game)
    for seat in range(2):
        mixed = {key: (own if key[0] == seat else others)[key] for key in own}
        assert expected_returns(game, mixed)[seat] >= -0.1
