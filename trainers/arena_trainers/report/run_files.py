"""The files of a run that its report reads; what is missing or broken is named."""

import json
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from arena_trainers.report.reading import (
    MAX_SHOWN,
    BadLine,
    Recorded,
    not_blank,
    read_lines,
)

STEP = re.compile(r"step-(\d+)\.jsonl")
AFTER_TRAINING = "after training"
EVALUATED = 8  # episodes of the evaluation for each group of a step
MAX_TURNS = 4_000  # of a page; a turn takes up to 4 ms of CPU time


class RunFiles(NamedTuple):
    """What a run folder holds.

    Attributes:
        name: of the folder.
        metrics: records of `metrics.jsonl`; each has an integer `step`.
        results: what `results.json` holds; empty without.
        config: the text of `config.yaml`; empty without.
        episodes: episodes of the run, each with the name of its source.
        sources: by optimizer step, the source of its episodes.
        left: number of lines of the files of episodes that are left out.
        bad: lines that cannot be read, by name of the file.
        missing: sentences on what the folder lacks.
    """

    name: str
    metrics: Sequence[dict[str, Any]]
    results: dict[str, Any]
    config: str
    episodes: Sequence[Recorded]
    sources: dict[int, str]
    left: int
    bad: Sequence[tuple[str, BadLine]]
    missing: Sequence[str]


class Stored(NamedTuple):
    """What is read of a file of episodes.

    Attributes:
        name: of the file, in the run folder.
        step: the optimizer step; None for the evaluation.
        episodes: whole groups, each episode with the name of its source.
        bad: lines that cannot be read.
        num_lines: number of lines of the file that are not blank.
    """

    name: str
    step: int | None
    episodes: Sequence[Recorded]
    bad: Sequence[BadLine]
    num_lines: int

    @property
    def num_turns(self) -> int:
        """Turns of the episodes that are read."""
        return sum(len(line.rollout.episode.turns) for line in self.episodes)


def read_run_files(folder: Path, num_groups: int) -> RunFiles:
    """Reads a run folder, finished or not.

    Args:
        folder: the run folder.
        num_groups: groups to read of each file of episodes. Where the groups have more
            than `MAX_TURNS` turns in all, each file gives as many groups as fit into its
            share, one at least; where these are still too many, evenly spaced steps are
            read, with the last one.

    Raises:
        ValueError: there is no run folder.
    """
    if not (folder / "metrics.jsonl").is_file():
        raise ValueError(
            f"want a run folder with metrics.jsonl, found none at {str(folder)!r}; give "
            "the --output-dir of arena train, such as runs/first"
        )
    metrics, broken = _metrics(folder / "metrics.jsonl")
    results, config = _results(folder / "results.json"), folder / "config.yaml"
    stored = _stored(folder, num_groups)
    shown = _thinned(stored)
    bad = [("metrics.jsonl", line) for line in broken]
    bad += [(file.name, line) for file in stored for line in file.bad]
    episodes = [line for file in shown for line in file.episodes]
    sources = {
        file.step: file.episodes[0].source for file in shown if file.step is not None
    }
    missing = []
    if not results:
        missing.append(
            "results.json: the run is not finished, so there are no results before and "
            "after, baselines, versions and command"
        )
    if not config.is_file():
        missing.append("config.yaml: there is no configuration")
    if not sources:
        missing.append("rollouts/: there are no training episodes (see --saved_groups)")
    text = config.read_text(encoding="utf-8") if config.is_file() else ""
    left = sum(file.num_lines - len(file.bad) for file in stored) - len(episodes)
    name = folder.absolute().name
    return RunFiles(name, metrics, results, text, episodes, sources, left, bad, missing)


def _metrics(path: Path) -> tuple[list[dict[str, Any]], list[BadLine]]:
    records, bad = [], []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError):
            record = None
        if isinstance(record, dict) and type(record.get("step")) is int:
            records.append(record)
        else:
            text = line[: 4 * MAX_SHOWN].decode("utf-8", "replace")[:MAX_SHOWN]
            bad.append(BadLine(number, "want a JSON object with its step", text))
    return records, bad


def _results(path: Path) -> dict[str, Any]:
    """What `results.json` holds; empty without the file.

    Raises:
        ValueError: the file holds something else.
    """
    if not path.is_file():
        return {}
    try:
        found = json.loads(path.read_bytes())
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise ValueError(
            f"want a JSON object in {str(path)!r}; remove the file, and the report shows "
            "the rest of the run"
        )
    return found


def _files_of_episodes(folder: Path) -> Iterable[tuple[int | None, Path]]:
    """Files of training episodes by step, then that of the evaluation, as step None."""
    found = {
        int(match[1]): path
        for path in (folder / "rollouts").glob("step-*.jsonl")
        if (match := STEP.fullmatch(path.name))
    }
    yield from sorted(found.items())
    if (folder / "episodes.jsonl").is_file():
        yield None, folder / "episodes.jsonl"


def _stored(folder: Path, num_groups: int) -> list[Stored]:
    """The first groups of each file of episodes."""
    found, files = [], list(_files_of_episodes(folder))
    for step, path in files:
        groups = num_groups if step is not None else EVALUATED * num_groups
        lines = _groups(path, groups, MAX_TURNS // len(files))
        source = AFTER_TRAINING if step is None else f"step {step}"
        episodes = [
            line._replace(source=source) for line in lines if isinstance(line, Recorded)
        ]
        bad = [line for line in lines if isinstance(line, BadLine)]
        with open(path, "rb") as file:
            num_lines = sum(1 for line in file if line.strip())
        name = str(path.relative_to(folder))
        found.append(Stored(name, step, episodes, bad, num_lines))
    return found


def _groups(path: Path, num_groups: int, max_turns: int) -> list[Recorded | BadLine]:
    """The first groups of a file, each of them whole, with the bad lines among them."""
    found: list[Recorded | BadLine] = []
    starts, num_turns, begin = set(), 0, 0
    for line in not_blank(read_lines(path)):
        if isinstance(line, Recorded):
            episode = line.rollout.episode
            start = (episode.game, str(episode.params), episode.seed)
            if start not in starts:
                begin = len(found)
                starts.add(start)
            num_turns += len(episode.turns)
            if len(starts) > num_groups:
                break
            if len(starts) > 1 and num_turns > max_turns:
                return found[:begin]
        found.append(line)
    return found


def _thinned(stored: Sequence[Stored]) -> list[Stored]:
    """The files to show: the last step, every n-th before it, and the evaluation.

    The smallest n is taken with which there are at most `MAX_TURNS` turns.
    """
    steps = [file for file in stored if file.step is not None and file.episodes]
    rest = [file for file in stored if file.step is None]
    room = MAX_TURNS - sum(file.num_turns for file in rest)
    for apart in range(1, len(steps)):
        kept = steps[::-1][::apart][::-1]
        if sum(file.num_turns for file in kept) <= room:
            return [*kept, *rest]
    return [*steps[-1:], *rest]
