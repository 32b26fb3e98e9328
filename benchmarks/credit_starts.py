"""What less noise is worth: batches until a policy of `rounds` is right, from three starts.

A table of logits answers one of 64 symbols with one of eight answers, in games of 8, 32 or 64
rounds. It starts uniform, right with probability 0.34, or sure of a wrong answer for half of the
symbols. Each credit tries the same three steps on one seed, and the best one runs on five others.

    python benchmarks/credit_starts.py --write

writes docs/credit/starts.json after each run: it may be stopped and goes on where it was.
`benchmarks/credit_noise.py` has the table of it.
"""

import argparse
import json
import sys
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from arena_credit import FlatPoolWarning, TurnBatch, estimate

Floats = NDArray[np.float64]
FILE = Path(__file__).resolve().parents[1] / "docs" / "credit" / "starts.json"
NUM_SYMBOLS, NUM_ANSWERS = 64, 8
GROUPS, SIZE = 4, 8  # of a batch; a group shares its symbols
GOAL, MAX_BATCHES = 0.9, 150  # mean probability of the right answer
STEPS = (32.0, 128.0, 512.0)
TUNING_SEEDS, SEEDS = (100,), tuple(range(5))
STARTS = ("uniform", "right in 0.34", "sure of a wrong answer in half")
CREDITS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "episode": ("dr_grpo", {"pool": ("game", "seat")}),
    "random_effects": ("random_effects", {}),
    "control_variates": ("control_variates", {}),
}


class Setting(NamedTuple):
    """A start, the number of rounds, and when they are paid: at the end, or each."""

    start: str
    num: int
    pay: str


class Run(NamedTuple):
    """A credit with a step, on a seed."""

    credit: str
    step: float
    seed: int


def settings() -> Iterator[Setting]:
    """All settings, those of 32 rounds first."""
    for num in (32, 8, 64):
        for start in STARTS[::-1]:
            for pay in ("end", "each"):
                yield Setting(start, num, pay)


def first_logits(start: str) -> Floats:
    """float64[symbols, answers]; answer 0 is right."""
    logits = np.zeros((NUM_SYMBOLS, NUM_ANSWERS))
    if start == STARTS[1]:
        logits[:, 0] = np.log(0.34 / 0.66 * (NUM_ANSWERS - 1))
    if start == STARTS[2]:
        logits[: NUM_SYMBOLS // 2, 1] = 3.0
    return logits


def play(
    policy: Floats, setting: Setting, rng: np.random.Generator
) -> tuple[TurnBatch, Any, Any]:
    """A batch of episodes; and the symbol and answer of each turn."""
    episodes, num = GROUPS * SIZE, setting.num
    symbol = np.repeat(rng.integers(NUM_SYMBOLS, size=(GROUPS, num)), SIZE, axis=0)
    bounds = policy.cumsum(axis=1)[symbol]
    answer = (rng.random((episodes, num, 1)) > bounds).sum(axis=-1)
    answer = answer.clip(0, NUM_ANSWERS - 1)
    reward = (answer == 0).astype(np.float64)
    if setting.pay == "end":
        total = reward.sum(axis=1)
        reward = np.zeros_like(reward)
        reward[:, -1] = total
    episode = np.repeat(np.arange(episodes), num)
    zeros = np.zeros(len(episode), np.int64)
    entropy = -(policy * np.log(policy)).sum(axis=1)
    tokens = {
        "logprob": np.log(policy[symbol, answer]).ravel(),
        "entropy": entropy[symbol].ravel(),
    }
    turns = TurnBatch(
        reward=reward.ravel(),
        game=zeros,
        episode=episode,
        seat=zeros,
        turn=np.tile(np.arange(num), episodes),
        group=episode // SIZE,
        num_tokens=zeros + 1,
        tokens=tokens,
    )
    return turns, symbol.ravel(), answer.ravel()


def learn(setting: Setting, run: Run) -> int:
    """Batches until the goal; `MAX_BATCHES` if it is not reached.

    Advantages are divided by their root mean square, so that steps have one size for all.
    """
    estimator, options = CREDITS[run.credit]
    rng = np.random.default_rng([run.seed, setting.num])
    logits = first_logits(setting.start)
    for number in range(MAX_BATCHES):
        policy = np.exp(logits - logits.max(axis=1, keepdims=True))
        policy /= policy.sum(axis=1, keepdims=True)
        if policy[:, 0].mean() >= GOAL:
            return number
        turns, symbol, answer = play(np.maximum(policy, 1e-12), setting, rng)
        advantage = estimate(estimator, turns, **options).advantage
        advantage /= max(float(np.sqrt(np.mean(advantage**2))), 1e-12)
        score = -policy[symbol]
        score[np.arange(len(symbol)), answer] += 1
        gradient = np.zeros_like(logits)
        np.add.at(gradient, symbol, score * advantage[:, None])
        logits += run.step * gradient / len(symbol)
    return MAX_BATCHES


Measured = dict[Setting, dict[Run, int]]


def measured() -> Measured:
    """The runs of the file."""
    rows = json.loads(FILE.read_text()) if FILE.exists() else []
    found: Measured = {}
    for row in rows:
        by_run = found.setdefault(Setting(*row["setting"]), {})
        by_run[Run(*row["run"])] = row["batches"]
    return found


def best_step(runs: Mapping[Run, int], credit: str) -> float | None:
    """The step with the fewest batches on the seeds for tuning; None while a run is missing."""
    totals: dict[float, int] = {}
    for step in STEPS:
        numbers = [runs.get(Run(credit, step, seed)) for seed in TUNING_SEEDS]
        if None in numbers:
            return None
        totals[step] = sum(number for number in numbers if number is not None)
    return min(totals, key=lambda step: totals[step])


def missing(runs: Mapping[Run, int]) -> list[Run]:
    """The runs of a setting that are to be done next."""
    tuning = [
        Run(name, step, seed)
        for name in CREDITS
        for step in STEPS
        for seed in TUNING_SEEDS
    ]
    if open_runs := [run for run in tuning if run not in runs]:
        return open_runs
    steps = {name: best_step(runs, name) for name in CREDITS}
    chosen = [
        Run(n, s, seed) for n, s in steps.items() if s is not None for seed in SEEDS
    ]
    return [run for run in chosen if run not in runs]


def measure() -> None:
    """Does the runs that the file lacks, and writes it after each."""
    known = measured()
    for setting in settings():
        runs = known.setdefault(setting, {})
        while todo := missing(runs):
            for run in todo:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", FlatPoolWarning)
                    runs[run] = learn(setting, run)
                write(known)


def write(known: Measured) -> None:
    """Writes the file, a line for each run."""
    rows = [
        json.dumps({"setting": setting, "run": run, "batches": number})
        for setting in settings()
        for run, number in known.get(setting, {}).items()
    ]
    FILE.write_text("[\n" + ",\n".join(rows) + "\n]\n")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="into docs/credit")
    if not parser.parse_args().write:
        sys.exit("python benchmarks/credit_starts.py --write")
    measure()
