"""CPU time of small commands of `arena`, compared with `arena --help`.

Each command is a process of its own; they take turns, so that other load on the machine slows all alike.
Ratios are medians over repeats.

    python benchmarks/cli_speed.py
"""

import argparse
import resource
import statistics
import subprocess
import sys

COMMANDS = (["--help"], ["games"], ["games", "--json"])


def cpu_seconds(words: list[str]) -> float:
    """CPU seconds of one run of `arena` with these words."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [sys.executable, "-m", "arena_trainers", *words]
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--repeats", type=int, default=15)
    args = parser.parse_args()
    repeats = [[cpu_seconds(words) for words in COMMANDS] for _ in range(args.repeats)]
    print("| command | CPU seconds | / `arena --help` |\n|---|---|---|")
    for words, seconds in zip(COMMANDS, zip(*repeats, strict=True), strict=True):
        ratios = [
            command / times[0] for command, times in zip(seconds, repeats, strict=True)
        ]
        cells = f"{statistics.median(seconds):.2f} | {statistics.median(ratios):.2f}"
        print(f"| `arena {' '.join(words)}` | {cells} |")


if __name__ == "__main__":
    main()
