"""CPU seconds of the same tic-tac-toe rollouts in one process and in two.

Each step plays `--episodes` games with the tiny model, as training does; two processes share
them, and nothing is trained. What a process costs before (imports, the model, the first step)
counts once for each, so only later steps count, by `time.process_time`, summed over processes.
The figures are medians over steps.

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
    """Plays this process's share; writes the CPU seconds of each step but the first."""
    from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer

    torch.set_num_threads(1)
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
    trainer: Any = TurnGRPOTrainer(str(folder / "model"), args)
    trainer.model.train()
    seconds, turns = [], 0
    share = episodes // args.world_size
    first = args.process_index * share
    for step in range(steps + 1):
        trainer.state.global_step = step
        # as TRL repeats rows: each start for a group of 8, the groups in order
        places = [(step * episodes + first + i) // 8 for i in range(share)]
        rows = [trainer.train_dataset[place] for place in places]
        began = time.process_time()
        played = trainer.play(rows)
        seconds.append(time.process_time() - began)
        turns += sum(len(episode.turns) for episode in played)
    name = f"{args.world_size}-{args.process_index}.json"
    (folder / name).write_text(json.dumps([seconds[1:], turns]))


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
            turns[processes] = sum(number for _, number in found)
    assert turns[1] == turns[2], turns
    print(f"turns: {turns[1]}; CPU seconds of a step's rollouts, median:")
    print(
        f"one process {cost[1]:.3f}, two {cost[2]:.3f}: {cost[2] / cost[1]:.3f} times"
    )


if __name__ == "__main__":
    main()
