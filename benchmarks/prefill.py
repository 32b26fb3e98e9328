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

Without the cache, 16 episodes of Hanabi with transcripts compute 0.3 million prompt tokens, which takes most of the run.

`--scoring` measures exact NashConv instead: each prompt with each of its legal replies. `--loss` counts the
tokens that run in the loss of the same episodes: `rows` are tokens of distinct rows; `packed` those where rows
that begin alike are one (`packed_rows`), with layers of the model's size and of SmolLM2's; `prefixes` those of
distinct beginnings, the least possible.

    OMP_NUM_THREADS=1 python benchmarks/prefill.py
    OMP_NUM_THREADS=1 python benchmarks/prefill.py --games hanabi --histories transcript --episodes 16 --repeats 1
    OMP_NUM_THREADS=1 python benchmarks/prefill.py --scoring --games kuhn_poker leduc_poker
    OMP_NUM_THREADS=1 python benchmarks/prefill.py --loss --games tic_tac_toe hanabi
    OMP_NUM_THREADS=1 python benchmarks/prefill.py --model smollm2 --episodes 8 --repeats 1 --games tic_tac_toe
"""

import argparse
import random
import statistics
import sys
import time
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from transformers import PreTrainedModel, PreTrainedTokenizerBase

import arena_envs
from arena_eval.exploit import exploitability, requests_of
from arena_trainers.lm import LMPolicy
from arena_trainers.lm.backends import Generated, Prompts, Sampling, prefixes
from arena_trainers.lm.backends import transformers as backend_module
from arena_trainers.lm.backends.padding import entry_mask, padded_array
from arena_trainers.lm.backends.prefix_tree import common_length
from arena_trainers.lm.backends.sampling import SeededSampler
from arena_trainers.lm.backends.transformers import TransformersBackend
from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
from arena_trainers.train.score.packing import packed_rows, pairs_per_token
from arena_wrappers import PromptOptions, Reply, TurnRequest, play

GAMES = ["tic_tac_toe", "connect_four", "hanabi", "negotiation", "kuhn_poker"]
SAMPLES = 8
MAX_TOKENS = 16_384  # of a pass of the loss
PAIRS_OF_SMOLLM2 = 3072.0  # `pairs_per_token`


class Scripted(SeededSampler):
    """Draws as usual, and gives the tokens of scripted replies."""

    replies: Sequence[Sequence[int]] = ()  # of the whole batch
    is_prefill = True

    def draw(
        self, logits: torch.Tensor, row_of: NDArray[np.int64], rows: NDArray[np.int64]
    ) -> torch.Tensor:
        step = len(self.logprobs)
        drawn = super().draw(logits, row_of, rows)
        Scripted.is_prefill = False
        seeds = self.seeds.tolist()
        replies = [self.replies[seeds[row]] for row in rows]
        return torch.tensor([ids[step] for ids in replies], device=drawn.device)


class ScriptedBackend:
    """The model's backend, with scripted replies; counts the tokens of prompts that it computes."""

    runs_model = True

    def __init__(self, policy: LMPolicy, num_tokens: int, keeps: bool) -> None:
        self.inner = TransformersBackend(policy.model, policy.pad_id)
        if not keeps:
            self.inner._shapes = [None]
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


def scoring_line(name: str, game: str, repeats: int) -> str:
    """A line of the table, of exact NashConv."""
    options = PromptOptions("answer")
    model, tokenizer = model_of(name, game, options)
    policy = LMPolicy(model, tokenizer, prompt=options)
    rules = arena_envs.make_game(game)
    requests = requests_of(rules, options).values()
    rows = [
        (policy.prompt_ids(request), policy.chat.ids(request.wrap(text)))
        for request in requests
        for text in request.legal
    ]
    counts = {True: 0, False: 0}
    seconds: dict[bool, list[float]] = {True: [], False: []}
    forward = type(model).forward
    for _ in range(repeats):
        for keeps in counts:
            counts[keeps] = 0

            def counted(*args: Any, keeps: bool = keeps, **inputs: Any) -> Any:
                counts[keeps] += inputs["input_ids"].numel()
                return forward(model, *args, **inputs)

            prefixes.LEAST_PRODUCTS = 0 if keeps else 10**20
            model.forward = counted
            start = time.process_time()
            nash_conv = exploitability(policy, rules).nash_conv
            seconds[keeps].append(time.process_time() - start)
            print(f"NashConv {nash_conv:.9f}", file=sys.stderr)
    once = num_once([([prompt for prompt, _ in rows], [ids for _, ids in rows])])
    ratio = statistics.median(
        ours / plain for ours, plain in zip(*seconds.values(), strict=True)
    )
    total = sum(len(prompt) for prompt, _ in rows)
    cells = " | ".join(f"{n:,}" for n in (total, once, *counts.values()))
    shares = f"{counts[True] / once:.2f} | {counts[True] / counts[False]:.2f}"
    return f"| NashConv of {game} | {cells} | {shares} | {ratio:.2f} |"


def loss_line(
    name: str, game: str, history: str, episodes: int, num_tokens: int
) -> str:
    """A line of the table, of the tokens of a loss."""
    options = PromptOptions("answer", history=history)  # type: ignore[arg-type] # of choices
    model, tokenizer = model_of(name, game, options)
    policy = LMPolicy(
        model, tokenizer, max_new_tokens=max(num_tokens, 64), prompt=options
    )
    calls = run(policy, game, episodes, num_tokens, keeps=True).calls
    rows = {
        (tuple(prompt), tuple(reply))
        for prompts, replies in calls
        for prompt, reply in zip(prompts, replies, strict=True)
    }
    prompts, replies = zip(*sorted(rows), strict=True)
    prompt_mask = entry_mask(prompts, 1)[:, ::-1]
    reply_mask = entry_mask(replies, 1)
    ids = np.concatenate(
        [padded_array(prompts, prompt_mask, 0), padded_array(replies, reply_mask, 0)],
        axis=1,
    )
    mask = np.concatenate([prompt_mask, reply_mask], axis=1).astype(np.int64)
    arrays = torch.from_numpy(ids), torch.from_numpy(mask)
    width = reply_mask.shape[1]
    num_packed = [
        sum(len(row.tokens) for row in packed_rows(*arrays, width, MAX_TOKENS, pairs))
        for pairs in (pairs_per_token(model), PAIRS_OF_SMOLLM2)
    ]
    # the last token of a row is no input
    texts = sorted([*prompt, *reply[:-1]] for prompt, reply in rows)
    num_prefixes = num_distinct_prefixes(texts)
    numbers = [sum(map(len, texts)), num_prefixes, *num_packed]
    cells = [
        *(f"{number:,}" for number in numbers),
        *(f"{number / num_prefixes:.2f}" for number in num_packed),
    ]
    return f"| {game}, {history}, {num_tokens} | {' | '.join(cells)} |"


def num_distinct_prefixes(texts: Sequence[Sequence[int]]) -> int:
    """The number of distinct beginnings of sorted texts, each of at least one token."""
    arrays = [np.zeros(0, np.int64), *(np.array(text) for text in texts)]
    return sum(
        len(text) - common_length(text, before) for before, text in pairwise(arrays)
    )


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
    parser.add_argument("--scoring", action="store_true", help="exact NashConv")
    parser.add_argument("--loss", action="store_true", help="tokens of the loss")
    parser.add_argument("--repeats", type=int, default=3)
    args = parser.parse_args()
    torch.set_num_threads(1)
    backend_module.SeededSampler = Scripted  # type: ignore[attr-defined]
    if args.loss:
        print(
            f"{args.model}, {args.episodes} episodes\n\n"
            "| game, history, tokens of a reply | rows | prefixes | packed | packed, SmolLM2 | packed / prefixes | SmolLM2 |\n"
            "|---|---|---|---|---|---|---|"
        )
        for game in args.games:
            for history in args.histories:
                sizes = args.episodes, args.reply
                print(loss_line(args.model, game, history, *sizes), flush=True)
        return
    print(
        f"{args.model}, {args.episodes} episodes\n\n"
        "| game, history, tokens of a reply | prompts | each once | computed with | without "
        "| with / each once | with / without | seconds, with / without |\n"
        "|---|---|---|---|---|---|---|---|"
    )
    if args.scoring:
        for game in args.games:
            print(scoring_line(args.model, game, args.repeats), flush=True)
        return
    for game in args.games:
        for history in args.histories:
            row = line(
                args.model, game, history, args.episodes, args.reply, args.repeats
            )
            print(row, flush=True)


if __name__ == "__main__":
    main()
