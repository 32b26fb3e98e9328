"""Speed of `play` with a language model, beside a loop that only generates.

The model is the tiny one, warm-started on legal play of Kuhn poker; 256 games are in
flight. A first pass records the prompts of every lockstep batch. Then the same batches are
timed twice: by `play` (prompts, tokens, sampling, parsing, environment, records), and by
plain `model.generate` on the padded prompts with ordinary sampling. `LMPolicy` computes
prompts that are alike once, and games of Kuhn poker are often alike, so `play` can be the
faster of the two. Repeats are
interleaved, so that a busy machine is unfair to both alike; times are CPU seconds on one
thread, and the table shows medians.

    python benchmarks/rollout_speed.py --repeats 9
"""

import argparse
import gc
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from transformers import GenerationConfig

import arena_envs
from arena_trainers.data import legal_play
from arena_trainers.lm import LMPolicy
from arena_trainers.offline.warm_start import warm_start
from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
from arena_wrappers import Episode, PromptOptions, PromptWrapper, TurnRequest, play

NUM_EPISODES = 1024
IN_FLIGHT = 256
PROMPTS = {  # name: prompt options and longest reply in tokens
    "short prompts": (PromptOptions("bare", rules=False), 2),
    "full prompts": (PromptOptions(), 4),
}


class Recorder:
    """Plays as another policy does, and keeps the prompts of every batch."""

    name = "recorder"

    def __init__(self, policy: LMPolicy) -> None:
        self.policy = policy
        self.batches: list[list[list[int]]] = []

    def act(self, requests: Sequence[TurnRequest]) -> Any:
        self.batches.append([self.policy.prompt_ids(r) for r in requests])
        return self.policy.act(requests)


class Bench:
    """One kind of prompts: its model, its environment, its recorded batches."""

    def __init__(self, options: PromptOptions, max_new_tokens: int) -> None:
        self.options = options
        game = arena_envs.make_game("kuhn_poker")
        tokenizer = tiny_tokenizer(words_of(game, options))
        self.policy = LMPolicy(
            tiny_model(tokenizer), tokenizer, max_new_tokens=max_new_tokens
        )
        warm_start(
            self.policy,
            legal_play([self.env], 300, seed=0),
            num_steps=60,
            learning_rate=3e-3,
            batch_size=64,
        )
        self.policy.model.eval()
        recorder = Recorder(self.policy)
        self.episodes = self.rollout(recorder)
        self.inputs = [self.padded(batch) for batch in recorder.batches]
        self.config = GenerationConfig(
            max_new_tokens=max_new_tokens,
            do_sample=True,
            top_k=0,
            eos_token_id=self.policy.eos_ids,
            pad_token_id=self.policy.pad_id,
        )

    def env(self) -> PromptWrapper:
        env = arena_envs.make("kuhn_poker")
        return PromptWrapper(env, self.options.reply_format, rules=self.options.rules)

    def padded(self, batch: list[list[int]]) -> tuple[torch.Tensor, torch.Tensor]:
        width = max(map(len, batch))
        pad = self.policy.pad_id
        ids = torch.tensor([[pad] * (width - len(row)) + row for row in batch])
        mask = torch.tensor([[0] * (width - len(r)) + [1] * len(r) for r in batch])
        return ids, mask

    def rollout(self, policy: Any) -> list[Episode]:
        return play(self.env, policy, range(NUM_EPISODES), batch_size=IN_FLIGHT)

    @torch.no_grad()
    def generate(self) -> None:
        for ids, mask in self.inputs:
            self.policy.model.generate(  # type: ignore[operator]
                input_ids=ids, attention_mask=mask, generation_config=self.config
            )

    def measure(self, repeats: int) -> dict[str, float]:
        ours, plain = [], []
        for _ in range(repeats):
            ours.append(_seconds(lambda: self.rollout(self.policy)))
            plain.append(_seconds(self.generate))
        num_turns = sum(len(episode.turns) for episode in self.episodes)
        valid = sum(t.invalid is None for e in self.episodes for t in e.turns)
        rollout, generation = statistics.median(ours), statistics.median(plain)
        return {
            "play_episodes_per_second": NUM_EPISODES / rollout,
            "generate_episodes_per_second": NUM_EPISODES / generation,
            "ratio": statistics.median(p / o for p, o in zip(plain, ours, strict=True)),
            "play_us_per_turn": 1e6 * rollout / num_turns,
            "generate_us_per_turn": 1e6 * generation / num_turns,
            "legal_rate": valid / num_turns,
        }


def _seconds(run: Any) -> float:
    gc.collect()  # nobody pays for the objects of the one before
    start = time.process_time()
    run()
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--repeats", type=int, default=9, help="measurements of each")
    parser.add_argument("--json", help="also write the numbers to this file")
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    numbers = {name: Bench(*how).measure(args.repeats) for name, how in PROMPTS.items()}
    table = Table("", *numbers)
    for row in next(iter(numbers.values())):
        cells = (n[row] for n in numbers.values())
        table.add_row(
            row.replace("_", " "),
            *(f"{c:,.2f}" if c < 10 else f"{c:,.0f}" for c in cells),
        )
    Console().print(table)
    if args.json:
        with open(args.json, "w") as file:
            json.dump(numbers, file, indent=1)


if __name__ == "__main__":
    main()
