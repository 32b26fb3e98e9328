"""How often `arena improve` accepts a text of noise: at most 5 % of runs should.

    python benchmarks/improve_noise.py --runs 200 --out benchmarks/improve_noise.json

The player's choices are random, and another text gives other choices with the same chances: no text
is better than another. Each run has seeds of its own. `accepted` counts the runs that keep a text;
`first_in_race` those whose best candidate had a difference above 0 in its race, which a loop without
confirmation would keep. `sd_of_confirmations` is of the differences in confirmations: not 0, so there
was noise to be fooled by.
"""

import argparse
import json
import random
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import pstdev
from typing import Any

from arena_eval.improve import Evidence, Improvement
from arena_wrappers import FunctionPolicy, TurnRequest


def moody(request: TurnRequest) -> str:
    """A random action, which depends on the system message and on the turn."""
    rng = random.Random(f"{request.messages[0]['content']} {request.seed}")
    return request.wrap(rng.choice(request.legal))


class NoiseProposer:
    """Writes texts that mean nothing."""

    name = "noise"

    def propose(self, evidence: Evidence, num_texts: int, seed: int) -> list[str]:
        rng = random.Random(seed)
        return [f"Note {rng.random()}." for _ in range(num_texts)]


def run_of(number: int, game: str, **options: Any) -> dict[str, Any]:
    """What one run of the seed `1_000_000 * number` did."""
    with tempfile.TemporaryDirectory() as folder:
        improvement = Improvement(
            FunctionPolicy(moody),
            game,
            [],
            NoiseProposer(),
            out=Path(folder),
            seed=1_000_000 * number,
            **options,
        )
        rows = improvement.run()
    confirmations = [row for row in rows if row["kind"] == "confirmation"]
    return {
        "run": number,
        "is_accepted": any(row["is_accepted"] for row in confirmations),
        "is_first_in_race": bool(confirmations),
        "confirmations": [row["difference"] for row in confirmations],
    }


def summary_of(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """The counts of all runs."""
    differences = [value for run in runs for value in run["confirmations"]] or [0.0]
    return {
        "runs": len(runs),
        "accepted": sum(run["is_accepted"] for run in runs),
        "first_in_race": sum(run["is_first_in_race"] for run in runs),
        "sd_of_confirmations": round(pstdev(differences), 3),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--runs", type=int, default=200)
    parser.add_argument("--first", type=int, default=0, help="number of the first run")
    parser.add_argument("--game", default="kuhn_poker")
    parser.add_argument("--episodes", type=int, default=60)
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--candidates", type=int, default=2)
    parser.add_argument("--out", type=Path)
    args = parser.parse_args()
    start, runs = time.process_time(), []
    for number in range(args.first, args.first + args.runs):
        runs.append(
            run_of(
                number,
                args.game,
                num_rounds=args.rounds,
                num_texts=args.candidates,
                num_episodes=args.episodes,
            )
        )
        settings = {
            name: getattr(args, name)
            for name in ("game", "episodes", "rounds", "candidates")
        }
        summary = {
            **settings,
            **summary_of(runs),
            "cpu_seconds": round(time.process_time() - start),
        }
        if args.out:
            args.out.write_text(json.dumps(summary | {"each": runs}, indent=1) + "\n")
    print(json.dumps(summary))


if __name__ == "__main__":
    main()
