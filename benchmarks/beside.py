"""Wall time of a step with play beside training, compared with the longer of the two.

Runs `arena train RECIPE` twice from the same seed, without and with `asynchronous`, on one thread
per process. The first steps, in which processes and caches warm up, do not count. Of the others it
prints the means of these seconds per step:

| column | seconds |
|---|---|
| `step` | between the ends of two steps |
| `play` | of play; with `asynchronous`, in the player's process |
| `training` | of all the rest, without waiting for play and writing weights for it |
| `player's CPU` | CPU seconds of play in the player's process |

With play beside training, `step / max(play, training)` is 1 if one hides the other.

    OMP_NUM_THREADS=1 python benchmarks/beside.py smollm2 --steps 8
    OMP_NUM_THREADS=1 python benchmarks/beside.py kuhn-tiny --steps 60
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import fmean

PREFIX = "arena/asynchronous/"


def lines_of(
    recipe: str, steps: int, beside: bool, extra: list[str]
) -> list[dict[str, float]]:
    """The metrics of each step of a run."""
    options = [
        "--max_steps",
        str(steps),
        "--logging_steps",
        "1",
        "--save_steps",
        str(steps),
    ]
    options += [
        "--evaluate_every",
        "0",
        "--callbacks.eval_episodes",
        "2",
        "--seed",
        "0",
        *extra,
    ]
    if beside:
        options += ["--asynchronous", "{max_staleness: 1, in_flight: 2}"]
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        command = [sys.executable, "-m", "arena_trainers", "train", recipe, *options]
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        done = [*command, "--output_dir", str(run)]
        subprocess.run(done, check=True, env=environment, stdout=subprocess.DEVNULL)
        lines = map(json.loads, (run / "metrics.jsonl").read_text().splitlines())
        return [line for line in lines if "step_time" in line]


def row(lines: list[dict[str, float]], beside: bool) -> str:
    step = fmean(line["step_time"] for line in lines)
    shares = ("arena/time/generation", "arena/time/environment")
    if beside:
        play = fmean(line[PREFIX + "play_seconds"] for line in lines)
        training = step - fmean(line[PREFIX + "wait_seconds"] for line in lines)
        cpu = f"{fmean(line[PREFIX + 'play_cpu_seconds'] for line in lines):.2f}"
        return f"| beside | {step:.2f} | {play:.2f} | {training:.2f} | {cpu} | {step / max(play, training):.2f} |"
    play = fmean(line["step_time"] * sum(line[s] for s in shares) for line in lines)
    return f"| in turn | {step:.2f} | {play:.2f} | {step - play:.2f} | | {step / max(play, step - play):.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("recipe")
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--skip", type=int, default=2)
    args, extra = parser.parse_known_args()
    print("| play | step | play | training | player's CPU | step / longer |")
    print("|---|---|---|---|---|---|")
    for beside in (False, True):
        lines = lines_of(args.recipe, args.steps, beside, extra)
        print(row(lines[args.skip :], beside), flush=True)


if __name__ == "__main__":
    main()
