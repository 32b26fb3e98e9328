"""Steps per CPU second of the environments, beside those of other libraries.

A step is one decision of one agent. Random legal play; the observation of the agent to
move (ours: features, mask and text) is fetched before every decision, as agents need it.
Resets, chance and dead steps are inside the time and not in the count. Every measurement is
a process of its own; repeats are interleaved, so that a busy machine is unfair to all alike,
and the table shows medians. Libraries that are not installed are left out.

TextArena is played with its default wrappers, and the history that they leak from one
episode into the next is cleared by hand. Its Kuhn poker is a match of three hands, its
liar's dice a match with five dice each, its Colonel Blotto a match of nine rounds and its
blackjack five hands from an endless deck; in its iterated prisoner's dilemma players say
something before each choice, which is a step, too. In its Battleship the ships stand where
chance puts them. PettingZoo's hold'em games are RLCard's, with rules of their own. OpenSpiel's games are asked
for the tensor and the mask of the seat to move, and write no text.

    python benchmarks/env_speed.py --repeats 5 --seconds 2
"""

import argparse
import contextlib
import importlib.util
import json
import random
import statistics
import subprocess
import sys
import time

from rich.console import Console
from rich.table import Table

from env_peers import MODULES, Episode, rows_of_all_games


def measure_steps(episode: Episode, seconds: float) -> float:
    """Steps per CPU second, after a warm-up."""
    rng = random.Random(0)
    _play_for(episode, rng, seconds / 4)
    num_steps, spent = _play_for(episode, rng, seconds)
    return num_steps / spent


def _play_for(
    episode: Episode, rng: random.Random, seconds: float
) -> tuple[int, float]:
    num_steps, start = 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        num_steps += sum(episode(rng) for _ in range(20))
    return num_steps, spent


def measure_clones(id: str, seconds: float) -> float:
    """Clones per CPU second, of an environment in mid-episode."""
    import arena_envs

    env = arena_envs.make(id)
    env.reset(seed=0)
    env.step(env.legal_actions()[0])
    num_clones, start = 0, time.process_time()
    while (spent := time.process_time() - start) < seconds:
        for _ in range(1000):
            env.clone()
        num_clones += 1000
    return num_clones / spent


def measure_import() -> tuple[float, float]:
    """Seconds on the clock and megabytes, of `import arena_envs` alone."""
    code = (
        "import time; start = time.perf_counter(); import arena_envs; "
        "seconds = time.perf_counter() - start; import resource; "
        "print(seconds, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)"
    )
    command = [sys.executable, "-c", code]
    output = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    seconds, megabytes = map(float, output.split())
    return seconds, megabytes


def run_row(row: str, seconds: float) -> float:
    """One measurement in a process of its own."""
    command = [sys.executable, __file__, "--row", row, "--seconds", str(seconds)]
    output = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(output.stdout.splitlines()[-1]))


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="measurements per row")
    parser.add_argument("--seconds", type=float, default=2.0, help="CPU time of each")
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("--games", nargs="+", help="of the table; by default all")
    parser.add_argument("--row", help=argparse.SUPPRESS)  # of a child process
    args = parser.parse_args()
    if args.row:
        game, library = args.row.split("/")
        with contextlib.redirect_stdout(sys.stderr):  # libraries greet
            number = (
                measure_clones(game, args.seconds)
                if library == "clone"
                else measure_steps(rows_of_all_games()[game, library](), args.seconds)
            )
        sys.stdout.write(json.dumps(number) + "\n")
        return
    report(args.repeats, args.seconds, args.json, args.games)


def report(
    repeats: int, seconds: float, path: str | None, games: list[str] | None
) -> None:
    rows = [
        row
        for row in rows_of_all_games()
        if importlib.util.find_spec(MODULES[row[1]])
        and (games is None or row[0] in games)
    ]
    steps: dict[tuple[str, str], list[float]] = {row: [] for row in rows}
    clones, imports = [], []
    for _ in range(repeats):
        for row in rows:
            steps[row].append(run_row("/".join(row), seconds))
        clones.append(run_row("tic_tac_toe/clone", seconds / 4))
        imports.append(measure_import())
    medians = {row: statistics.median(values) for row, values in steps.items()}
    table = Table("game", "library", "steps per CPU second", "ours / theirs")
    for (game, library), median in medians.items():
        ours = medians[game, "arena-envs"]
        ratio = "" if library == "arena-envs" else f"{ours / median:.1f}"
        table.add_row(game, library, f"{median:,.0f}", ratio)
    numbers = {
        "steps": {"/".join(row): median for row, median in medians.items()},
        "clones": statistics.median(clones),
        "import_seconds": statistics.median(seconds for seconds, _ in imports),
        "import_megabytes": statistics.median(size for _, size in imports),
    }
    console = Console()
    console.print(table)
    console.print(
        f"clone() of tic-tac-toe: {numbers['clones']:,.0f} per CPU second\n"
        f"import arena_envs: {numbers['import_seconds']:.2f} s, "
        f"{numbers['import_megabytes']:.0f} MB"
    )
    if path:
        with open(path, "w") as file:
            json.dump(numbers, file, indent=1)


if __name__ == "__main__":
    main()
