"""The comparison for a language model: `arena train` on Kuhn poker."""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ESTIMATORS = ("episode", "mars", "mars_released")
NUM_SEEDS = 3


def train(name: str, seed: int) -> list[float]:
    """Exact NashConv of a run of the default recipe, every ten steps."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "arena_trainers", "train", "--credit", name]
        command += ["--seed", str(seed), "--output-dir", folder]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
        lines = (Path(folder) / "metrics.jsonl").read_text().splitlines()
    records = [json.loads(line) for line in lines]
    key = "arena/nash_conv"
    measured = [r for r in records if r["step"] > 0 and r.get(key) is not None]
    return list({r["step"]: round(r[key], 4) for r in measured}.values())
