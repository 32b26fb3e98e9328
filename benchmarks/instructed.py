"""instructRL on Say-Select: one instruction, one convention. Prints its tables.

python benchmarks/instructed.py

Three balls, one of which pays, one round, no messages: six information states, so that policies,
conventions and KL divergences are exact. The tiny model cannot follow instructions. Its stand-in: before
training it imitates a selector that does what its instruction says with probability `FOLLOWED`, and
plays uniformly otherwise and without one; speakers play uniformly, whatever the instruction says.
(Rounded to whole examples: the instructed ball in 15 of 21.) It imitates until its probabilities are
within 0.01 of the examples': a start that is still learning to copy favours one convention. Then it
trains in self-play without an instruction in its prompt, with a KL term to itself as
instructed. The control trains with weight 0. All runs share one start; the seed is that of self-play.
"""

import argparse
import json
import math
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer, TrainerCallback

import arena_envs
from arena_envs.solvers import information_states
from arena_eval.exploit import tabular
from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.data import Example
from arena_trainers.lm import LMPolicy
from arena_trainers.offline.warm_start import warm_start
from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
from arena_wrappers import PromptOptions, TurnRequest

PARAMS = {"num_balls": 3, "max_paying": 1, "num_rounds": 1, "messages": False}
GAME = arena_envs.make_game("say_select", **PARAMS)
INSTRUCTIONS = {
    "same": "Select the named ball.",
    "next": "Select the ball after the named ball.",
}
FOLLOWED, WEIGHTS, SEEDS = 0.7, [1.0, 0.2], (0, 1, 2)
EVERY = 50  # steps between two matrices


def options_of(instruction: str) -> PromptOptions:
    return PromptOptions("bare", rules=False, persona=instruction)


def examples(copies: int = 20) -> list[Example]:
    """The replies of the stand-in, in every state with and without each instruction."""
    imitated = []
    for name, instruction in {**INSTRUCTIONS, "": ""}.items():
        for state in information_states(GAME).values():
            request = TurnRequest.at(GAME, state, options_of(instruction))
            legal, chances = list(request.legal), np.ones(len(request.legal))
            chances /= len(legal)
            if state.said and name:
                ball = (state.said[-1].values[0] - 1 + (name == "next")) % 3 + 1
                chances *= 1 - FOLLOWED
                chances[legal.index(f"select {ball}")] += FOLLOWED
            for text, number in zip(legal, np.rint(copies * chances), strict=True):
                imitated += [Example(request.messages, text)] * int(number)
    return imitated


def make_start(folder: Path, seed: int) -> None:
    """The tiny model that follows instructions."""
    texts = [
        t for i in ("", *INSTRUCTIONS.values()) for t in words_of(GAME, options_of(i))
    ]
    tokenizer = tiny_tokenizer(texts)
    model = tiny_model(tokenizer, hidden_size=32, num_layers=2, seed=seed)
    policy = LMPolicy(model, tokenizer, prompt=options_of(""), max_new_tokens=3)
    imitated = examples()
    size = len(imitated)
    warm_start(policy, imitated, num_steps=500, learning_rate=1e-2, batch_size=size)
    policy.save_pretrained(folder)


def exact(policy: LMPolicy, instruction: str = "") -> dict[Any, Any]:
    """The policy's probabilities in each information state."""
    return dict(tabular(policy, GAME, options_of(instruction))[0])


def divergence(table: Any, prior: Any) -> float:
    """The KL divergence to a prior, mean over the information states."""
    pairs = [(p, q) for k in table for p, q in zip(table[k], prior[k], strict=True)]
    return float(sum(p * math.log(p / q) for p, q in pairs if p) / len(table))


def conventions(table: Any, speaker: bool = False) -> list[list[float]]:
    """The probability of each selected ball (column) given the named one (row).

    Of a speaker, that of each named ball given the one that pays.
    """
    by_ball = {}
    for key, state in information_states(GAME).items():
        if speaker != bool(state.said):
            ball = state.paying[0] if speaker else state.said[-1].values[0]
            by_ball[ball] = [round(float(p), 3) for p in table[key][:3]]
    return [by_ball[ball] for ball in (1, 2, 3)]


def score(table: Any) -> float:
    """The expected score: the share of deals in which the ball that pays is selected, doubled less 1."""
    states, total = information_states(GAME), 0.0
    heard = {
        states[k].said[-1].values[0]: p for k, p in table.items() if states[k].said
    }
    for key, names in table.items():
        if not states[key].said:
            paying = states[key].paying[0]
            for ball, chance in enumerate(names, start=1):
                selects = heard[ball]
                total += chance * (2 * selects[paying - 1] - sum(selects[:3])) / 3
    return total


class Curve(TrainerCallback):
    """Score and matrices of selector and speaker, before and every `EVERY` steps."""

    def __init__(self, policy: LMPolicy) -> None:
        self.policy = policy
        self.found: dict[int, list[Any]] = {}

    def on_train_begin(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        self.on_step_end(args, state, control)

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        if state.global_step % EVERY == 0:
            table = exact(self.policy)
            matrices = conventions(table), conventions(table, speaker=True)
            self.found[state.global_step] = [round(score(table), 3), *matrices]


def train(name: str, seed: int, folder: Path, steps: int) -> dict[str, Any]:
    """One run: its score, conventions, and divergences to the instructed starts."""
    start = folder / "start"
    if not start.exists():
        make_start(start, 0)
    tokenizer = AutoTokenizer.from_pretrained(start)
    instructed: dict[str, Any] = {}
    if name in INSTRUCTIONS:
        instructed = {"reference": {"instruction": INSTRUCTIONS[name]}}
        instructed["losses"] = {"kl_to": {"weight": WEIGHTS, "over": steps // 2}}
    args = TurnGRPOConfig(
        output_dir=str(folder / f"{name}-{seed}"),
        games=[{"id": "say_select", "params": PARAMS}],
        reply_format="bare",
        rules=False,
        max_completion_length=3,
        episodes_per_step=64,
        num_generations=8,
        max_steps=steps,
        learning_rate=3e-3,
        lr_scheduler_type="constant",
        bf16=False,
        gradient_checkpointing=False,
        use_cpu=True,
        report_to="none",
        disable_tqdm=True,
        save_strategy="no",
        logging_strategy="no",
        seed=seed,
        **instructed,
    )
    trainer = TurnGRPOTrainer(str(start), args, processing_class=tokenizer)
    priors = {i: exact(trainer.policy, text) for i, text in INSTRUCTIONS.items()}
    curve = Curve(trainer.policy)
    trainer.add_callback(curve)
    trainer.train()
    table = exact(trainer.policy)
    return {
        "score": score(table),
        "curve": curve.found,
        **{f"to {i}": divergence(table, prior) for i, prior in priors.items()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--only", nargs="*", default=["none", *INSTRUCTIONS])
    parser.add_argument("--seeds", nargs="*", type=int, default=SEEDS)
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:
        for name in args.only:
            for seed in args.seeds:
                result = train(name, seed, Path(folder), args.steps)
                print(json.dumps({"instruction": name, "seed": seed, **result}))


if __name__ == "__main__":
    main()
