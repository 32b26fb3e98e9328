"""Cost of snapshots as opponents: CPU time of a training step of the tiny model.

The default job of `arena train` on Kuhn poker, or another game, with five kinds of opponents:
self-play; `random`, whose replies cost next to nothing, while as many turns are learned as
against a snapshot; `past_selves` with one and four snapshots for a batch; and the latter
without known distributions, so that every reply is generated as that of any other model.
The runs are short and interleaved, so that other load on the machine slows all of them alike.
CPU time of one process on one thread; the table shows medians.

    python benchmarks/snapshots.py --repeats 3
"""

import argparse
import gc
import json
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from rich.table import Table
from transformers import PrinterCallback, TrainerCallback

from arena_trainers.lm import LMPolicy
from arena_trainers.lm.backends import cached
from arena_trainers.runs.recipe import load_recipe
from arena_trainers.runs.settings import build_configs
from arena_trainers.runs.start import load_tokenizer, make_start
from arena_trainers.terminal import Console
from arena_trainers.train.prepared import prepare_games
from arena_trainers.train.trainer import TurnGRPOTrainer

SKIPPED = 10  # steps at the start, which are not measured
QUIET = Console(quiet=True)


def past(max_live: int) -> dict[str, Any]:
    return {"past_selves": {"max_live": max_live}}


OPPONENTS: dict[str, Any] = {  # name: value of --opponents
    "self-play": "self",
    "random": "random",
    "1 snapshot": past(1),
    "4 snapshots": past(4),
    "4, nothing known": past(4),
}


class Times(TrainerCallback):
    """The CPU seconds at the end of each step."""

    def __init__(self) -> None:
        self.ends: list[float] = []

    def on_step_end(self, *_: Any, **__: Any) -> None:
        self.ends.append(time.process_time())

    @property
    def step(self) -> float:
        """Seconds of a step."""
        return (self.ends[-1] - self.ends[SKIPPED - 1]) / (len(self.ends) - SKIPPED)


class Bench:
    """The job on one game: its start, and the CPU time of its steps.

    Args:
        game: id.
        num_steps: of a run.
    """

    def __init__(self, game: str, num_steps: int) -> None:
        self.own = {"games": [game], "max_steps": num_steps, "save_strategy": "no"}
        self.kept = tempfile.TemporaryDirectory()
        self.start = Path(self.kept.name) / "start"
        job, args, games = self.prepared("self", self.kept.name)
        self.tokenizer = load_tokenizer(job, None, games.plans, args.prompt)
        model = make_start(job, args, None, self.tokenizer, games.plans, QUIET)
        LMPolicy(model, self.tokenizer).save_pretrained(self.start)

    def prepared(self, opponents: Any, folder: str) -> Any:
        recipe = {**load_recipe("kuhn-tiny"), **self.own, "opponents": opponents}
        job, args = build_configs(recipe, folder)
        args.report_to = []
        return job, args, prepare_games(args)

    def step(self, opponents: Any) -> float:
        """CPU seconds of a step."""
        with tempfile.TemporaryDirectory() as folder:
            _, args, games = self.prepared(opponents, folder)
            trainer = TurnGRPOTrainer(
                str(self.start), args, processing_class=self.tokenizer, games=games
            )
            times = Times()
            trainer.remove_callback(PrinterCallback)
            trainer.add_callback(times)
            gc.collect()
            trainer.train()
        return times.step

    def measure(self, repeats: int) -> dict[str, dict[str, float]]:
        found: dict[str, list[float]] = {name: [] for name in OPPONENTS}
        for _ in range(repeats):
            for name, opponents in OPPONENTS.items():
                limit = 0 if "nothing" in name else cached.MAX_NUMBERS
                with mock.patch.object(cached, "MAX_NUMBERS", limit):
                    found[name].append(self.step(opponents))
        return {
            name: {
                "ms_per_step": 1e3 * statistics.median(seconds),
                "to_self_play": _ratio(seconds, found["self-play"]),
                "to_random": _ratio(seconds, found["random"]),
            }
            for name, seconds in found.items()
        }


def _ratio(seconds: list[float], others: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(seconds, others, strict=True))


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--game", default="kuhn_poker", help="id of the game")
    parser.add_argument("--steps", type=int, default=60, help="of a run")
    parser.add_argument("--repeats", type=int, default=3, help="runs of each kind")
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    numbers = Bench(args.game, args.steps).measure(args.repeats)
    table = Table("opponents", "ms per step", "to self-play", "to random")
    for name, row in numbers.items():
        cells = row["ms_per_step"], row["to_self_play"], row["to_random"]
        table.add_row(name, f"{cells[0]:.0f}", *(f"{c:.3f}" for c in cells[1:]))
    Console().print(table)
    if args.json:
        Path(args.json).write_text(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()
