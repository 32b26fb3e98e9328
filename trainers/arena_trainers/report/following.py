"""Keeps the report of runs that still go on up to date."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from arena_trainers.report.report_page import write_report
from arena_trainers.report.run_files import RunFiles, read_runs

SECONDS = 30  # between two pages
RESULTS = "results.json"  # a run writes it at its end
WATCHED = ("*.jsonl", "*.yaml", "results.json", "rollouts/step-*.jsonl")

Stamp = tuple[str, int, int]  # path, time and size of a file


def follow(
    path: Path,
    folders: Sequence[Path],
    num_groups: int,
    *,
    seconds: int = SECONDS,
    wait: Callable[[float], object] = time.sleep,
) -> tuple[list[RunFiles], bool]:
    """Writes a report anew while files of its runs change; returns when all runs have ended.

    The page is live: it reloads itself. The last page, also that after Ctrl-C, is not.

    Args:
        path: the HTML file.
        folders: the run folders.
        num_groups: groups of episodes to show of each step.
        seconds: time between two looks at the files, and between reloads of the page.
        wait: waits for a number of seconds.

    Returns:
        The files of the runs in the last page, and whether all runs have ended.

    Raises:
        ValueError: as `read_runs` and `write_report` do.
    """
    seen: list[Stamp] = []
    try:
        while not _have_ended(folders):
            found = _stamps(folders)
            if found != seen:
                runs = read_runs(folders, num_groups)
                write_report(path, *runs, live_seconds=seconds)
                seen = found
            wait(seconds)
    except KeyboardInterrupt:
        pass  # the page must stop to reload itself
    runs = read_runs(folders, num_groups)
    write_report(path, *runs)
    return runs, _have_ended(folders)


def _have_ended(folders: Sequence[Path]) -> bool:
    return all((folder / RESULTS).is_file() for folder in folders)


def _stamps(folders: Sequence[Path]) -> list[Stamp]:
    """What changes when a run writes a file that a report reads."""
    paths = {path for f in folders for pattern in WATCHED for path in f.glob(pattern)}
    stats = ((str(path), path.stat()) for path in sorted(paths))
    return [(name, found.st_mtime_ns, found.st_size) for name, found in stats]
