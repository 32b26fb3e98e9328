"""Self-play of a pretrained model on a CPU, in a night; writes docs/self-play.md.

    python benchmarks/night.py --hours 8   # what is missing, in order; stops at a checkpoint, goes on
    python benchmarks/night.py --hours 0   # the page alone
    python benchmarks/night.py --again "kuhn/rae kuhn_poker/0"   # measures a cell again

SmolLM2-135M-Instruct imitates replies (a start) and learns with a LoRA adapter. A cell is
a stage of `night_settings`, what is measured, and a seed; `docs/self-play-night.json` keeps each as
it ends. Starts, checkpoints and adapters are in `--runs`; if that folder is missing, adapters in
`benchmarks/night/adapters` are read. A run that is not finished goes on from its checkpoint in
`--runs`; on another machine without that folder it begins anew.
"""

import fcntl
import json
import platform
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

import game_reasons
import night_measures
import reasons
from arena_trainers.cli.errors import usage_errors
from arena_trainers.lm import LMPolicy
from arena_trainers.lm.loading import usable_device
from comparing import (
    PageFolder,
    Runs,
    RunsFolder,
    Task,
    WorkHours,
    add,
    kept_runs,
    read,
    run_script,
    tell_outdated,
    write,
)
from night_page import write_page
from night_runs import (
    CPU_SECONDS,
    HISTORY,
    NASH_CONV,
    Place,
    TimeIsUp,
    policy_of,
    prepare_process,
    run,
    run_name,
    shown,
    start,
)
from night_settings import (
    DEFAULT,
    DTYPE,
    FIRST_DEAL,
    GRPO,
    IMITATION,
    LORA_R,
    MARKS,
    MAX_REASONED_TOKENS,
    MEASURED,
    PROMPT,
    REASONED_IMITATION,
    REASONED_START,
    SHARED,
    STAGES,
    START,
    TARGETS,
    TRAINED,
)

DOCS = Path(__file__).parents[1] / "docs"
DATA = "self-play-night.json"
BLIND, CURVE, SO_FAR = "blind", "curve", "so far"
# Runs in the order of work: stage, credit, seed.
ORDER = [
    *(("kuhn", credit, seed) for seed in range(3) for credit in ("rae", GRPO, DEFAULT)),
    ("mixed", DEFAULT, 0),
    *(("reasoned", credit, seed) for seed in range(3) for credit in (DEFAULT, GRPO)),
    *(("reasoned", "mars", seed) for seed in range(3)),
    *(("longer", credit, seed) for seed in range(3) for credit in (DEFAULT, GRPO)),
]
PACKAGES = ("torch", "transformers", "trl", "peft", "numpy")
# of each step, where the trainer logged it
CURVES = {
    "legal": "arena/legal_rate",
    "tokens": "arena/reply_tokens",
    "gap": "arena/sampling_gap/mean",
    "loss": "loss",
    "kl": "kl",
    "seconds": CPU_SECONDS,
}


def made_with() -> dict[str, Any]:
    """The settings that decide the numbers: a cell counts only while they are as today."""
    # the date is in no template of this model, and the order of listed actions is the game's
    prompt = {k: v for k, v in vars(PROMPT).items() if k not in ("date", "shuffle")}
    model: dict[str, Any] = {
        "imitation": IMITATION,
        "games": TRAINED,
        "prompt": prompt,
    }
    model |= {"lora_r": LORA_R, "targets": [TARGETS[0], TARGETS[-1]], "dtype": DTYPE}
    reasoned = {
        **model,
        "imitation": REASONED_IMITATION,
        "random_share": reasons.RANDOM_SHARE,
        "copies": reasons.COPIES,
        "teachers": {game: name for game, (name, _) in game_reasons.TEACHERS.items()},
        "examples": game_reasons.NUM_EXAMPLES,
        "max_tokens": MAX_REASONED_TOKENS,
        "marks": [*MARKS],
        "reasons": [*reasons.REASONS],
        "least_gap": reasons.LEAST_GAP,
    }
    settings: dict[str, Any] = {BLIND: {}, START: model, REASONED_START: reasoned}
    for name, stage in STAGES.items():
        options = {**SHARED, **stage.options}
        if stage.after is None:
            settings[name] = {**settings[stage.start], "options": options}
        else:
            settings[name] = {"after": settings[stage.after], "options": options}
    games = {game: facts.facts for game, facts in MEASURED.items()}
    variants: dict[str, Any] = {**games}
    for stage in STAGES.values():
        for credit in stage.credits:
            variants[f"{credit} {CURVE}"] = {}
            trained = {game: games[game] for game in TRAINED if game in stage.measured}
            variants[f"{credit} {SO_FAR}"] = trained
            variants |= {f"{credit} {game}": games[game] for game in stage.measured}
    return {"first_deal": FIRST_DEAL, "settings": settings, "variants": variants}


def tasks() -> list[Task]:
    """All cells in the order of work: runs with the games they train, then games never trained."""
    cells: list[Task] = [(BLIND, game, 0) for game in MEASURED]
    cells.append((START, "kuhn_poker", 0))
    for name, credit, seed in ORDER:
        stage = STAGES[name]
        if len(stage.measured) > 1:
            cells += [(stage.start, game, seed) for game in TRAINED]
        trained = [game for game in stage.measured if game in TRAINED]
        cells.append((name, f"{credit} {CURVE}", seed))
        cells += [(name, f"{credit} {game}", seed) for game in trained]
    for name, credit, seed in ORDER:
        stage = STAGES[name]
        others = [game for game in stage.measured if game not in TRAINED]
        cells += [(stage.start, game, seed) for game in others]
        cells += [(name, f"{credit} {game}", seed) for game in others]
    return list(dict.fromkeys(cells))


def do(place: Place, task: Task) -> dict[str, Any]:
    """The values of a cell; makes the start and the run that it needs.

    Raises:
        TimeIsUp: the hours of the call have passed.
    """
    stage, variant, seed = task
    place.check_time()
    if stage == BLIND:
        return {"policies": night_measures.blind(variant)}
    if stage not in STAGES:
        return night_measures.measured(policy_at(place, stage), variant, seed)
    credit, _, game = variant.partition(" ")
    adapter = run(place, stage, credit, seed)
    if game == CURVE:
        return curve(json.loads((adapter / HISTORY).read_text()))
    place.check_time()
    policy = policy_at(place, run_name(stage, credit, seed))
    return night_measures.measured(policy, game, seed)


@lru_cache(1)
def policy_at(place: Place, name: str) -> LMPolicy:
    """The policy of a finished start or run."""
    if name in (START, REASONED_START):
        start(place, name)
    adapter = place.adapter(name)
    if adapter is None:
        raise ValueError(
            f"want an adapter of {name} in {place.runs} or in benchmarks/night/adapters, got "
            "none; leave out --again, so that the run is done"
        )
    return policy_of(place, adapter)


def curve(history: list[dict[str, Any]]) -> dict[str, Any]:
    """What the trainer logged at each step, and NashConv where it was measured."""
    steps = [line for line in history if "step_time" in line]
    values: dict[str, Any] = {
        name: [round(line[key], 5) for line in steps if key in line]
        for name, key in CURVES.items()
    }
    games = {key for line in steps for key in line if key.endswith("/return")}
    values["returns"] = {
        key.removeprefix("arena/").removesuffix("/return"): {
            line["step"]: round(line[key], 4) for line in steps if key in line
        }
        for key in sorted(games)
    }
    points = [line for line in history if NASH_CONV in line]
    values["nash_conv"] = {line["step"]: line[NASH_CONV] for line in points}
    values["reasons"] = {
        name: [round(line[f"night/{name}"], 5) for line in points]
        for name in reasons.MEASURES
        if points and all(f"night/{name}" in line for line in points)
    }
    return values


def so_far(place: Place, runs: Runs, path: Path, settings: dict[str, Any]) -> None:
    """Adds measurements of the newest checkpoint of each unfinished run, in the trained games.

    Its adapter is measured as it is, in float32; finished ones are measured in bfloat16, as saved.
    """
    for stage, credit, seed in ORDER:
        folder = place.checkpoint(run_name(stage, credit, seed))
        if folder is None or seed in runs.get(stage, {}).get(f"{credit} {CURVE}", {}):
            continue
        began = time.process_time()
        state = json.loads((folder / "trainer_state.json").read_text())
        policy = policy_of(place, folder)
        games = [game for game in TRAINED if game in STAGES[stage].measured]
        cell: dict[str, Any] = {
            "step": state["global_step"],
            "curve": curve(shown(state["log_history"])),
            "games": {g: night_measures.measured(policy, g, seed) for g in games},
            "cpu_seconds": round(time.process_time() - began, 1),
            "versions": versions(),
        }
        add(runs, (stage, f"{credit} {SO_FAR}", seed), cell)
        write(path, runs, settings)


def versions() -> dict[str, str]:
    """Of Python and of the packages that decide the numbers."""
    return {"python": platform.python_version(), **{p: version(p) for p in PACKAGES}}


def again(place: Place, runs: Runs, name: str) -> None:
    """Measures a cell again, and prints its values beside those of the file."""
    measured = {
        f"{stage}/{variant}/{seed}": (stage, variant, seed)
        for stage, variants in runs.items()
        for variant, seeds in variants.items()
        for seed in seeds
        if not variant.endswith((CURVE, SO_FAR))
    }
    if name not in measured:
        raise ValueError(f"want a measured cell, one of {[*measured]}, got {name!r}")
    stage, variant, seed = measured[name]
    values, stored = do(place, measured[name]), runs[stage][variant][seed]
    for key, value in values.items():
        typer.echo(f"{key}: {value}; in the file {stored[key]}")


def main(
    hours: WorkHours = 8.0,
    runs_at: RunsFolder = Path("runs/night"),
    directory: PageFolder = DOCS,
    cell: Annotated[
        str, typer.Option("--again", metavar="STAGE/CELL/SEED", help="Measures it.")
    ] = "",
    unfinished: Annotated[
        bool,
        typer.Option(
            "--so-far", help="Measures checkpoints of runs that have stopped."
        ),
    ] = False,
    device: Annotated[
        str, typer.Option(help="cpu, or cuda: one seed of each run.")
    ] = "cpu",
) -> None:
    """Does the missing cells in their order, and writes the page."""
    prepare_process()
    path = directory / DATA
    settings = made_with()
    if device != "cpu":
        path = path.with_stem(f"{path.stem}-{device}")
    tell_outdated(path, settings)
    with usage_errors():
        runs = read(path, settings)
        if device not in ("cpu", "cuda"):
            raise ValueError(f"want --device cpu or cuda, got {device!r}")
        usable_device(device)
    place = Place(runs_at, until=time.monotonic() + 3600 * hours, device=device)
    if cell:
        with usage_errors(), alone(runs_at):
            again(place, runs, cell)
        return
    if unfinished:
        so_far(place, runs, path, settings)
    todo = [t for t in tasks() if t[2] not in runs.get(t[0], {}).get(t[1], {})]
    if device != "cpu":
        todo = [task for task in todo if task[2] == 0]
    with kept_runs(path), usage_errors(), alone(runs_at):
        work(place, do, todo, runs, path, settings)
    if device == "cpu":
        write_page(directory, runs)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Holds a folder of runs: two processes would delete each other's checkpoints.

    Raises:
        ValueError: another process holds it.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / "lock").open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(
                f"want one process for {folder}, got a second; wait for the first, or give "
                "another --runs"
            ) from None
        yield


def work(
    place: Place,
    do_task: Callable[[Place, Task], dict[str, Any]],
    todo: list[Task],
    runs: Runs,
    path: Path,
    settings: dict[str, Any],
) -> None:
    """Does tasks until the time is up; writes the file after each.

    Args:
        place: where runs are.
        do_task: returns the cell of a task.
        todo: the tasks, in their order.
        runs: the cells so far; cells are added.
        path: the file of the cells.
        settings: written beside the cells.
    """
    try:
        for task in todo:
            began = time.process_time()
            values = do_task(place, task)
            values["cpu_seconds"] = round(time.process_time() - began, 1)
            add(runs, task, {**values, "versions": versions()})
            write(path, runs, settings)
            stage, variant, seed = task
            typer.echo(f"done: {stage}/{variant}/{seed}")
    except TimeIsUp:
        typer.echo("the hours are over; the same command goes on")


if __name__ == "__main__":
    run_script(main)
