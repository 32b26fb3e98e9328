"""CPU seconds of the same tic-tac-toe rollouts in one process and in two.

Each step plays `--episodes` games with the tiny model, as training does; two processes share
them, and nothing is trained. Imports, the model and the first step do not count. Each later step
is played three times, and the lowest `time.process_time` counts, summed over steps and processes.

Equal prompts of a batch are computed once, and two processes do not share them. So the tokens that
run through the model are counted, too. `--alternate` has the processes play one after the other:
what they cost more together is the machine's.

    python benchmarks/two_processes.py --episodes 512 --steps 3
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

import arena_envs
from arena_trainers.lm import LMPolicy
from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
from arena_wrappers import PromptOptions

BARE = PromptOptions("bare", rules=False)
REPEATS = 3


def save_model(folder: Path) -> None:
    tokenizer = tiny_tokenizer(words_of(arena_envs.make_game("tic_tac_toe"), BARE))
    model = tiny_model(tokenizer, seed=1)
    LMPolicy(model, tokenizer, prompt=BARE).save_pretrained(folder)


def measure(folder: Path, episodes: int, steps: int, alternate: bool) -> None:
    """Plays this process's share; writes its CPU seconds, turns and tokens."""
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
    tokens = 0

    def count(module: Any, args: Any, kwargs: Any) -> None:
        nonlocal tokens
        tokens += kwargs["input_ids"].numel()

    trainer.policy.model.register_forward_pre_hook(count, with_kwargs=True)
    seconds, turns = 0.0, 0
    share = episodes // args.world_size
    first = args.process_index * share
    for turn in range(args.world_size):
        if alternate:
            trainer.accelerator.wait_for_everyone()
        if alternate and turn != args.process_index:
            continue
        for step in range(steps + 1):
            trainer.state.global_step = step
            # as TRL repeats rows: each start for a group of 8, the groups in order
            places = [(step * episodes + first + i) // 8 for i in range(share)]
            rows = [trainer.train_dataset[place] for place in places]
            spent = []
            for _ in range(REPEATS if step else 1):
                began = time.process_time()
                played = trainer.player.play(rows, step, True).episodes
                spent.append(time.process_time() - began)
            if step:
                seconds += min(spent)
                turns += sum(len(episode.turns) for episode in played)
            else:
                tokens = 0
        if not alternate:
            break
    trainer.accelerator.wait_for_everyone()
    name = f"{args.world_size}-{args.process_index}.json"
    (folder / name).write_text(json.dumps([seconds, turns, tokens // REPEATS]))


def launch(
    folder: Path, processes: int, episodes: int, steps: int, alternate: bool
) -> list[Any]:
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    command += ["--nproc_per_node", str(processes), __file__, "--folder", str(folder)]
    command += ["--episodes", str(episodes), "--steps", str(steps)]
    command += ["--alternate"] * alternate
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
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--alternate", action="store_true")
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    size = given.episodes, given.steps, given.alternate
    if given.folder:
        measure(given.folder, *size)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        save_model(folder / "model")
        totals = []
        for processes in (1, 2):
            found = launch(folder, processes, *size)
            assert len(found) == processes
            totals.append([sum(column) for column in zip(*found, strict=True)])
    (one, turns, tokens), (two, turns_of_two, tokens_of_two) = totals
    assert turns == turns_of_two, totals
    print(f"{turns} turns")
    print(f"CPU seconds: {one:.3f} and {two:.3f}, {two / one:.3f} times")
    ratio = tokens_of_two / tokens
    print(f"tokens: {tokens:.0f} and {tokens_of_two:.0f}, {ratio:.3f} times")


if __name__ == "__main__":
    main()
