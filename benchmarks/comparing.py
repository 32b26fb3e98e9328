"""Parts that comparisons share: their command, the file of their runs, statistics and tables.

Runs are ordered by setting, variant and seed. The file also holds the settings and the
options of the variants. A run counts only while these are as today.
"""

import json
import math
import signal
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from arena_envs.extras import import_extra
from arena_eval.intervals import import_stats
from arena_trainers.cli.errors import UsageError, usage_errors
from arena_trainers.cli.progress import interruptions
from arena_trainers.cli.suggest import ALPHA, MeanDifference

Runs = dict[str, dict[str, dict[int, Any]]]  # by setting, variant, seed
Task = tuple[str, str, int]
MadeWith = Mapping[str, Any]  # "settings", "variants", and what all runs share


def as_json(made_with: MadeWith) -> dict[str, Any]:
    """The settings that decide the numbers, as read back from JSON."""
    settings: dict[str, Any] = json.loads(json.dumps(made_with))
    return settings


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
            for name, seeds in variants.items()
            if name in now["variants"]
            and file["variants"].get(name) == now["variants"][name]
        }
        for setting, variants in file["runs"].items()
        if setting in now["settings"]
        and file["settings"].get(setting) == now["settings"][setting]
    }


def num_outdated(path: Path, made_with: MadeWith) -> int:
    """The runs of a file that were made with other settings or options; see `read`."""
    if not path.exists():
        return 0
    runs: Runs = _whole(path, made_with["variants"])["runs"]
    return _num_runs(runs) - _num_runs(read(path, made_with))


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
    return sum(len(seeds) for variants in runs.values() for seeds in variants.values())


def write(path: Path, runs: Mapping[str, Any], made_with: MadeWith) -> None:
    """Writes a file, a line for each variant; whole or not at all."""
    parts = [
        f'  "{setting}": {{\n'
        + ",\n".join(_line(name, seeds) for name, seeds in sorted(variants.items()))
        + "\n  }"
        for setting, variants in sorted(runs.items())
    ]
    head = [f' "{key}": {json.dumps(value)}' for key, value in made_with.items()]
    text = "{\n" + ",\n".join([*head, ' "runs": {\n'])
    whole = path.with_suffix(".tmp")
    whole.write_text(text + ",\n".join(parts) + "\n }\n}\n")
    whole.replace(path)


def _line(name: str, seeds: Mapping[int, Any]) -> str:
    return f'   "{name}": {json.dumps(dict(sorted(seeds.items())))}'


def do_runs(
    todo: Sequence[tuple[str, Any, int]],
    do: Callable[..., Any],
    keep: Callable[[Any, Any, int], None],
    num_jobs: int,
) -> None:
    """Does runs in several processes. Ctrl-C ends them.

    Args:
        todo: the runs; of a variant, or of several that are done together.
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
                    for unfinished in waiting:
                        unfinished.cancel()  # those in progress are kept when they end
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
    names: Sequence[str], runs: Mapping[str, Mapping[int, Any]], num_seeds: int
) -> dict[str, list[int]]:
    """The missing seeds of each variant that lacks any."""
    lacking = {
        name: [seed for seed in range(num_seeds) if seed not in runs.get(name, {})]
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


LEVEL = 0.95  # of the intervals
POWER = 0.8


class Mean(NamedTuple):
    """A mean over seeds with its 95 % interval (Student's t)."""

    mean: float
    low: float
    high: float
    num: int


def final(curve: Sequence[float]) -> float:
    """The mean of the last quarter of a curve."""
    return float(np.mean(curve[-max(len(curve) // 4, 1) :]))


def interval(values: Sequence[float]) -> Mean:
    """The mean of independent runs; with one run, the interval is the mean itself."""
    mean, num = float(np.mean(values)), len(values)
    if num < 2:
        return Mean(mean, mean, mean, num)
    error = float(np.std(values, ddof=1)) / num**0.5
    wide = error * float(import_stats().t.ppf((1 + LEVEL) / 2, num - 1))
    return Mean(mean, mean - wide, mean + wide, num)


def difference(first: Sequence[float], second: Sequence[float]) -> MeanDifference:
    """The mean of some runs less that of others, two-sided.

    Raises:
        ValueError: fewer than two runs on a side.
    """
    sizes = np.array([len(first), len(second)])
    if sizes.min() < 2:
        raise ValueError(
            f"want at least two runs on each side, got {sizes.tolist()}; run more seeds"
        )
    value = float(np.mean(first) - np.mean(second))
    parts = np.array([np.var(first, ddof=1), np.var(second, ddof=1)]) / sizes
    error = float(parts.sum()) ** 0.5
    if error == 0:
        return MeanDifference(value, 0.0, float(value == 0))
    freedom = float(parts.sum() ** 2 / (parts**2 / (sizes - 1)).sum())
    t = import_stats().t
    wide = error * float(t.ppf((1 + LEVEL) / 2, freedom))
    return MeanDifference(value, wide, 2 * float(t.sf(abs(value) / error, freedom)))


def paired_difference(
    first: Sequence[float], second: Sequence[float]
) -> MeanDifference:
    """The mean difference of runs that share a seed, in order; two-sided.

    Raises:
        ValueError: the numbers of runs differ, or are below two.
    """
    if len(first) != len(second) or len(first) < 2:
        raise ValueError(
            "want at least two runs on each side, and equally many, got "
            f"{len(first)} and {len(second)}; run the same seeds of both"
        )
    gaps = np.subtract(first, second)
    value = float(gaps.mean())
    error = float(gaps.std(ddof=1)) / len(gaps) ** 0.5
    if error == 0:
        return MeanDifference(value, 0.0, float(value == 0))
    t, freedom = import_stats().t, len(gaps) - 1
    wide = error * float(t.ppf((1 + LEVEL) / 2, freedom))
    return MeanDifference(value, wide, 2 * float(t.sf(abs(value) / error, freedom)))


def smallest_effect(num_seeds: int, num_comparisons: int) -> float:
    """The smallest mean paired difference that Holm's method can find significant alone.

    In standard deviations of the difference between seeds:

        t(1 - α / 2m, n - 1) / √n

    >>> round(smallest_effect(3, 5), 1), round(smallest_effect(10, 5), 1)
    (5.7, 1.0)
    """
    chance = 1 - ALPHA / (2 * num_comparisons)
    quantile = float(import_stats().t.ppf(chance, num_seeds - 1))
    return quantile / math.sqrt(num_seeds)


def seeds_needed(first: Sequence[float], second: Sequence[float]) -> int | None:
    """Runs on each side that find a difference of this size with power 80 % at p < 0.05.

        n = (z(.975) + z(.8))² (s₁² + s₂²) / d², by the normal approximation

    None where there is no difference.
    """
    gap = float(np.mean(first) - np.mean(second))
    if gap == 0:
        return None
    norm = import_stats().norm
    z = float(norm.ppf((1 + LEVEL) / 2) + norm.ppf(POWER))
    spread = float(np.var(first, ddof=1) + np.var(second, ddof=1))
    return max(2, math.ceil(z**2 * spread / gap**2))


def holm(differences: Mapping[str, MeanDifference]) -> dict[str, MeanDifference]:
    """The differences with p corrected for their number, by Holm's method."""
    corrected: dict[str, MeanDifference] = {}
    least = 0.0
    for rank, name in enumerate(
        sorted(differences, key=lambda name: differences[name].p)
    ):
        least = max(least, min(1.0, differences[name].p * (len(differences) - rank)))
        corrected[name] = differences[name]._replace(p=least)
    return {name: corrected[name] for name in differences}


def gain(difference_of_means: MeanDifference | None) -> str:
    """A gain with half its interval, in bold if it is significant; "-" for none.

    >>> gain(MeanDifference(-0.0312, 0.01, 0.002))
    '**-0.031** ± 0.010'
    """
    if difference_of_means is None:
        return "-"
    value = f"{difference_of_means.value:+z.3f}"
    bold = f"**{value}**" if difference_of_means.is_significant else value
    return f"{bold} ± {difference_of_means.wide:.3f}"


def number(value: float | None) -> str:
    """Three significant digits; "-" for None."""
    return "-" if value is None else f"{value:.3g}" if value < 1000 else f"{value:.0f}"


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table in Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def draw_band(
    panel: Any,
    x: Sequence[float] | NDArray[np.float64],
    curves: Sequence[Sequence[float]],
    label: str,
    color: str,
) -> None:
    """The mean of curves with its 95 % interval.

    Args:
        panel: matplotlib's axes.
        x: of the points.
        curves: one for each seed.
        label: in the legend.
        color: of line and band.
    """
    points = [interval(values) for values in zip(*curves, strict=True)]
    panel.plot(x, [point.mean for point in points], label=label, color=color, zorder=3)
    low, high = [p.low for p in points], [p.high for p in points]
    panel.fill_between(x, low, high, color=color, alpha=0.2, zorder=2)


NumSeeds = Annotated[
    int, typer.Option("--seeds", min=1, help="Number of seeds, from 0.")
]
OnlyVariants = Annotated[
    list[str] | None,
    typer.Option("--only", metavar="VARIANT", help="Only this one; repeatable."),
]
OnlySettings = Annotated[
    list[str] | None,
    typer.Option("--game", metavar="SETTING", help="Only this setting; repeatable."),
]
NumJobs = Annotated[int, typer.Option("--jobs", min=1, help="Number of processes.")]
WorkHours = Annotated[
    float, typer.Option(min=0, help="How long to work; 0 writes the page alone.")
]
RunsFolder = Annotated[
    Path, typer.Option("--runs", help="Folder of starts, checkpoints, adapters.")
]
PageFolder = Annotated[
    Path, typer.Option("--directory", help="Folder of page and data.")
]


def script(main: Callable[..., None], others: bool = False) -> typer.Typer:
    """The command of a script, from its function; `others`: unknown options are arguments."""
    app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
    app.command(context_settings={"ignore_unknown_options": others})(main)
    return app


def run_script(main: Callable[..., None], others: bool = False) -> None:
    """Runs the command of a script; a usage error prints one sentence."""
    try:
        script(main, others)()
    except (ModuleNotFoundError, UsageError) as error:
        sys.exit(f"error: {error}")


def chosen(wanted: Sequence[str] | None, known: Iterable[str]) -> list[str]:
    """The wanted names, or all; ValueError if one is unknown."""
    for name in wanted or ():
        if name not in known:
            raise ValueError(f"want one of {', '.join(known)}, got {name!r}")
    return list(wanted or known)


def tell_outdated(path: Path, made_with: MadeWith) -> None:
    """Says how many runs of a file do not count any more."""
    if num := num_outdated(path, made_with):
        typer.echo(
            f"{num} runs in {path} were made with other settings or options; they are left "
            "out, and deleted when a run ends: copy the file to keep them"
        )


def kept_runs(path: Path) -> AbstractContextManager[None]:
    """Says at an interruption that the file keeps the runs that have ended."""
    return interruptions(
        f"runs that have ended are in {path}; the same command does the others"
    )


def compare(
    bench: Any,
    directory: Path,
    num_seeds: int,
    only: list[str] | None,
    game: list[str] | None,
    num_jobs: int,
) -> None:
    """Does the missing runs of a comparison with the tiny model, and writes its page.

    Args:
        bench: its module, with `SETTINGS`, `VARIANTS`, `made_with`, `train` and `write`.
        directory: of the files.
        num_seeds: number of seeds.
        only: names of variants; None for all.
        game: keys of settings; None for all.
        num_jobs: number of processes.
    """
    with usage_errors():
        names = chosen(only, bench.VARIANTS)
        settings = chosen(game, bench.SETTINGS)
    for module, extra in (
        ("matplotlib.figure", "eval"),
        ("scipy.stats", "eval"),
        ("trl", "train"),
    ):
        import_extra(module, extra)  # fails before the long runs
    path, made_with = directory / "bench.json", bench.made_with()
    with usage_errors():
        runs_of_file = read(path, made_with)
        directory.mkdir(parents=True, exist_ok=True)
    tell_outdated(path, made_with)
    todo = missing(runs_of_file, names, settings, num_seeds)
    with kept_runs(path):
        runs = run_missing(path, made_with, todo, bench.train, num_jobs, typer.echo)
    for written in bench.write(directory, runs):
        typer.echo(f"wrote {written}")
