"""Tokens and CPU seconds of prompts, with and without the keys and values of earlier rounds.

Self-play in lockstep, eight samples of each seed, with scripted legal replies of a given length.
Both ways play the same episodes with the same model, one after the other, in turns. Per game:

| column | what it is |
|---|---|
| `prompts` | tokens of all prompts |
| `each once` | tokens of prompts that no earlier prompt or reply begins with |
| `computed` | tokens of forward passes before replies, padding included: `with` and `without` |
| `with / each once` | 1 if each beginning is computed once |
| `seconds` | CPU seconds of generation, prompts and replies: `with / without` |

    OMP_NUM_THREADS=1 python benchmarks/prefill.py
    OMP_NUM_THREADS=1 python benchmarks/prefill.py --model smollm2 --episodes 8 --repeats 1 --games tic_tac_toe
"""

import argparse
import random
import statistics
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

import arena_envs
from arena_trainers.lm import LMPolicy
from arena_trainers.lm.backends import Generated, Prompts, Sampling
from arena_trainers.lm.backends import transformers as backend_module
from arena_trainers.lm.backends.sampling import SeededSampler
from arena_trainers.lm.backends.transformers import TransformersBackend
from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
from arena_wrappers import PromptOptions, Reply, TurnRequest, play

GAMES = ["tic_tac_toe", "connect_four", "hanabi", "negotiation", "kuhn_poker"]
SAMPLES = 8


class Scripted(SeededSampler):
    """Draws as usual, and gives the tokens of scripted replies."""

    replies: Sequence[Sequence[int]] = ()  # of the whole batch
    places: Sequence[int] = ()  # of its rows, by seed
    is_prefill = True

    def draw(
        self, logits: torch.Tensor, row_of: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> torch.Tensor:
        step = len(self.logprobs)
        drawn = super().draw(logits, row_of, rows)
        Scripted.is_prefill = False
        seeds = self.seeds[:, 0].tolist()
        replies = [self.replies[seeds[row]] for row in rows]
        return torch.tensor([ids[step] for ids in replies], device=drawn.device)


class Measured(NamedTuple):
    """What a run computed."""

    computed: int
    seconds: float


class ScriptedBackend:
    """The model's backend, with scripted replies; counts the tokens of prompts that it computes."""

    runs_model = True

    def __init__(self, policy: LMPolicy, num_tokens: int, keeps: bool) -> None:
        self.inner = TransformersBackend(policy.model, policy.pad_id)
        if not keeps:
            self.inner._num_weights = 0  # so that no prompt is worth keeping
        self.policy, self.num_tokens = policy, num_tokens
        self.rng = random.Random(0)
        self.fillers = [i for i in range(20) if i not in policy.eos_ids]
        self.requests: Sequence[TurnRequest] = ()
        self.calls: list[tuple[Prompts, list[list[int]]]] = []
        self.computed, self.seconds = 0, 0.0

    def generate(
        self, prompt_ids: Prompts, seeds: Sequence[int], sampling: Sampling
    ) -> Generated:
        replies = []
        for request in self.requests:
            text = request.wrap(self.rng.choice(request.legal))
            ids = self.policy.chat.ids(text)
            num = max(self.num_tokens - len(ids) - 1, 0)
            filler = self.rng.choices(self.fillers, k=num)
            replies.append([*filler, *ids, self.policy.eos_ids[0]])
        Scripted.replies, Scripted.is_prefill = replies, True
        self.calls.append((prompt_ids, replies))
        start = time.process_time()
        generated = self.inner.generate(prompt_ids, range(len(prompt_ids)), sampling)
        self.seconds += time.process_time() - start
        return generated

    def forget_episodes(self) -> None:
        self.inner.forget_episodes()


class Recorder:
    """Tells the backend which requests it answers."""

    name = "recorder"

    def __init__(self, policy: LMPolicy, backend: ScriptedBackend) -> None:
        self.policy, self.backend, self.prompt = policy, backend, policy.prompt

    def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
        self.backend.requests = requests
        return self.policy.act(requests)

    def forget_episodes(self) -> None:
        self.policy.forget_episodes()


def run(
    policy: LMPolicy, game: str, episodes: int, num_tokens: int, keeps: bool
) -> ScriptedBackend:
    """Plays the episodes of a game."""
    backend = ScriptedBackend(policy, num_tokens, keeps)
    policy.backend = backend
    model: Any = policy.model
    forward = type(model).forward

    def counted(*args: Any, **inputs: Any) -> Any:
        if Scripted.is_prefill:
            backend.computed += inputs["input_ids"].numel()
        return forward(model, *args, **inputs)

    model.forward = counted
    play(
        game, Recorder(policy, backend), range(episodes // SAMPLES), num_samples=SAMPLES
    )
    del model.forward
    return backend


def num_once(calls: Sequence[tuple[Prompts, list[list[int]]]]) -> int:
    """Tokens of prompts that begin no earlier prompt with its reply."""
    root: dict[int, Any] = {}
    total = 0
    for prompts, replies in calls:
        for prompt, reply in zip(prompts, replies, strict=True):
            node = root
            for token in prompt:
                if token not in node:
                    node[token] = {}
                    total += 1
                node = node[token]
            for token in reply:
                node = node.setdefault(token, {})
    return total


def model_of(
    name: str, game: str, options: PromptOptions
) -> tuple[PreTrainedModel, PreTrainedTokenizerBase]:
    """The tiny model with the words of a game, or SmolLM2."""
    if name == "tiny":
        tokenizer = tiny_tokenizer(words_of(arena_envs.make_game(game), options))
        return tiny_model(tokenizer), tokenizer
    from transformers import AutoModelForCausalLM, AutoTokenizer

    from arena_trainers.lm import smollm2

    folder = smollm2.converted() or smollm2.convert()
    model = AutoModelForCausalLM.from_pretrained(folder, dtype="float32")
    return model, AutoTokenizer.from_pretrained(folder)


def line(
    name: str, game: str, history: str, episodes: int, num_tokens: int, repeats: int
) -> str:
    """A line of the table."""
    options = PromptOptions("answer", history=history)  # type: ignore[arg-type] # of choices
    model, tokenizer = model_of(name, game, options)
    model.train(mode=False)
    policy = LMPolicy(
        model, tokenizer, max_new_tokens=max(num_tokens, 64), prompt=options
    )
    runs: dict[bool, list[ScriptedBackend]] = {True: [], False: []}
    for _ in range(repeats):
        for keeps, finished in runs.items():
            finished.append(run(policy, game, episodes, num_tokens, keeps))
    kept, anew = runs[True][0], runs[False][0]
    assert kept.calls == anew.calls  # the same episodes
    ratio = statistics.median(
        ours.seconds / plain.seconds for ours, plain in zip(*runs.values(), strict=True)
    )
    once = num_once(kept.calls)
    total = sum(len(ids) for prompts, _ in kept.calls for ids in prompts)
    numbers = (total, once, kept.computed, anew.computed)
    cells = " | ".join(f"{number:,}" for number in numbers)
    shares = f"{kept.computed / once:.2f} | {kept.computed / anew.computed:.2f}"
    return f"| {game}, {history}, {num_tokens} | {cells} | {shares} | {ratio:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--model", choices=["tiny", "smollm2"], default="tiny")
    parser.add_argument("--games", nargs="+", default=GAMES)
    parser.add_argument("--histories", nargs="+", default=["state", "transcript"])
    parser.add_argument("--episodes", type=int, default=64, help="a multiple of 8")
    parser.add_argument("--reply", type=int, default=20, help="tokens of a reply")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    backend_module.SeededSampler = Scripted  # type: ignore[attr-defined]
    print(
        f"{args.model}, {args.episodes} episodes\n\n"
        "| game, history, tokens of a reply | prompts | each once | computed with | without "
        "| with / each once | with / without | seconds, with / without |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    for game in args.games:
        for history in args.histories:
            row = line(
                args.model, game, history, args.episodes, args.reply, args.repeats
            )
            print(row, flush=True)


if __name__ == "__main__":
    main()
