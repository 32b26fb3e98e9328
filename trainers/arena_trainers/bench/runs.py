"""The runs of the comparison: which are to do, and the file that keeps them."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path
from typing import Any

from arena_trainers.bench.learning import (
    NUM_LOOKED_AT,
    NUM_WARM,
    REFERENCE,
    Run,
    learn,
)
from arena_trainers.bench.models import COMPARED, MODELS, train
from arena_trainers.bench.models import NUM_SEEDS as NUM_MODEL_SEEDS
from arena_trainers.bench.settings import (
    NUM_POINTS,
    NUM_SAMPLES,
    NUM_STARTS,
    SETTINGS,
)
from arena_trainers.bench.variants import runnable, variants

NUM_SEEDS = 10
WRITE_EVERY = 20  # runs
_IN_WHEEL = Path(__file__).with_name("bench.json")
_IN_SOURCES = Path(__file__).parents[3] / "docs" / "credit" / "bench.json"
SHIPPED = (
    _IN_WHEEL if _IN_WHEEL.exists() else _IN_SOURCES
)  # the results of this package
Found = dict[str, dict[str, dict[int, Run]]]  # by setting, variant, seed
Task = tuple[str, str, int]


def read_runs(path: Path) -> Found:
    """The runs of a results file with the settings and options of today."""
    if not path.exists():
        return {}
    file = json.loads(path.read_text())
    now = made_with()
    if file.get("batches") != now["batches"]:
        return {}
    return {
        setting: {
            name: {int(seed): Run(*run) for seed, run in seeds.items()}
            for name, seeds in found.items()
            if name in now["variants"]
            and file["variants"].get(name) == now["variants"][name]
        }
        for setting, found in file["runs"].items()
        if setting in now["settings"]
        and file["settings"].get(setting) == now["settings"][setting]
    }


def made_with() -> dict[str, Any]:
    """What decides the numbers, as read back from JSON: batches, settings, options."""
    settings = {name: asdict(s) for name, s in SETTINGS.items()}
    settings |= {name: asdict(s) for name, s in MODELS.items()}
    options = {
        name: {"estimator": variant.estimator, **variant.all_options}
        for name, variant in variants().items()
    }
    batches = {
        "starts": NUM_STARTS,
        "samples": NUM_SAMPLES,
        "points": NUM_POINTS,
        "reference": REFERENCE,
        "looked_at": [NUM_WARM, NUM_LOOKED_AT],
    }
    found: dict[str, Any] = json.loads(
        json.dumps({"batches": batches, "settings": settings, "variants": options})
    )
    return found


def write_runs(path: Path, runs: Found) -> None:
    """Writes a results file with its settings and options; whole or not at all."""
    parts = [
        f'  "{setting}": {{\n'
        + ",\n".join(_line(name, seeds) for name, seeds in sorted(found.items()))
        + "\n  }"
        for setting, found in sorted(runs.items())
    ]
    head = [f' "{key}": {json.dumps(value)}' for key, value in made_with().items()]
    text = "{\n" + ",\n".join([*head, ' "runs": {\n'])
    whole = path.with_suffix(".tmp")
    whole.write_text(text + ",\n".join(parts) + "\n }\n}\n")
    whole.replace(path)


def _line(name: str, seeds: Mapping[int, Run]) -> str:
    return f'   "{name}": {json.dumps(dict(sorted(seeds.items())))}'


def missing(
    runs: Found, names: Sequence[str], settings: Sequence[str], num_seeds: int
) -> list[Task]:
    """The runs to do: (setting, variant, seed), by seed, then by setting.

    Args:
        runs: what there is.
        names: of variants.
        settings: keys of `SETTINGS` and `MODELS`.
        num_seeds: seeds count up from 0; of a model there are at most five.
    """
    return [
        (setting, name, seed)
        for seed in range(num_seeds)
        for setting in settings
        if setting in SETTINGS or seed < NUM_MODEL_SEEDS
        for name in (runnable(setting) if setting in SETTINGS else COMPARED)
        if name in names and seed not in runs.get(setting, {}).get(name, {})
    ]


def run_missing(
    path: Path, todo: Sequence[Task], num_jobs: int, tell: Callable[[str], None]
) -> Found:
    """Does runs in several processes; writes the file now and then, and at the end."""
    runs = read_runs(path)
    with ProcessPoolExecutor(num_jobs) as pool:
        waiting = {pool.submit(_learner(task), *task): task for task in todo}
        try:
            for count, future in enumerate(as_completed(waiting), 1):
                setting, name, seed = waiting[future]
                add(runs, waiting[future], future.result())
                if count % WRITE_EVERY == 0 or setting in MODELS:
                    write_runs(path, runs)
                tell(f"{count}/{len(todo)} {setting} {name} seed {seed}")
        finally:
            pool.shutdown(cancel_futures=True)
            write_runs(path, runs)
    return runs


def _learner(task: Task) -> Callable[[str, str, int], Run]:
    return learn if task[0] in SETTINGS else train


def add(runs: Found, task: Task, run: Run) -> None:
    """Adds a run."""
    setting, name, seed = task
    runs.setdefault(setting, {}).setdefault(name, {})[seed] = run
