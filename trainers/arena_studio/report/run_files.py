"""The files of one or several runs that a report reads; what is missing or broken is named."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from arena_studio.report.episodes import (
    BadLine,
    Recorded,
    not_blank,
    read_lines,
    shown_text,
)
from arena_studio.report.tables import FIELD_ERRORS, facts, result_tables
from arena_studio.report.text_tables import TextTable

METRICS_FILE = "metrics.jsonl"
RESULTS_FILE = "results.json"  # a run writes it at its end
STEP = re.compile(r"step-(\d+)\.jsonl")
AFTER_TRAINING = "after training"
EPISODES_PER_GROUP = 8  # episodes of the evaluation for each group of a step
MAX_TURNS = 4_000  # of a page; a turn takes up to 4 ms of CPU time
MAX_DIGITS = 15  # of an integer
MAX_RUNS = 6  # of a comparison; as many as colors of curves

# step and path of a file of episodes; None for the evaluation
StepFile = tuple[int | None, Path]


class RunFiles(NamedTuple):
    """The content of a run folder.

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
        tables: of `results`.
        facts: name and value of what produced `results`.
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
    tables: Sequence[TextTable]
    facts: Sequence[tuple[str, str]]


class EpisodeFile(NamedTuple):
    """The parts of a file of episodes that are shown.

    Attributes:
        name: of the file, in the run folder.
        step: the optimizer step; None for the evaluation.
        episodes: whole groups, each episode with the name of its source.
        bad: lines that cannot be read.
    """

    name: str
    step: int | None
    episodes: Sequence[Recorded]
    bad: Sequence[BadLine]

    @property
    def num_turns(self) -> int:
        """Turns of the episodes that are read."""
        return sum(len(line.rollout.episode.turns) for line in self.episodes)


def read_run_files(folder: Path, num_groups: int) -> RunFiles:
    """The files of one run; see `read_runs`."""
    (run,) = read_runs([folder], num_groups)
    return run


def read_runs(
    folders: Sequence[Path], num_groups: int, *, are_new: bool = False
) -> list[RunFiles]:
    """Reads run folders, finished or not, for one page.

    Of several runs, the steps are read that all of them have stored, and the last one of
    each. So the page has the same starts of all runs where they stored the same.

    Args:
        folders: the run folders, at most `MAX_RUNS`.
        num_groups: groups to read of each file of episodes. Where the groups have more
            than `MAX_TURNS` turns in all, each file gives as many groups as fit into its
            share, one at least; where these are still too many, evenly spaced steps are
            read, with the last one.
        are_new: whether runs may have logged nothing yet.

    Raises:
        ValueError: a folder is no run folder or is given twice, or there are too many.
    """
    if len(folders) > MAX_RUNS:
        raise ValueError(
            f"want at most {MAX_RUNS} runs in a report, got {len(folders)}; give fewer"
        )
    for folder in folders:
        if not (folder / METRICS_FILE).is_file() and not are_new:
            raise ValueError(
                f"want a run folder with {METRICS_FILE}, found none at {str(folder)!r}; "
                "give the --output-dir of arena train, such as runs/first"
            )
    for folder, count in Counter(path.resolve() for path in folders).items():
        if count > 1:
            raise ValueError(f"want different runs, got {folder} twice; give it once")
    names = [folder.absolute().name for folder in folders]
    if len(set(names)) < len(names):
        names = [str(folder) for folder in folders]
    files_by_run = _common_files(
        [list(_files_of_episodes(folder)) for folder in folders]
    )
    room = MAX_TURNS // max(1, sum(map(len, files_by_run)))
    stored = [
        _read_episode_files(folder, step_files, num_groups, room)
        for folder, step_files in zip(folders, files_by_run, strict=True)
    ]
    return [
        _run_files(folder, name, stored_files, shown_files)
        for folder, name, stored_files, shown_files in zip(
            folders, names, stored, _thin_out(stored), strict=True
        )
    ]


def _run_files(
    folder: Path,
    name: str,
    stored: Sequence[EpisodeFile],
    shown_files: Sequence[EpisodeFile],
) -> RunFiles:
    """The content of a run folder, of whose stored episodes some are shown."""
    metrics, bad_metrics = list[dict[str, Any]](), list[BadLine]()
    if (folder / METRICS_FILE).is_file():
        metrics, bad_metrics = metric_records(folder / METRICS_FILE)
    results, tables, origin = _results(folder / RESULTS_FILE)
    config = folder / "config.yaml"
    bad = [(METRICS_FILE, line) for line in bad_metrics]
    bad += [(file.name, line) for file in stored for line in file.bad]
    episodes = [line for file in shown_files for line in file.episodes]
    sources = {
        file.step: file.episodes[0].source
        for file in shown_files
        if file.step is not None
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
        missing.append(
            "rollouts/: there are no training episodes (see --callbacks saved_groups)"
        )
    num_lines = sum(_num_lines(path) for _, path in _files_of_episodes(folder))
    num_bad = sum(len(file.bad) for file in stored)
    return RunFiles(
        name=name,
        metrics=metrics,
        results=results,
        config=config.read_text("utf-8", "replace") if config.is_file() else "",
        episodes=episodes,
        sources=sources,
        left=num_lines - num_bad - len(episodes),
        bad=bad,
        missing=missing,
        tables=tables,
        facts=origin,
    )


def metric_records(path: Path) -> tuple[list[dict[str, Any]], list[BadLine]]:
    """The records of a metrics file, and its lines that are none."""
    records, bad = [], []
    for number, line in enumerate(path.read_bytes().splitlines(), 1):
        if not line.strip():
            continue
        try:
            record = json.loads(line, parse_int=_int_or_float)
        except (ValueError, RecursionError):
            record = None
        step = record.get("step") if isinstance(record, dict) else None
        if isinstance(record, dict) and type(step) is int and step >= 0:
            records.append(record)
        else:
            reason = "want a JSON object with its step"
            bad.append(BadLine(number, reason, shown_text(line)))
    return records, bad


def _int_or_float(digits: str) -> int | float:
    """An integer of a stranger's JSON; one that is too large for arithmetic with floats is a float."""
    return int(digits) if len(digits) <= MAX_DIGITS else float(digits)


def _results(
    path: Path,
) -> tuple[dict[str, Any], list[TextTable], list[tuple[str, str]]]:
    """The content of `results.json`, its tables and facts; empty without the file.

    Raises:
        ValueError: the file holds something else.
    """
    if not path.is_file():
        return {}, [], []
    try:
        results = json.loads(path.read_bytes(), parse_int=_int_or_float)
    except (ValueError, RecursionError):
        results = None
    if not isinstance(results, dict):
        raise ValueError(
            f"want a JSON object in {str(path)!r}; remove the file, and the report shows "
            "the rest of the run"
        )
    try:
        return results, result_tables(results), facts(results)
    except (*FIELD_ERRORS, ValueError) as error:
        raise ValueError(
            f"{str(path)!r} does not hold the results of this version ({error!r}); remove the file, "
            "and the report shows the rest of the run"
        ) from error


def _files_of_episodes(folder: Path) -> Iterable[StepFile]:
    """Files of training episodes by step, then that of the evaluation, as step None."""
    path_by_step = {
        int(match[1]): path
        for path in (folder / "rollouts").glob("step-*.jsonl")
        if (match := STEP.fullmatch(path.name))
    }
    yield from sorted(path_by_step.items())
    if (folder / "episodes.jsonl").is_file():
        yield None, folder / "episodes.jsonl"


def _common_files(files: Sequence[list[StepFile]]) -> list[list[StepFile]]:
    """The files of the steps that all runs have, of the last step, and of the evaluation."""
    steps = [{step for step, _ in run_files if step is not None} for run_files in files]
    common = set.intersection(*steps)
    return [
        [
            (step, path)
            for step, path in run_files
            if step is None or step in common or step == max(own_steps)
        ]
        for run_files, own_steps in zip(files, steps, strict=True)
    ]


def _read_episode_files(
    folder: Path, files: Sequence[StepFile], num_groups: int, max_turns: int
) -> list[EpisodeFile]:
    """The first groups of each file of episodes."""
    stored_files = []
    for step, path in files:
        groups = num_groups if step is not None else EPISODES_PER_GROUP * num_groups
        lines = _groups(path, groups, max_turns)
        source = AFTER_TRAINING if step is None else f"step {step}"
        episodes = [
            line._replace(source=source) for line in lines if isinstance(line, Recorded)
        ]
        bad = [line for line in lines if isinstance(line, BadLine)]
        name = str(path.relative_to(folder))
        stored_files.append(EpisodeFile(name, step, episodes, bad))
    return stored_files


def _num_lines(path: Path) -> int:
    """Number of lines that are not blank."""
    with open(path, "rb") as file:
        return sum(1 for line in file if line.strip())


def _groups(path: Path, num_groups: int, max_turns: int) -> list[Recorded | BadLine]:
    """The first groups of a file, each of them whole, with the bad lines among them."""
    lines: list[Recorded | BadLine] = []
    starts, num_turns, group_start = set(), 0, 0
    for line in not_blank(read_lines(path)):
        if isinstance(line, Recorded):
            episode = line.rollout.episode
            start = (episode.game, str(episode.params), episode.seed)
            if start not in starts:
                group_start = len(lines)
                starts.add(start)
            num_turns += len(episode.turns)
            if len(starts) > num_groups:
                break
            if len(starts) > 1 and num_turns > max_turns:
                return lines[:group_start]
        lines.append(line)
    return lines


def _thin_out(stored: Sequence[Sequence[EpisodeFile]]) -> list[list[EpisodeFile]]:
    """The files to show of each run: every n-th step, its last step, and the evaluation.

    Steps are counted back from the last one that all runs have. The smallest n is taken with
    which there are at most `MAX_TURNS` turns.
    """
    evaluations = [[file for file in run if file.step is None] for run in stored]
    trained = [
        [file for file in run if file.step is not None and file.episodes]
        for run in stored
    ]
    room = MAX_TURNS - sum(file.num_turns for run in evaluations for file in run)
    common = set.intersection(*({file.step for file in run} for run in trained))
    steps = sorted(step for step in common if step is not None)
    for spacing in [*range(1, max(2, len(steps))), 0]:
        # spacing 0: the last step of each run alone
        shown_steps = set(steps[::-1][::spacing]) if spacing else set()
        shown_files = [
            [file for file in run if file.step in shown_steps or file is run[-1]]
            for run in trained
        ]
        if sum(file.num_turns for run in shown_files for file in run) <= room:
            break
    return [
        [*run, *evaluation]
        for run, evaluation in zip(shown_files, evaluations, strict=True)
    ]
