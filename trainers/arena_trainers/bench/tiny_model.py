"""The same comparison for a language model: `arena train` on Kuhn poker."""

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from arena_trainers.bench.experiment import (
    TINY,
    Curve,
    Runs,
    add,
    read_runs,
    write_runs,
)

ESTIMATORS = ("episode", "mars", "mars_released")
NUM_SEEDS = 3


def run_missing(path: Path, tell: Callable[[str], None]) -> Runs:
    """Trains the tiny model where a results file lacks it, and keeps the curves."""
    runs = read_runs(path)
    for seed in range(NUM_SEEDS):
        for name in ESTIMATORS:
            if str(seed) not in runs.get(TINY, {}).get(name, {}):
                tell(f"training the tiny model by {name}, seed {seed}")
                add(runs, TINY, name, seed, train(name, seed))
                write_runs(path, runs)
    return runs


def train(name: str, seed: int) -> Curve:
    """Exact NashConv of the default recipe, every ten steps."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "arena_trainers", "train", "--credit", name]
        command += ["--seed", str(seed), "--output-dir", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    key = "arena/nash_conv"
    found = {r["step"]: round(r[key], 4) for r in records if r.get(key) is not None}
    return list(found.values())
