"""Two adapters on one base model: time of a step, and learning against one shared adapter.

    python benchmarks/roles.py time      # CPU seconds, interleaved; a minute
    python benchmarks/roles.py learn     # Mini Hanabi, three seeds each; ten minutes
    python benchmarks/roles.py recipes   # recipes of papers, three seeds each; five CPU minutes

`time` compares the loss and its gradient over the rows of two roles with the sum of those over the
rows of each role alone, which are the same tokens. `learn` trains a tiny model after the same
supervised start: an adapter for each seat, or one shared adapter of the same rank. `recipes` trains a
tiny model of one start with the settings of recipes for agents and several learners.
"""

import statistics
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import AutoTokenizer

from arena_trainers import TurnGRPOConfig, TurnGRPOTrainer
from arena_trainers.runs import SelfPlayRun, load_recipe
from arena_trainers.terminal import Console

ARMS: dict[str, dict[str, Any]] = {
    "an adapter of rank 4 for each seat": {
        "roles": {0: {"lora_r": 4}, 1: {"lora_r": 4}}
    },
    "one shared adapter of rank 4": {"lora_r": 4},
}
STEPS, EPISODES, SEEDS = 20, 32, 3


def run(folder: Path, name: str = "mini-hanabi-tiny", **options: Any) -> dict[str, Any]:
    """Trains with a recipe; the stages of the run."""
    recipe = {**load_recipe(name), "evaluate_every": 0, "saved_groups": 0}
    job = SelfPlayRun({**recipe, **options}, folder, Console(quiet=True))
    job.prepare()
    (game,) = job.run()["outcomes"].values()
    stages: dict[str, Any] = {s["name"]: s["returns"] for s in game["stages"]}
    return stages


def learn() -> None:
    """Prints the mean return after training, by seed, and its mean over seeds."""
    few: dict[str, Any] = {
        "max_steps": STEPS,
        "save_steps": STEPS,
        "episodes_per_step": EPISODES,
    }
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        first_run: dict[str, Any] = {
            "max_steps": 1,
            "save_steps": 1,
            "episodes_per_step": 8,
            "eval_episodes": 2,
        }
        run(place / "first", **first_run)
        few |= {"model": str(place / "first" / "start"), "warm_start_steps": 0}
        few |= {"eval_episodes": 200, "learning_rate": 3e-3, "logging_steps": STEPS}
        print("| arm | start | seed 0 | seed 1 | seed 2 | mean ± 95 % |")
        print("|---|---|---|---|---|---|", flush=True)
        for name, options in ARMS.items():
            ends = []
            for seed in range(SEEDS):
                stages = run(place / f"{name}{seed}", **few, **options, seed=seed)
                start, end = (returns[0]["mean"] for returns in [*stages.values()][1:])
                ends.append(end)
                print(name, seed, start, end, file=sys.stderr, flush=True)
            error = 4.303 * statistics.stdev(ends) / SEEDS**0.5  # Student's t of 2
            cells = [name, f"{start:.3f}", *(f"{x:.3f}" for x in ends)]
            print(
                f"| {' | '.join(cells)} | {np.mean(ends):.3f} ± {error:.3f} |",
                flush=True,
            )


LAKE = {"layout": ["SFF", "FHF", "FFG"], "is_slippery": False, "max_moves": 6}
ONE_SEAT = {"games": [{"id": "frozen_lake", "params": LAKE}]}
SHARED = {"roles": {}, "update": "joint", "lora_r": 4}
TREES = {
    "games": ["tiny_hanabi"],
    "branch": {"num_candidates": 4, "turns": [0, 1], "follow": "best"},
}
# by name of the row: the recipe, and what a tiny model changes
RECIPES: dict[str, tuple[str, dict[str, Any]]] = {
    "`matpo`": ("matpo", {**ONE_SEAT, "learning_rate": 1e-3}),
    "`at-grpo-roles`": (
        "at-grpo-roles",
        {**TREES, "roles": {0: {"lora_r": 4}, 1: {"lora_r": 4}}},
    ),
    "the same, one shared adapter": ("at-grpo-roles", {**TREES, **SHARED}),
    "`marft`": (
        "marft",
        {**ONE_SEAT, "roles": {r: {"lora_r": 4} for r in ("planner", "worker")}},
    ),
    "the same, one shared adapter, `update: joint`": ("marft", {**ONE_SEAT, **SHARED}),
}
TINY: dict[str, Any] = {
    "model": "tiny",
    "rules": False,
    "reply_format": "bare",
    "parsing": "strict",
    "max_completion_length": 6,
    "bf16": False,
    "gradient_checkpointing": False,
    "use_cpu": True,
    "learning_rate": 3e-3,
    "episodes_per_step": 32,
    "warm_start_steps": 120,
    "warm_start_batch_size": 64,
    "eval_episodes": 200,
}


def recipes() -> None:
    """Prints the gain of each recipe by seed, and its mean over seeds."""
    print("| recipe | start | seed 0 | seed 1 | seed 2 | gain ± 95 % | CPU seconds |")
    print("|---|---|---|---|---|---|---|", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name, (recipe, own) in RECIPES.items():
            options = {**TINY, **own}
            if "branch" in own:  # trees of 9 episodes
                options |= {"episodes_per_step": 8}
            begin, place = time.process_time(), Path(folder) / name.replace("`", "")
            steps = 2 * STEPS * load_recipe(recipe).get("num_iterations", 1)
            one: dict[str, Any] = {
                "max_steps": 2,
                "save_steps": 2,
                "eval_episodes": 2,
                **SHARED,
            }
            run(place / "first", recipe, **{**options, **one, "num_iterations": 1})
            more = {"max_steps": steps, "save_steps": steps, "logging_steps": steps}
            more |= {"model": str(place / "first/start"), "warm_start_steps": 0}
            means = []
            for seed in range(SEEDS):
                stages = run(
                    place / f"{seed}", recipe, **{**options, **more}, seed=seed
                )
                means.append([r[0]["mean"] for r in [*stages.values()][-2:]])
            starts, ends = zip(*means, strict=True)
            gains = np.subtract(ends, starts)
            error = 4.303 * statistics.stdev(gains) / SEEDS**0.5  # Student's t of 2
            cells = [name, f"{np.mean(starts):.3f}", *(f"{x:.3f}" for x in ends)]
            spent = time.process_time() - begin
            gain = f"{np.mean(gains):+.3f} ± {error:.3f}"
            print(f"| {' | '.join(cells)} | {gain} | {spent:.0f} |", flush=True)


def time_steps(repeats: int = 15) -> None:
    """Prints the CPU seconds of a step of two roles, and of the steps of each alone."""
    folder = Path(tempfile.mkdtemp())
    recipe = load_recipe("mini-hanabi-tiny")
    recipe |= {"max_steps": 1, "episodes_per_step": 32, "eval_episodes": 2, "beta": 0.0}
    recipe |= {"sync_ref_model": False, "warm_start_steps": 20, "saved_groups": 0}
    job = SelfPlayRun(recipe, folder / "run", Console(quiet=True))
    job.prepare()
    job.run()
    names = ("rules", "reply_format", "parsing", "max_completion_length")
    plain: dict[str, Any] = {name: recipe[name] for name in names if name in recipe}
    plain |= {"bf16": False, "use_cpu": True, "gradient_checkpointing": False}
    plain |= {"report_to": "none", "disable_tqdm": True, "max_steps": 1}
    args = TurnGRPOConfig(
        **plain,
        games=recipe["games"],
        agent="planner_worker",
        roles={"planner": {"lora_r": 8}, "worker": {"lora_r": 8}},
        output_dir=str(folder / "two"),
        episodes_per_step=32,
        num_generations=4,
    )
    model = str(folder / "run" / "model")
    tokenizer = AutoTokenizer.from_pretrained(model)
    trainer = TurnGRPOTrainer(model, args, processing_class=tokenizer)
    trainer.current_gradient_accumulation_steps = 1
    trainer.model.train()
    starts = [trainer.train_dataset[i // 4] for i in range(32)]  # type: ignore[index]
    batch = trainer._generate_and_score_completions(starts)
    size, owner = len(batch["learner"]), batch["learner"]
    real = batch["tool_mask"].any(dim=1)
    parts = [real & (owner == 0), real & (owner == 1), real]
    rows = [
        {
            k: v[keep] if torch.is_tensor(v) and v.dim() and len(v) == size else v
            for k, v in batch.items()
        }
        for keep in parts
    ]
    seconds: list[list[float]] = [[], [], []]
    for i in range(repeats + 3):
        for j in np.random.default_rng(i).permutation(3):
            begin = time.process_time()
            trainer._compute_loss(trainer.model, rows[j]).backward()  # type: ignore[no-untyped-call]
            trainer.model.zero_grad()
            seconds[j].append(time.process_time() - begin)
    planner, worker, both = (statistics.median(s[3:]) for s in seconds)
    print(f"rows {[len(r['learner']) for r in rows]}")
    print(f"planner {planner:.4f} s, worker {worker:.4f} s, both {both:.4f} s")
    print(f"both / (planner + worker) = {both / (planner + worker):.3f}")


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    {"time": time_steps, "learn": learn, "recipes": recipes}[sys.argv[1]]()
