"""CPU seconds of a training step of the default job, part by part, beside those of another checkout.

Two processes train the default job of `arena train` (the tiny model on Kuhn poker, without its
evaluations), one with this checkout and one with `--before`. They take turns of a few steps, so that other load
on the machine slows both alike. The table has the mean CPU milliseconds of a step on one thread. A moment belongs to the innermost part:

| part | what it is |
|---|---|
| play | rules, prompts, parsing; without generation |
| generation | the model's replies |
| entropies | of the distributions that tokens are drawn from, for the surprise |
| credit | records of turns, turn batch, estimator, metrics of play |
| rows | training rows, and their tensors |
| scoring | what the loss reads besides, such as log-probabilities of the reference |
| loss, backward | the passes of the update |
| optimizer | clipping, the optimizer's step |
| logging | TRL's and our logs |
| rest | data loader, loop |

    git worktree add ../before COMMIT
    python benchmarks/step_speed.py --before ../before
"""

import argparse
import functools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parents[1]
PLACES = {  # part: functions and methods, of this checkout or of an older one
    "play": ["arena_trainers.train.rollout.player:RolloutPlayer.play"],
    "generation": ["arena_trainers.train.clock:TimedBackend.generate"],
    "entropies": ["arena_trainers.lm.backends.sampling:_entropies"],
    "credit": [
        "arena_trainers.train.advantages:BatchCredit.records",
        "arena_trainers.train.advantages:BatchCredit.__call__",
        "arena_trainers.train.trainer:TurnGRPOTrainer._log_play",
    ],
    "rows": [
        "arena_trainers.train.trainer:TurnGRPOTrainer._training_rows",
        "arena_trainers.train.trainer:padded_advantages",
        "arena_trainers.train.trainer:row_tensors",
    ],
    "scoring": [
        "trl:GRPOTrainer._generate_and_score_completions",
        "arena_trainers.train.score.forward:Forward.loss_columns",
        "arena_trainers.train.score.mismatch:MismatchCheck.check",
        "arena_trainers.train.trainer:TurnGRPOTrainer._log_rows",
    ],
    "loss": ["arena_trainers.train.trainer:TurnGRPOTrainer._compute_loss"],
    "backward": ["accelerate:Accelerator.backward"],
    "optimizer": [
        "accelerate:Accelerator.clip_grad_norm_",
        "accelerate.optimizer:AcceleratedOptimizer.step",
    ],
    "logging": ["arena_trainers.train.trainer:TurnGRPOTrainer.log"],
}
PARTS = [*PLACES, "rest"]


class Parts:
    """CPU seconds by part, since the last reading."""

    def __init__(self, places_by_part: Mapping[str, Sequence[str]] = PLACES) -> None:
        self.parts = [*places_by_part, "rest"]
        self.spent, self.open = defaultdict[str, float](float), ["rest"]
        self.last = time.process_time()
        for part, places in places_by_part.items():
            for place in places:
                self._watch(part, place)

    def _watch(self, part: str, place: str) -> None:
        module, _, path = place.partition(":")
        owner: Any = __import__(module, fromlist=["_"])
        *outer, name = path.split(".")
        owner = functools.reduce(getattr, outer, owner)
        inner = getattr(owner, name, None)
        if inner is None:  # of the other checkout
            return

        @functools.wraps(inner)
        def timed(*args: Any, **kwargs: Any) -> Any:
            self._charge()
            self.open.append(part)
            try:
                return inner(*args, **kwargs)
            finally:
                self._charge()
                self.open.pop()

        setattr(owner, name, timed)

    def _charge(self) -> None:
        now = time.process_time()
        self.spent[self.open[-1]] += now - self.last
        self.last = now

    def read(self) -> dict[str, float]:
        self._charge()
        seconds = {part: self.spent[part] for part in self.parts}
        self.spent.clear()
        return seconds


def train(turns: int, steps: int, model: Path) -> None:
    """Trains; before each turn of steps it waits for a line, and prints the parts after it."""
    import torch
    from transformers import AutoTokenizer, PrinterCallback, TrainerCallback

    from arena_trainers.runs.recipe import load_recipe
    from arena_trainers.runs.settings import build_configs
    from arena_trainers.train.trainer import TurnGRPOTrainer

    torch.set_num_threads(1)
    parts, out = Parts(), sys.stdout
    sys.stdout = sys.stderr  # libraries print

    class Turns(TrainerCallback):
        def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
            if state.global_step % steps == 0:
                found = {k: x / steps for k, x in parts.read().items()}
                print(json.dumps(found), file=out, flush=True)
                sys.stdin.readline()
                parts.read()

    with tempfile.TemporaryDirectory() as folder:
        own = {"max_steps": turns * steps, "save_strategy": "no"}
        _, args = build_configs({**load_recipe("kuhn-tiny"), **own}, folder)
        args.report_to = []
        tokenizer = AutoTokenizer.from_pretrained(model)
        trainer = TurnGRPOTrainer(str(model), args, processing_class=tokenizer)
        trainer.remove_callback(PrinterCallback)
        trainer.add_callback(Turns())
        trainer.train()


def start(folder: Path) -> None:
    """Makes the model that both begin with."""
    from arena_trainers.lm import LMPolicy
    from arena_trainers.runs.recipe import load_recipe
    from arena_trainers.runs.settings import build_configs
    from arena_trainers.runs.start import load_tokenizer, make_start
    from arena_trainers.terminal import Console
    from arena_trainers.train.prepared import prepare_games

    job, args = build_configs(load_recipe("kuhn-tiny"), str(folder / "run"))
    games = prepare_games(args)
    tokenizer = load_tokenizer(job, None, games.plans, args.prompt)
    quiet = Console(quiet=True)
    model = make_start(job, args, None, tokenizer, games.plans, quiet)
    LMPolicy(model, tokenizer, prompt=args.prompt).save_pretrained(folder / "model")


def compare(checkouts: list[Path], turns: int, steps: int) -> list[dict[str, Any]]:
    """For each checkout and part the CPU seconds of a step, one number for each turn.

    The first turn does not count.
    """
    found: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory() as folder:
        start(Path(folder))
        running = []
        for top in checkouts:
            paths = os.pathsep.join(str(top / p) for p in (".", "wrappers", "trainers"))
            given = ["--train", str(Path(folder) / "model")]
            own = [*given, "--turns", str(turns), "--steps", str(steps)]
            process = subprocess.Popen(
                [sys.executable, __file__, *own],
                env={**os.environ, "PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
            )
            running.append(process)
            found.append({part: [] for part in PARTS})
            process.stdout.readline()  # type: ignore[union-attr] # the first turn
        for _ in range(turns - 1):
            for process, numbers in zip(running, found, strict=True):
                print(file=process.stdin, flush=True)
                for part, x in json.loads(process.stdout.readline()).items():  # type: ignore[union-attr]
                    numbers[part].append(x)
        for process in running:
            process.communicate("\n")
    return found


def table(before: dict[str, Any], now: dict[str, Any]) -> str:
    """The means in milliseconds, and the ratio of their sums."""
    lines = ["| part | before, ms | now, ms |", "|---|---|---|"]
    for part in PARTS:
        pair = [1e3 * statistics.mean(x[part]) for x in (before, now)]
        lines.append(f"| {part} | {pair[0]:.1f} | {pair[1]:.1f} |")
    sums = [[*map(sum, zip(*x.values(), strict=True))] for x in (before, now)]
    whole = [1e3 * statistics.mean(x) for x in sums]
    ratios = [b / a for a, b in zip(*sums, strict=True)]
    lines.append(f"| step | {whole[0]:.1f} | {whole[1]:.1f} |")
    told = f"now / before: {whole[1] / whole[0]:.3f}; of single turns"
    return "\n".join([*lines, "", f"{told}: {min(ratios):.2f} to {max(ratios):.2f}"])


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--before", type=Path, help="another checkout")
    parser.add_argument("--turns", type=int, default=7, help="the first is not counted")
    parser.add_argument("--steps", type=int, default=10, help="of a turn")
    parser.add_argument("--train", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.train:
        train(args.turns, args.steps, args.train)
        return
    checkouts = [(args.before or HERE).resolve(), HERE]
    print(table(*compare(checkouts, args.turns, args.steps)))


if __name__ == "__main__":
    main()
