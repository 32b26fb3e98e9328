"""Runs of a comparison: the file that keeps them, which are missing, and doing these.

Runs are ordered by setting, variant and seed. The file also holds the settings and the
options of the variants. A run counts only while these are as today.
"""

import json
import signal
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

Runs = dict[str, dict[str, dict[int, Any]]]  # by setting, variant, seed
Task = tuple[str, str, int]
MadeWith = Mapping[str, Any]  # "settings", "variants", and what all runs share


def as_json(made_with: MadeWith) -> dict[str, Any]:
    """What decides the numbers, as read back from JSON."""
    found: dict[str, Any] = json.loads(json.dumps(made_with))
    return found


def read(path: Path, made_with: MadeWith) -> Runs:
    """The runs of a file that were made with the settings and options of today.

    Args:
        path: of the file; without a file, there are no runs.
        made_with: `settings` and `variants` by name, and what all runs share, of today.

    Raises:
        ValueError: the file has no runs, or those of another comparison.
    """
    if not path.exists():
        return {}
    now = as_json(made_with)
    file = _whole(path, now["variants"])
    shared = set(now) - {"settings", "variants"}
    if any(file.get(key) != now[key] for key in shared):
        return {}
    return {
        setting: {
            name: {int(seed): run for seed, run in seeds.items()}
            for name, seeds in found.items()
            if name in now["variants"]
            and file["variants"].get(name) == now["variants"][name]
        }
        for setting, found in file["runs"].items()
        if setting in now["settings"]
        and file["settings"].get(setting) == now["settings"][setting]
    }


def num_outdated(path: Path, made_with: MadeWith) -> int:
    """The runs of a file that were made with other settings or options; see `read`."""
    if not path.exists():
        return 0
    found: Runs = _whole(path, made_with["variants"])["runs"]
    return _num_runs(found) - _num_runs(read(path, made_with))


def _whole(path: Path, variants: Mapping[str, Any]) -> dict[str, Any]:
    """All that a file holds, which has runs of any of these variants or none."""
    try:
        file: dict[str, Any] = json.loads(path.read_text())
        names = [*file["settings"], *file["variants"], *file["runs"]]
    except (ValueError, TypeError, KeyError) as error:
        raise ValueError(
            f"want runs of a comparison in {path}, got another or a damaged file "
            f"({type(error).__name__}: {error}); delete it or give another --directory"
        ) from error
    if names and not set(file["variants"]) & set(variants):
        raise ValueError(
            f"want runs of {', '.join(list(variants)[:3])}... in {path}, got those of another "
            f"comparison ({', '.join(list(file['variants'])[:3])}...); give another --directory"
        )
    return file


def _num_runs(runs: Runs) -> int:
    return sum(len(seeds) for found in runs.values() for seeds in found.values())


def write(path: Path, runs: Mapping[str, Any], made_with: MadeWith) -> None:
    """Writes a file, a line for each variant; whole or not at all."""
    parts = [
        f'  "{setting}": {{\n'
        + ",\n".join(_line(name, seeds) for name, seeds in sorted(found.items()))
        + "\n  }"
        for setting, found in sorted(runs.items())
    ]
    head = [f' "{key}": {json.dumps(value)}' for key, value in made_with.items()]
    text = "{\n" + ",\n".join([*head, ' "runs": {\n'])
    whole = path.with_suffix(".tmp")
    whole.write_text(text + ",\n".join(parts) + "\n }\n}\n")
    whole.replace(path)


def _line(name: str, seeds: Mapping[int, Any]) -> str:
    return f'   "{name}": {json.dumps(dict(sorted(seeds.items())))}'


def do_runs(
    todo: Sequence[Task],
    do: Callable[[str, str, int], Any],
    keep: Callable[[Task, Any, int], None],
    num_jobs: int,
) -> None:
    """Does runs in several processes. Ctrl-C ends them.

    Args:
        todo: the runs.
        do: does a run of setting, variant and seed, in another process.
        keep: called with each run as it ends, its result, and how many have ended.
        num_jobs: number of processes.
    """
    with ProcessPoolExecutor(num_jobs, initializer=_end_at_ctrl_c) as pool:
        waiting = {pool.submit(do, *task): task for task in todo}
        failed: list[tuple[Task, BaseException]] = []
        try:
            for count, future in enumerate(as_completed(waiting), 1):
                error = None if future.cancelled() else future.exception()
                if error is not None:
                    failed.append((waiting[future], error))
                    for other in waiting:
                        other.cancel()  # those in progress are kept when they end
                elif not future.cancelled():
                    keep(waiting[future], future.result(), count)
        finally:
            pool.shutdown(cancel_futures=True)
    if failed:
        (setting, name, seed), error = failed[0]
        error.add_note(
            f"in the run {setting} {name} seed {seed}; runs that have ended are in the file"
        )
        raise error


def _end_at_ctrl_c() -> None:
    """Makes Ctrl-C end this process; else it would begin the run that waits next."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def run_missing(
    path: Path,
    made_with: MadeWith,
    todo: Sequence[Task],
    do: Callable[[str, str, int], Any],
    num_jobs: int,
    tell: Callable[[str], None],
) -> Runs:
    """Does runs in several processes; writes the file after each.

    Args:
        path: of the file.
        made_with: as for `read`.
        todo: the runs.
        do: does a run of setting, variant and seed, in another process.
        num_jobs: number of processes.
        tell: called with a line about each run.

    Returns:
        The runs of the file.
    """
    runs = read(path, made_with)

    def keep(task: Task, run: Any, count: int) -> None:
        add(runs, task, run)
        write(path, runs, made_with)
        setting, name, seed = task
        tell(f"{count}/{len(todo)} {setting} {name} seed {seed}")

    do_runs(todo, do, keep, num_jobs)
    return runs


def add(runs: Runs, task: Task, run: Any) -> None:
    """Adds a run."""
    setting, name, seed = task
    runs.setdefault(setting, {}).setdefault(name, {})[seed] = run


def missing(
    runs: Runs, names: Sequence[str], settings: Sequence[str], num_seeds: int
) -> list[Task]:
    """The runs to do: (setting, variant, seed), by seed, then by setting."""
    return [
        (setting, name, seed)
        for seed in range(num_seeds)
        for setting in settings
        for name in names
        if seed not in runs.get(setting, {}).get(name, {})
    ]


def missing_seeds(
    names: Sequence[str], found: Mapping[str, Mapping[int, Any]], num_seeds: int
) -> dict[str, list[int]]:
    """The missing seeds of each variant that lacks any."""
    lacking = {
        name: [seed for seed in range(num_seeds) if seed not in found.get(name, {})]
        for name in names
    }
    return {name: seeds for name, seeds in lacking.items() if seeds}


def missing_line(
    title: str, missing: Mapping[str, Sequence[int]], num_variants: int
) -> str:
    """The missing runs of a setting, in a line.

    Args:
        title: of the setting.
        missing: the missing seeds by variant.
        num_variants: variants that have a run; 0 if none has.
    """
    num = sum(len(seeds) for seeds in missing.values())
    start, runs = f"- {title}:", f"{num} run{'s' * (num != 1)}"
    if not num_variants:
        return f"{start} all {runs}"
    if len({tuple(seeds) for seeds in missing.values()}) == 1 and len(missing) == (
        num_variants
    ):
        seeds = next(iter(missing.values()))
        return f"{start} {runs}: seeds {_listed(seeds)} of all variants"
    names = [f"`{name}` {_listed(seeds)}" for name, seeds in missing.items()]
    return f"{start} {runs} (seeds by variant): {', '.join(names)}"


def _listed(seeds: Sequence[int]) -> str:
    """Seeds, as a range where they follow each other.

    >>> _listed([3, 4, 5]), _listed([0, 2])
    ('3 to 5', '0, 2')
    """
    if len(seeds) > 2 and seeds[-1] - seeds[0] == len(seeds) - 1:
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))
