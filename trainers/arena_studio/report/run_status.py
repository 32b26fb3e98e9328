"""Where a run stands: its step, the time left, the latest figures, memory and warnings."""

import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

from arena_envs import yaml_text
from arena_envs.checks import is_number
from arena_studio.report.collapse import CollapseLimits
from arena_studio.report.run_files import METRICS_FILE, RESULTS_FILE, metric_records
from arena_studio.report.text_tables import number_cell

FIGURES = {  # by metric, the words of a figure; others are in the charts
    "arena/nash_conv": "NashConv",
    "arena/legal_rate": "legal replies",
    "reward": "reward",
    "entropy": "entropy",
    "kl": "KL",
    "loss": "loss",
    "arena/episodes_per_second": "episodes/s",
}
MAX_WARNINGS = 5  # latest ones that are shown
MAX_CONFIG = 100_000  # bytes of a configuration
MAX_STEPS = 10**12
CACHE_SIZE = 32  # files whose content is remembered: each look at a run asks again
GIB = 2**30


class RunStatus(NamedTuple):
    """Where a run stands.

    Attributes:
        name: of its folder.
        step: of the last log; 0 before the first.
        max_steps: of the training; None if its configuration does not say.
        seconds_left: by the mean time of a step so far; None if it is unknown.
        silence: seconds since the last log.
        has_ended: whether it wrote its results.
        figures: name and value of the latest figures.
        warnings: the latest warnings of collapse, each with its step.
    """

    name: str
    step: int
    max_steps: int | None
    seconds_left: float | None
    silence: float
    has_ended: bool
    figures: Sequence[tuple[str, str]]
    warnings: Sequence[str]


def run_status(folder: Path, now: float | None = None) -> RunStatus:
    """Where the run of a folder stands.

    Args:
        folder: of the run; it may have logged nothing yet.
        now: seconds since 1970; None for this moment.
    """
    metrics_file, config_file = folder / METRICS_FILE, folder / "config.yaml"
    logs, max_steps = _Logs(0, {}, ()), None
    if metrics_file.is_file():
        logs = _read_logs(metrics_file, *_stamp(metrics_file))
    if config_file.is_file():
        max_steps = _max_steps(config_file, *_stamp(config_file))
    step, latest = logs.step, logs.latest
    has_ended = (folder / RESULTS_FILE).is_file()
    now = time.time() if now is None else now
    log_time = metrics_file.stat().st_mtime if latest else now
    seconds_left = None
    if has_ended:
        seconds_left = 0.0
    elif is_number(latest.get("seconds_left")):  # as the run itself prints it
        seconds_left = max(float(latest["seconds_left"]) - (now - log_time), 0.0)
    elif step and max_steps is not None and config_file.is_file():
        # a run writes its configuration when it starts, also when it goes on
        seconds_per_step = max(log_time - config_file.stat().st_mtime, 0.0) / step
        seconds_left = max(
            (max_steps - step) * seconds_per_step - (now - log_time), 0.0
        )
    return RunStatus(
        name=folder.absolute().name,
        step=step,
        max_steps=max_steps,
        seconds_left=seconds_left,
        silence=now - log_time,
        has_ended=has_ended,
        figures=[
            (words, number_cell(latest[name]))
            for name, words in FIGURES.items()
            if is_number(latest.get(name))
        ],
        warnings=logs.warnings[-MAX_WARNINGS:],
    )


class _Logs(NamedTuple):
    """The last step of a run, the latest value of each metric, and the warnings."""

    step: int
    latest: Mapping[str, Any]
    warnings: Sequence[str]


def _stamp(path: Path) -> tuple[int, int]:
    """Time and size of a file."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(CACHE_SIZE)
def _read_logs(metrics_file: Path, time_ns: int, size: int) -> _Logs:
    """The logs of a run, read anew only where the time or the size of the file has changed."""
    records, latest = metric_records(metrics_file)[0], dict[str, Any]()
    for record in records:
        latest |= record
    step = max((record["step"] for record in records), default=0)
    return _Logs(step, latest, _warnings(records))


@lru_cache(CACHE_SIZE)
def _max_steps(config_file: Path, time_ns: int, size: int) -> int | None:
    """The optimizer steps of a run; None if its configuration does not say."""
    if size > MAX_CONFIG:
        return None
    try:
        settings = yaml_text.read(config_file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    max_steps = settings.get("max_steps") if isinstance(settings, dict) else None
    return max_steps if type(max_steps) is int and 0 < max_steps < MAX_STEPS else None


def _warnings(records: Sequence[dict[str, Any]]) -> list[str]:
    """The warnings of collapse in the logs of a run, which may be a stranger's."""
    limits, warnings = CollapseLimits(), list[str]()
    for record in records:
        figures = {
            name: value for name, value in record.items() if is_number(value)
        }  # a text is no figure
        warnings += [
            f"step {record['step']}: {text}" for text in limits.new_warnings(figures)
        ]
    return warnings


def duration_text(seconds: float) -> str:
    """A duration in seconds, in minutes, or in hours and minutes.

    >>> duration_text(45), duration_text(600), duration_text(7_500)
    ('45 s', '10 min', '2 h 5 min')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return (
        f"{minutes} min" if minutes < 120 else f"{minutes // 60} h {minutes % 60} min"
    )


def status_lines(status: RunStatus) -> list[str]:
    """A status as sentences."""
    total = "" if status.max_steps is None else f" of {status.max_steps}"
    if status.has_ended:
        return [f"step {status.step}{total}; the run has ended", *status.warnings]
    if not status.step:
        return ["no step is logged yet", *status.warnings]
    left = ""
    if status.seconds_left is not None:
        left = f"; about {duration_text(status.seconds_left)} left"
    silence = duration_text(status.silence)
    lines = [f"step {status.step}{total}{left}; last log {silence} ago"]
    if status.figures:
        lines.append(", ".join(f"{name} {value}" for name, value in status.figures))
    return [*lines, *(f"warning: {text}" for text in status.warnings)]


def memory_lines() -> list[str]:
    """Free and total memory of this machine and of its GPUs; nothing where it is unknown."""
    return [*_system_memory_lines(), *_gpu_memory_lines()]


def _system_memory_lines() -> list[str]:
    try:
        texts = dict(
            line.split(":", 1)
            for line in Path("/proc/meminfo").read_text().splitlines()
        )
        free, total = (
            int(texts[name].split()[0]) * 1024 for name in ("MemAvailable", "MemTotal")
        )
    except (OSError, KeyError, ValueError, IndexError):
        return []  # another system than Linux
    return [f"memory: {free / GIB:.1f} of {total / GIB:.1f} GiB free"]


def _gpu_memory_lines() -> list[str]:
    query = ["nvidia-smi", "--query-gpu=memory.free,memory.total"]
    if not shutil.which(query[0]):
        return []
    try:
        answer = subprocess.run(
            [*query, "--format=csv,noheader,nounits"],
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return []
    lines = []
    for place, line in enumerate(answer.stdout.splitlines()):
        free, _, total = line.partition(", ")
        lines.append(f"GPU {place}: {free} of {total} MiB free")
    return lines
