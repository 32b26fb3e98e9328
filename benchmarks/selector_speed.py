"""CPU time of every selector on 10,000 recorded episodes.

Episodes are random play with four samples of each seed, turn trees, and play that asks again
after an invalid reply. They have no states in memory, as after reading a file, so selectors
that ask a solver play them again. The solver is `random`: solving a game for `cfr` comes on top.

    python benchmarks/selector_speed.py --episodes 10000 --game leduc_poker
"""

import argparse
import json
import pickle
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import arena_envs
from arena_trainers.data import joined, select, selectors
from arena_wrappers import Branching, Episode, PromptWrapper, ScriptedPolicy, play


def episodes_of(game: str, count: int) -> list[Episode]:
    """A mixture of groups (a half), trees (a quarter) and retries (a quarter)."""
    asking = PromptWrapper(arena_envs.make(game), "bare", on_invalid="retry")
    careless = ScriptedPolicy(
        lambda request: request.legal[0] if len(request.messages) > 2 else "?"
    )
    seats = arena_envs.make_game(game).num_players
    tree = Branching(4, turns=[0], seats=[0])
    parts = [
        play(game, "random", range(count // 8), num_samples=4),
        play(game, "random", range(count, count + count // 20), branch=tree),
        play(
            asking.clone, [careless] * seats, range(2 * count, 2 * count + count // 4)
        ),
    ]
    return list(pickle.loads(pickle.dumps(joined(parts))))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--episodes", type=int, default=10_000)
    parser.add_argument("--game", default="leduc_poker")
    args = parser.parse_args()
    episodes = episodes_of(args.game, args.episodes)
    turns = sum(len(episode.turns) for episode in episodes)
    table = Table("selector", "CPU s", "rows", "merged")
    table.title = f"{len(episodes):,} episodes of {args.game}, {turns:,} turns"
    with tempfile.TemporaryDirectory() as folder:
        chat = Path(folder, "chat.jsonl")
        said = [{"role": role, "content": "!"} for role in ("user", "assistant")]
        chat.write_text((json.dumps({"messages": said}) + "\n") * 2000)
        options: dict[str, dict[str, Any]] = {
            "best_of_group": {"lambda_tokens": 0},
            "mixed": {"general": chat, "share": 0.95},
            "solver_labels": {"solver": "random"},
            "solver_replies": {"solver": "random"},
        }
        for name in selectors.names():
            began = time.process_time()
            found = select(name, episodes, **options.get(name, {}))
            seconds = time.process_time() - began
            counts = f"{len(found.rows):,}", f"{found.num_merged:,}"
            table.add_row(name, f"{seconds:.2f}", *counts)
    Console().print(table)


if __name__ == "__main__":
    main()
