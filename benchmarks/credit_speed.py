"""Every registered credit estimator on one batch: milliseconds and memory on one core.

A batch of four games with one to three seats, groups of eight episodes and one to ten turns
per trajectory, its rows in any order. Every estimator gets the columns that all need and
those that it says it reads, filled at random; tokens are one to fifteen per turn. Times are
medians of CPU time of `estimate`, the batch being there (the first line says what it takes
to make and check it); memory is the highest that is allocated in a call, relative to the
batch's own columns.

    OMP_NUM_THREADS=1 python benchmarks/credit_speed.py --turns 100000
"""

import argparse
import json
import statistics
import time
import tracemalloc
import warnings
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from arena_credit import (
    FlatPoolWarning,
    TurnBatch,
    estimate,
    estimator_names,
    needed_columns,
)
from arena_credit.by_name import claims_of, find_estimator
from arena_credit.needs import needs_of

SEATS = (1, 2, 3, 2)  # of each game
GROUP = 8  # episodes
MOST_MEMORY = 10.0  # times that of the batch

Columns = dict[str, Any]


def basic_columns(num: int, rng: np.random.Generator) -> Columns:
    """The columns that every batch has, of about `num` turns."""
    episodes = np.arange(num)  # more than enough
    game = (episodes // GROUP) % len(SEATS)
    seats = np.take(SEATS, game)
    owner = np.repeat(episodes, seats)
    seat = np.arange(len(owner)) - np.repeat(np.cumsum(seats) - seats, seats)
    lengths = rng.integers(1, 11, len(owner))
    lengths = lengths[: np.searchsorted(np.cumsum(lengths), num) + 1]
    trajectory = np.repeat(np.arange(len(lengths)), lengths)
    turn = np.arange(len(trajectory)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    episode = owner[trajectory]
    return {
        "reward": rng.normal(size=len(turn)),
        "game": game[episode],
        "episode": episode,
        "seat": seat[trajectory],
        "turn": turn,
        "group": episode // GROUP,
    }


def further_columns(
    basic: Columns, names: Iterable[str], rng: np.random.Generator
) -> Columns:
    """The optional columns of the given names, as `needs` has them."""
    size = len(basic["turn"])
    columns: Columns = {"num_tokens": rng.integers(1, 16, size)}
    last = np.append(basic["turn"][1:] == 0, True)
    # in the game of one seat, every other episode works for the one before it
    works = (basic["game"] == 0) & (basic["episode"] % 2 == 1)
    known: dict[str, Callable[[], Any]] = {
        "num_tokens": lambda: columns["num_tokens"],
        "team": lambda: basic["seat"] % 2,
        "stratum": lambda: basic["episode"] % 3,
        "state_key": lambda: 50 * basic["turn"] + rng.integers(0, 50, size),
        "action": lambda: rng.integers(0, 5, size),
        "branch": lambda: basic["episode"] % GROUP,
        "parent": lambda: np.where(works, basic["episode"] - 1, -1),
        "truncated": lambda: last & (basic["episode"] % 5 == 0),
        "terminated": lambda: last & (basic["episode"] % 5 != 0),
    }
    for name in names:
        kind, _, part = name.partition(".")
        if part:
            length = columns["num_tokens"].sum() if kind == "tokens" else size
            values = rng.random(int(length))
            if part == "logprob":
                values = -values
            columns.setdefault(kind, {})[part] = values
            if part == "span":  # 0 or 1
                columns[kind][part] = values.round()
        else:
            columns[name] = known.get(name, lambda: rng.normal(size=size))()
    if "truncated" in columns:
        columns["next_value"] = rng.normal(size=size)
    return columns


def read_columns(name: str) -> list[str]:
    """The columns that an estimator reads with its default options."""
    optional = needs_of(find_estimator(name)).with_option.values()
    return [*needed_columns(name), *(column for names in optional for column in names)]


def shuffled(columns: Columns, rng: np.random.Generator) -> Columns:
    """The rows in any order; what tokens and parts hold is random as it is."""
    order = rng.permutation(len(columns["turn"]))
    return {
        name: column if isinstance(column, dict) else column[order]
        for name, column in columns.items()
    }


def num_bytes(columns: Columns) -> int:
    total = 0
    for column in columns.values():
        total += num_bytes(column) if isinstance(column, dict) else column.nbytes
    return total


def milliseconds(work: Callable[[], object], repeats: int) -> float:
    times = []
    for _ in range(repeats):
        start = time.process_time()
        work()
        times.append(1000 * (time.process_time() - start))
    return statistics.median(times)


def peak_bytes(work: Callable[[], object]) -> int:
    tracemalloc.start()
    work()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--turns", type=int, default=100_000, help="rows of the batch")
    parser.add_argument("--repeats", type=int, default=5, help="measurements per row")
    parser.add_argument("--json", help="also write the numbers to this file")
    parser.add_argument("names", nargs="*", help="estimators; all by default")
    args = parser.parse_args()
    warnings.simplefilter("ignore", FlatPoolWarning)
    rng = np.random.default_rng(0)
    basic = basic_columns(args.turns, rng)
    rows = shuffled(basic, rng)
    make = milliseconds(lambda: TurnBatch(**rows), args.repeats)
    console = Console()
    console.print(f"{len(basic['turn']):,} turns; TurnBatch: {make:.1f} ms")
    table = Table("estimator", "ms", "memory / batch", "within the bar")
    numbers = {}
    for name in args.names or estimator_names():
        columns = basic | further_columns(basic, read_columns(name), rng)
        columns = shuffled(columns, rng)
        batch = TurnBatch(**columns)

        def work(name: str = name, batch: TurnBatch = batch) -> object:
            return estimate(name, batch)

        memory = peak_bytes(work) / num_bytes(columns)
        ms = milliseconds(work, args.repeats)
        is_fast = ms < claims_of(name).max_ms
        good = "yes" if is_fast and memory < MOST_MEMORY else "NO"
        table.add_row(name, f"{ms:.1f}", f"{memory:.1f}", good)
        numbers[name] = {"ms": ms, "memory": memory}
    console.print(table)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(numbers, file, indent=1)


if __name__ == "__main__":
    main()
