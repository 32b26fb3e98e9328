"""Cost of an evaluation beside the policies: prompts, parsing, records, exact NashConv.

CPU time of one process. Overhead: 1,000 episodes of tic-tac-toe, random against minimax,
through prompts and parsing; the time inside `act` is not counted. NashConv: the exact value
of a tiny language model, by scoring every legal reply at every information state.

    python benchmarks/eval_speed.py
"""

import argparse
import json
import statistics
import time
from collections.abc import Sequence
from typing import Any

import arena_envs
from arena_wrappers import Policy, PromptWrapper, Reply, TurnRequest, make_policy, play


class Timed:
    """A policy, and the CPU seconds that its `act` has taken."""

    def __init__(self, policy: Policy) -> None:
        self.policy, self.name, self.seconds = policy, policy.name, 0.0

    def act(self, requests: Sequence[TurnRequest]) -> Sequence[Reply]:
        start = time.process_time()
        replies = self.policy.act(requests)
        self.seconds += time.process_time() - start
        return replies


def overhead(num_episodes: int) -> float:
    """Microseconds per turn outside the policies."""
    policies = [Timed(make_policy("random")), Timed(make_policy("minimax"))]
    env = PromptWrapper(arena_envs.make("tic_tac_toe"))
    play(lambda: env, policies, range(10))  # the solver solves
    for policy in policies:
        policy.seconds = 0.0
    start = time.process_time()
    episodes = play(lambda: env, policies, range(num_episodes))
    spent = time.process_time() - start - sum(policy.seconds for policy in policies)
    return 1e6 * spent / sum(len(episode.turns) for episode in episodes)


def lm_nash_conv(id: str) -> dict[str, Any]:
    """Seconds of an exact NashConv of an untrained tiny model, with short prompts."""
    from arena_eval import exploitability
    from arena_trainers import LMPolicy
    from arena_trainers.runs import tiny_model, tiny_tokenizer, words_of
    from arena_wrappers import PromptOptions

    game = arena_envs.make_game(id)
    options = PromptOptions("bare", rules=False)
    tokenizer = tiny_tokenizer(words_of(game, options))
    policy = LMPolicy(tiny_model(tokenizer), tokenizer)
    start = time.perf_counter()
    result = exploitability(policy, game, options)
    return {"nash_conv": result.nash_conv, "seconds": time.perf_counter() - start}


def main() -> None:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    repeats = parser.parse_args().repeats
    turns = [overhead(1000) for _ in range(repeats)]
    numbers = {
        "overhead_us_per_turn": statistics.median(turns),
        **{f"lm_{id}": lm_nash_conv(id) for id in ("kuhn_poker", "leduc_poker")},
    }
    print(json.dumps(numbers, indent=1))


if __name__ == "__main__":
    main()
