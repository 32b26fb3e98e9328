"""CPU time of four parts of a step, compared with a lower bound (`floor`) and a plain implementation.

| part | ours | floor | plain |
|---|---|---|---|
| joins | `joined_replies`, forward and backward | one selection and one scatter, by a mask | a tensor for each row, padded by torch |
| packing | `packed_rows` of distinct rows | one sort of the rows | - |
| masks | the inputs of a packed row with its blocks | ids and positions alone | with a mask of all pairs of tokens |
| tokens | the new prompts of each round, in pieces that are encoded once | - | each text as a whole |

The variants run in turn, each measured by itself; ratios are medians over repeats. The ids of
`tokens` are compared with those of whole texts.

    OMP_NUM_THREADS=1 python benchmarks/parts_speed.py
    OMP_NUM_THREADS=1 python benchmarks/parts_speed.py --parts joins --rows 6000
"""

import argparse
import random
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import torch
from transformers import AutoTokenizer

from arena_trainers.lm.chat import Chat
from arena_trainers.lm.models import find_model
from arena_trainers.train.score.blocks import block_inputs
from arena_trainers.train.score.packing import (
    PackedRow,
    joined_replies,
    model_inputs,
    packed_rows,
)
from arena_wrappers import Reply, TurnRequest, play

WIDTH, PROMPT = 20, 40  # tokens of a reply, and of a prompt
PAIRS = 10_000.0  # as `pairs_per_token`
MAX_TOKENS = 2**20


class Work(NamedTuple):
    """A measured part: its size in words, and by variant a function that returns the CPU seconds of a run."""

    size: str
    runs: Mapping[str, Callable[[], float]]


def timed(run: Callable[[], object]) -> Callable[[], float]:
    """A function that runs another once and returns the CPU seconds."""

    def measure() -> float:
        start = time.process_time()
        run()
        return time.process_time() - start

    return measure


def rows_of(num_rows: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Ids and mask of distinct rows, int64[B, PROMPT + WIDTH]; replies of different lengths."""
    rng = np.random.default_rng(0)
    ids = rng.integers(1000, size=(num_rows, PROMPT + WIDTH))
    mask = np.ones_like(ids)
    sizes = rng.integers(1, WIDTH + 1, size=(num_rows, 1))
    mask[:, PROMPT:] = np.arange(WIDTH) < sizes
    return torch.from_numpy(ids), torch.from_numpy(mask)


def joins(args: argparse.Namespace) -> list[Work]:
    ids, mask = rows_of(args.rows)
    chunk = packed_rows(ids, mask, WIDTH, MAX_TOKENS, None)
    sizes = [row.sizes[0] for row in chunk]
    scores = torch.zeros((len(chunk), WIDTH), requires_grad=True)

    def backward(join: Callable[[torch.Tensor], torch.Tensor]) -> None:
        scores.grad = None
        torch.autograd.backward(join(scores * 1.0).sum())

    def floor(values: torch.Tensor) -> torch.Tensor:
        is_reply = torch.arange(WIDTH) < torch.tensor(sizes)[:, None]
        flat = values.masked_select(is_reply)
        return values.new_zeros(values.shape).masked_scatter(is_reply, flat)

    def plain(values: torch.Tensor) -> torch.Tensor:
        rows = [row[:size] for row, size in zip(values, sizes, strict=True)]
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    runs = {
        "ours": timed(lambda: backward(lambda x: joined_replies([x], [chunk], WIDTH))),
        "floor": timed(lambda: backward(floor)),
        "plain": timed(lambda: backward(plain)),
    }
    return [Work(f"{len(chunk):,} rows x {WIDTH} tokens", runs)]


def packing(args: argparse.Namespace) -> list[Work]:
    ids, mask = rows_of(args.rows)
    runs = {
        "ours": timed(lambda: packed_rows(ids, mask, WIDTH, MAX_TOKENS, PAIRS)),
        "floor": timed(lambda: sorted(row.tobytes() for row in ids.numpy())),
    }
    return [Work(f"{args.rows:,} distinct rows", runs)]


def masks(args: argparse.Namespace) -> list[Work]:
    return [
        masks_of(branching_row(length), f"{length:,} tokens, 8 replies")
        for length in args.lengths
    ]


def masks_of(row: PackedRow, size: str) -> Work:
    def ours() -> object:
        return model_inputs([row], with_mask=False), block_inputs([row])

    runs = {
        "ours": timed(ours),
        "floor": timed(lambda: model_inputs([row], with_mask=False)),
        "plain": timed(lambda: model_inputs([row], with_mask=True)),
    }
    return Work(size, runs)


def branching_row(length: int) -> PackedRow:
    """A prompt of half the length with eight replies."""
    rng = np.random.default_rng(0)
    reply = length // 16
    prompt = rng.integers(1000, size=length - 8 * reply)
    replies = rng.integers(1000, size=(8, reply))
    ids = np.concatenate([np.tile(prompt, (8, 1)), replies], axis=1)
    rows = torch.from_numpy(ids), torch.ones(ids.shape, dtype=torch.int64)
    (row,) = packed_rows(*rows, reply, MAX_TOKENS, 1e9)
    return row


def tokens(args: argparse.Namespace) -> list[Work]:
    return [tokens_of(game, args.tokenizer) for game in args.games]


def tokens_of(game: str, tokenizer_name: str) -> Work:
    folder = find_model(tokenizer_name)
    if folder is None:
        raise ValueError(f"want {tokenizer_name} converted; run arena train smollm2")
    tokenizer = AutoTokenizer.from_pretrained(folder)
    rounds = prompt_texts(Chat(tokenizer), game)

    def pieces() -> float:
        chat = Chat(tokenizer)  # with an empty cache of pieces
        start = time.process_time()
        for texts in rounds:
            chat.ids_of(texts)
        return time.process_time() - start

    def whole() -> list[list[list[int]]]:
        return [
            [tokenizer.encode(text, add_special_tokens=False) for text in texts]
            for texts in rounds
        ]

    chat = Chat(tokenizer)
    if [chat.ids_of(texts) for texts in rounds] != whole():
        raise ValueError(f"pieces of {game} have other ids than whole texts")
    num = sum(map(len, rounds))
    return Work(f"{game}, {num} prompts", {"ours": pieces, "plain": timed(whole)})


def prompt_texts(chat: Chat, game: str) -> list[list[str]]:
    """The new prompts of each round of 64 episodes of random play, as a policy renders them."""
    rounds: list[list[str]] = []
    rng = random.Random(0)
    rendered = set[str]()

    class Reader:
        """Plays at random, and collects the prompts."""

        name = "reader"

        def act(self, requests: Sequence[TurnRequest]) -> list[Reply]:
            texts = [chat.prompt_text(r.messages, r.date) for r in requests]
            new = [text for text in dict.fromkeys(texts) if text not in rendered]
            rendered.update(new)
            rounds.append(new)
            return [Reply(r.wrap(rng.choice(r.legal))) for r in requests]

    play(game, Reader(), range(64))
    return rounds


PARTS = {"joins": joins, "packing": packing, "masks": masks, "tokens": tokens}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=[*PARTS])
    parser.add_argument("--rows", type=int, default=4000, help="of joins and packing")
    parser.add_argument("--lengths", type=int, nargs="+", default=[4096, 16_384])
    parser.add_argument("--games", nargs="+", default=["tic_tac_toe", "hanabi"])
    parser.add_argument("--tokenizer", default="smollm2", help="a model with one")
    parser.add_argument("--repeats", type=int, default=5)
    args = parser.parse_args()
    torch.set_num_threads(1)
    print("| part | ours, ms | ours / floor | ours / plain |")
    print("|---|---|---|---|")
    for part in args.parts:
        for work in PARTS[part](args):
            turns = [
                {k: run() for k, run in work.runs.items()} for _ in range(args.repeats)
            ]
            milliseconds = 1e3 * statistics.median(turn["ours"] for turn in turns)
            cells = [f"{part}: {work.size}", f"{milliseconds:,.2f}"]
            for other in ("floor", "plain"):
                ratios = [t["ours"] / t[other] for t in turns if other in t]
                cells.append(f"{statistics.median(ratios):.3g}" if ratios else "-")
            print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
