"""CPU seconds of the same tic-tac-toe rollouts in one process and in two.

A training step plays `--episodes` games with the tiny model. Two processes share the games.
What a process costs before its first step (imports, models, the first batch) counts once for
each, so only the later steps are timed, by `time.process_time` and summed over processes. The
learning rate is 0, so that both play the same games. Figures are medians over steps.

    python benchmarks/two_processes.py --episodes 512 --steps 6
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import arena_envs
from arena_trainers.job.tiny import tiny_model, tiny_tokenizer, words_of
from arena_trainers.lm.policy import LMPolicy
from arena_wrappers import PromptOptions

BARE = PromptOptions("bare", rules=False)


def save_model(folder: Path) -> None:
    tokenizer = tiny_tokenizer(words_of(arena_envs.make_game("tic_tac_toe"), BARE))
    model = tiny_model(tokenizer, seed=1)
    LMPolicy(model, tokenizer, prompt=BARE).save_pretrained(folder)


def measure(folder: Path, episodes: int, steps: int) -> None:
    """Trains in this process; writes its CPU seconds and replies of each step but one."""
    from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer

    torch.set_num_threads(1)
    seconds: list[float] = []
    replies: list[int] = []

    class Timed(TurnGRPOTrainer):
        """Times play alone."""

        def play(self, inputs: Any) -> Any:
            began = time.process_time()
            found = super().play(inputs)
            seconds.append(time.process_time() - began)
            replies.append(sum(len(episode.turns) for episode in found))
            return found

    args = TurnGRPOConfig(
        output_dir=str(folder / "run"),
        games=["tic_tac_toe"],
        rules=False,
        reply_format="bare",
        max_completion_length=2,
        on_invalid="random",
        max_steps=steps + 1,
        episodes_per_step=episodes,
        num_generations=8,
        learning_rate=0.0,
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
        seed=0,
    )
    Timed(str(folder / "model"), args).train()
    name = f"{args.world_size}-{args.process_index}.json"
    (folder / name).write_text(json.dumps([seconds[1:], replies[1:]]))


def launch(folder: Path, processes: int, episodes: int, steps: int) -> list[Any]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc_per_node", str(processes), __file__, "--folder", str(folder)]
    command += ["--episodes", str(episodes), "--steps", str(steps)]
    subprocess.run(
        command,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    files = sorted(folder.glob(f"{processes}-*.json"))
    return [json.loads(file.read_text()) for file in files]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--episodes", type=int, default=512)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    size = given.episodes, given.steps
    if given.folder:
        measure(given.folder, *size)
        return
    with tempfile.TemporaryDirectory() as name:
        folder, cost, turns = Path(name), {}, {}
        save_model(folder / "model")
        for processes in (1, 2):
            found = launch(folder, processes, *size)
            assert len(found) == processes
            steps = zip(*(seconds for seconds, _ in found), strict=True)
            cost[processes] = statistics.median(map(sum, steps))
            turns[processes] = sum(sum(replies) for _, replies in found)
    assert turns[1] == turns[2], turns
    print(f"turns: {turns[1]}; CPU seconds of a step's rollouts, median:")
    print(
        f"one process {cost[1]:.3f}, two {cost[2]:.3f}: {cost[2] / cost[1]:.3f} times"
    )


if __name__ == "__main__":
    main()
