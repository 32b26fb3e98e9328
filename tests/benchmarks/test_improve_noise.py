"""Noise in place of texts is hardly ever accepted by `arena improve`."""

import json
import runpy
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def test_at_most_16_of_200_recorded_runs_accept_a_text_of_noise():
    """The share of 5 % is 10 runs, and 16 is the 97.5 % quantile of a binomial law."""
    recorded = json.loads((BENCHMARKS / "improve_noise.json").read_text())
    runs = recorded["each"]
    assert len(runs) == len({run["run"] for run in runs}) == 200
    assert sum(run["is_accepted"] for run in runs) == recorded["accepted"] <= 16
    # without a confirmation most runs would have kept a text
    assert sum(run["is_first_in_race"] for run in runs) > 100


@pytest.mark.slow
def test_noise_is_not_accepted():
    """More than 5 of 40 would be accepted in one of 70 tests, if 1 in 20 runs did."""
    module = runpy.run_path(str(BENCHMARKS / "improve_noise.py"))
    options = {"num_rounds": 1, "num_texts": 2, "num_episodes": 60}
    runs = [module["run_of"](number, "kuhn_poker", **options) for number in range(40)]
    assert sum(run["is_accepted"] for run in runs) <= 5
