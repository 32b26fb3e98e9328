"""Reasons before the action with a pretrained model: SmolLM2 in Kuhn poker, on a CPU.

    python benchmarks/night_reasons.py --hours 2   # missing runs; stops at a checkpoint, repeat to go on
    python benchmarks/night_reasons.py --hours 0   # the page alone

SmolLM2 imitates true reasons (see `reasons`), and then plays itself with the default credit or with
`episode`. Rows are in `docs/self-play-reasons.json`. Starts, checkpoints and adapters are in `--runs`.
"""

import json
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import reasons
from arena_trainers.cli.errors import usage_errors
from comparing import (
    PageFolder,
    RunsFolder,
    Task,
    WorkHours,
    kept_runs,
    read,
    run_script,
    tell_outdated,
)
from night import DATA, DOCS, alone, work
from night import made_with as night_made_with
from night_page import write_page
from night_runs import (
    CPU_SECONDS,
    HISTORY,
    Place,
    imitate,
    learn,
    on_machine,
    prepare_process,
    run_name,
)
from night_sections import PRETRAINED, REASONS_DATA
from night_settings import (
    DEFAULT,
    DTYPE,
    GRPO,
    LORA_R,
    MARKS,
    NUM_SEEDS,
    PROMPT,
    SHARED,
    TARGETS,
)

START = "reasons-start"
MAX_TOKENS = 12  # of a reply; those that are imitated have 7 to 9
IMITATION = {"steps": 24, "batch_size": 16, "learning_rate": 2e-3}
OPTIONS: dict[str, Any] = {
    **SHARED,
    "games": ["kuhn_poker"],
    "max_completion_length": MAX_TOKENS,
    "reasoning_marks": [*MARKS],
    "learning_rate": 2e-4,
    "beta": 0.2,
    "num_generations": 8,
    "episodes_per_step": 64,
    "max_steps": 60,
    "save_steps": 10,
}
EVERY = 10
VARIANTS = {"default": DEFAULT, "episode": GRPO}
LOGGED = {
    "legal": "arena/legal_rate",
    "tokens": "arena/reply_tokens",
    "seconds": CPU_SECONDS,
}


def start(place: Place) -> Path:
    """The adapter after imitation of reasons; trained if there is none."""
    if folder := place.adapter(START):
        return folder
    options: dict[str, Any] = {
        "prompt": PROMPT,
        "max_new_tokens": MAX_TOKENS,
        "reasoning_marks": [*MARKS],
    }
    return imitate(place, START, reasons.examples(), IMITATION, options)


def run(place: Place, variant: str, seed: int) -> Path:
    """The adapter after self-play; trains, or goes on training, if there is none.

    Raises:
        TimeIsUp: the run has a checkpoint, and goes on at the next call.
    """
    name = run_name("reasons", variant, seed)
    if folder := place.adapter(name):
        return folder
    options = on_machine(place, {**OPTIONS, "credit": VARIANTS[variant], "seed": seed})
    return learn(place, name, options, start(place), EVERY, reasons.logged_measures)


def do(place: Place, task: Task) -> dict[str, Any]:
    """The curves of a run; makes the start that it needs."""
    _, variant, seed = task
    place.check_time()
    history = json.loads((run(place, variant, seed) / HISTORY).read_text())
    return {"curves": curves(history), "logs": logs(history)}


def curves(history: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """The measures at the start and every so many steps."""
    points = [line for line in history if "night/nash_conv" in line]
    names = [name for name in points[0] if name.startswith("night/")]
    return {
        name.removeprefix("night/"): [round(line[name], 5) for line in points]
        for name in names
    }


def logs(history: Sequence[Mapping[str, Any]]) -> dict[str, list[float]]:
    """What the trainer logged at each step."""
    steps = [line for line in history if "step_time" in line]
    return {
        name: [round(line[key], 4) for line in steps] for name, key in LOGGED.items()
    }


def made_with() -> dict[str, Any]:
    """The settings that decide the numbers: a cell counts only while they are as today."""
    settings = {
        PRETRAINED: {
            "imitation": IMITATION,
            "reasons": [*reasons.REASONS],
            "dtype": DTYPE,
            "random_share": reasons.RANDOM_SHARE,
            "copies": reasons.COPIES,
            "lora_r": LORA_R,
            "targets": [TARGETS[0], TARGETS[-1]],
            "options": OPTIONS,
            "every": EVERY,
        }
    }
    variants = {name: {"credit": credit} for name, credit in VARIANTS.items()}
    return {"settings": settings, "variants": variants}


def main(
    hours: WorkHours = 2.0,
    runs_at: RunsFolder = Path("runs/night-reasons"),
    directory: PageFolder = DOCS,
) -> None:
    """Does the missing runs in their order, and writes the page."""
    prepare_process()
    path, settings = directory / REASONS_DATA, made_with()
    tell_outdated(path, settings)
    with usage_errors():
        runs = read(path, settings)
    place = Place(runs_at, until=time.monotonic() + 3600 * hours)
    todo = [
        (PRETRAINED, variant, seed)
        for seed in range(NUM_SEEDS)
        for variant in VARIANTS
        if seed not in runs.get(PRETRAINED, {}).get(variant, {})
    ]
    with kept_runs(path), usage_errors(), alone(runs_at):
        work(place, do, todo, runs, path, settings)
    write_page(directory, read(directory / DATA, night_made_with()))


if __name__ == "__main__":
    run_script(main)
