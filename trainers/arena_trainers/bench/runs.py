"""The runs of the comparison: which are to do, and the file that keeps them."""

from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from arena_trainers.bench import run_file
from arena_trainers.bench.learning import (
    NUM_LOOKED_AT,
    NUM_WARM,
    REFERENCE,
    Run,
    learn,
)
from arena_trainers.bench.models import COMPARED, MODELS, train
from arena_trainers.bench.models import NUM_SEEDS as NUM_MODEL_SEEDS
from arena_trainers.bench.run_file import Task, add
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


def read_runs(path: Path) -> Found:
    """The runs of a results file with the settings and options of today."""
    found = run_file.read(path, made_with())
    return {
        setting: {
            name: {seed: Run(*run) for seed, run in seeds.items()}
            for name, seeds in variants_of.items()
        }
        for setting, variants_of in found.items()
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
    return run_file.as_json(
        {"batches": batches, "settings": settings, "variants": options}
    )


def write_runs(path: Path, runs: Found) -> None:
    """Writes a results file with its settings and options; whole or not at all."""
    run_file.write(path, runs, made_with())


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

    def keep(task: Task, run: Run, count: int) -> None:
        setting, name, seed = task
        add(runs, task, run)
        if count % WRITE_EVERY == 0 or setting in MODELS:
            write_runs(path, runs)
        tell(f"{count}/{len(todo)} {setting} {name} seed {seed}")

    try:
        run_file.do_runs(todo, _run, keep, num_jobs)
    finally:
        write_runs(path, runs)
    return runs


def _run(setting: str, name: str, seed: int) -> Run:
    return (learn if setting in SETTINGS else train)(setting, name, seed)
