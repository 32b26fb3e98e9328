"""CPU seconds of a training step of the recipe `smollm2`, beside those of another checkout.

`arena train smollm2` runs with one step and with `1 + --steps`; what the second takes more is divided by
`--steps`. So imports, the first step and the imitation before it do not count. The two checkouts take turns.
Needs the extras `train` and `smollm2`.

    git worktree add ../before COMMIT
    python benchmarks/smollm2_step.py --before ../before
"""

import argparse
import os
import resource
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parents[1]


def cpu_seconds(checkout: Path, episodes: int, max_steps: int) -> float:
    """Of a whole run, on one thread."""
    paths = os.pathsep.join(str(checkout / p) for p in (".", "wrappers", "trainers"))
    with tempfile.TemporaryDirectory() as folder:
        options = {
            "episodes_per_step": episodes,
            "max_steps": max_steps,
            "save_steps": 10**6,
            "evaluate_every": 10**6,
            "output-dir": f"{folder}/run",
        }
        arguments = [f"--{name}={value}" for name, value in options.items()]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [sys.executable, "-m", "arena_trainers", "train", "smollm2", *arguments],
            env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
            cwd=folder,
            check=True,
            stdout=subprocess.DEVNULL,
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    used = after.ru_utime + after.ru_stime
    return used - before.ru_utime - before.ru_stime


def step_seconds(checkout: Path, episodes: int, steps: int) -> float:
    """CPU seconds of a step after the first."""
    first, all_steps = (cpu_seconds(checkout, episodes, n) for n in (1, 1 + steps))
    return (all_steps - first) / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--before", type=Path, help="another checkout")
    parser.add_argument("--episodes", type=int, default=40, help="of a step")
    parser.add_argument("--steps", type=int, default=3, help="that count")
    parser.add_argument("--repeats", type=int, default=2)
    args = parser.parse_args()
    checkouts = [HERE] if args.before is None else [args.before.resolve(), HERE]
    for _ in range(args.repeats):
        seconds = [step_seconds(top, args.episodes, args.steps) for top in checkouts]
        line = "; ".join(
            f"{top.name}: {s:.1f} CPU s a step"
            for top, s in zip(checkouts, seconds, strict=True)
        )
        if len(seconds) > 1:
            line += f"; now / before: {seconds[1] / seconds[0]:.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
