"""Two sweeps of "A Practitioner's Guide to Multi-turn Agentic Reinforcement Learning", with the tiny model.

    python benchmarks/guide_sweeps.py sft_rl
    python benchmarks/guide_sweeps.py density

Each does its missing runs, one after another, adds them to `docs/methods/guide_SWEEP.json`, and prints
its table. `sft_rl`: 60 optimizer steps of about 256 replies each, shared by imitation of a noisy expert
and self-play. `density`: the same return of Sokoban, paid at the end or as milestones on the way.
"""

import json
import sys
import tempfile
from itertools import combinations
from pathlib import Path
from typing import Any

from comparing import interval, paired_difference
from language_rl import arena

FOLDER = Path("docs", "methods")
SEEDS = range(3)
SHARED: dict[str, Any] = {
    **{
        "evaluate_every": 0,
        "saved_episodes": 2,
        "saved_groups": 0,
        "save_best": "false",
    },
    **{"eval_episodes": 50, "logging_steps": 20, "sync_ref_model": "false"},
}
KUHN = {"episodes_per_step": 112, "warm_start_teacher": "noisy:0.3(cfr)"}
LEVEL = {"size": 5, "num_boxes": 2, "num_levels": 2, "max_moves": 20}
LEVELS = json.dumps([{"id": "sokoban", "params": LEVEL}])
SOKOBAN = {
    **{
        "games": LEVELS,
        "warm_start_steps": 40,
        "max_steps": 40,
        "episodes_per_step": 32,
    },
    **{"beta": 0.05, "max_completion_length": 2},
}
SWEEPS: dict[str, dict[str, dict[str, Any]]] = {
    "sft_rl": {
        f"{sft}:{60 - sft}": {**KUHN, "warm_start_steps": sft, "max_steps": 60 - sft}
        for sft in (6, 30, 54)
    },
    "density": {
        "on the way": SOKOBAN,  # 1/2 for each of two boxes
        # less progress, and all of it back at the end
        "at the end": {**SOKOBAN, "rewards": "{milestones: {weight: -1.0}}"},
    },
}
MEASURES = {
    "sft_rl": "NashConv, lower is better",
    "density": "return, higher is better",
}


def value_of(sweep: str, options: dict[str, Any], seed: int) -> float:
    """What the model of one run reaches: exact NashConv, or its mean return in 200 episodes."""
    with tempfile.TemporaryDirectory() as folder:
        given = {**SHARED, **options, "save_steps": options["max_steps"], "seed": seed}
        told = [
            part for name, value in given.items() for part in (f"--{name}", f"{value}")
        ]
        arena(["train", "kuhn-tiny", *told, "--output_dir", folder])
        lineup = [
            "eval",
            f"lm:{folder}/model",
            "--no-baselines",
            "--json",
            "--seed",
            "1000000",
        ]
        if sweep == "sft_rl":
            found = json.loads(arena([*lineup, "kuhn_poker", "-n", "50"]))
            name = found["rows"][0]["policy"]
            return round(float(found["nash_conv"][name]), 4)
        params = [f"{p}={v}" for p, v in LEVEL.items()]
        options_ = [part for one in params for part in ("-p", one)]
        found = json.loads(arena([*lineup, "sokoban", *options_, "-n", "200"]))
        return round(float(found["rows"][0]["mean_return"]), 4)


def main(sweep: str) -> None:
    """Does the missing runs of a sweep, and prints its table."""
    file = FOLDER / f"guide_{sweep}.json"
    runs = json.loads(file.read_text()) if file.exists() else {}
    for seed in SEEDS:
        for options in SWEEPS[sweep].values():
            key = json.dumps([sweep, {**SHARED, **options}, seed])
            if key not in runs:
                runs[key] = value_of(sweep, options, seed)
                file.write_text(json.dumps(runs, indent=1, sort_keys=True) + "\n")
    values = {
        name: [runs[json.dumps([sweep, {**SHARED, **options}, seed])] for seed in SEEDS]
        for name, options in SWEEPS[sweep].items()
    }
    print(f"{sweep}: {MEASURES[sweep]}; mean with 95 % interval, {len(SEEDS)} seeds")
    for name, found in values.items():
        print(f"{name:12}", interval(found), found)
    for one, other in combinations(values, 2):
        print(f"{other} less {one}:", paired_difference(values[other], values[one]))


if __name__ == "__main__":
    main(*sys.argv[1:])
