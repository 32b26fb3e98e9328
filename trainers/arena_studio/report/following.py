"""The report of runs that go on, written anew while their files change."""

import time
from collections.abc import Callable, Sequence
from pathlib import Path

from arena_studio.report.run_files import RESULTS_FILE, RunFiles, read_runs
from arena_studio.report.run_report import report_page
from arena_wrappers.records import write_whole

SECONDS = 30  # between two pages
WATCHED = ("*.jsonl", "*.yaml", RESULTS_FILE, "rollouts/step-*.jsonl")
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
        ValueError: as `read_runs` and `report_page` do.
    """
    old_stamps: list[Stamp] = []
    try:
        while not have_ended(folders):
            stamps = stamps_of(folders)
            if stamps != old_stamps:
                runs = read_runs(folders, num_groups)
                write_whole(path, report_page(*runs, live_seconds=seconds))
                old_stamps = stamps
            wait(seconds)
    except KeyboardInterrupt:
        pass  # the page must stop to reload itself
    runs = read_runs(folders, num_groups)
    write_whole(path, report_page(*runs))
    return runs, have_ended(folders)


def stamps_of(folders: Sequence[Path]) -> list[Stamp]:
    """The files of runs that a report reads, with their times and sizes."""
    paths = {
        watched
        for folder in folders
        for pattern in WATCHED
        for watched in folder.glob(pattern)
    }
    return [_stamp(path) for path in sorted(paths)]


def _stamp(path: Path) -> Stamp:
    status = path.stat()
    return str(path), status.st_mtime_ns, status.st_size


def have_ended(folders: Sequence[Path]) -> bool:
    """Whether all runs have written their results."""
    return all((folder / RESULTS_FILE).is_file() for folder in folders)
