"""The report of an evaluation or a tournament."""

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from arena_eval.result_rows import results_path
from arena_eval.tournament.round_robin import EPISODE, LINE
from arena_studio.report.episodes import (
    BadLine,
    Recorded,
    not_blank,
    policies_of,
    read_line,
    read_lines,
    seats_of,
    shown_text,
)
from arena_studio.report.page import rendered
from arena_studio.report.replay_data import packed, page_data
from arena_studio.report.run_files import MAX_TURNS
from arena_studio.report.tables import (
    UNKNOWN,
    TextTable,
    evaluation_table,
    lineup_name,
    match_name,
    tournament_tables,
)

MATCHES, SUMMARY = "results.jsonl", "summary.json"
OTHER_FIELDS = (KeyError, TypeError, AttributeError, IndexError)  # than we read


class PlayedFiles(NamedTuple):
    """The files of an evaluation or a tournament.

    Attributes:
        name: of the file or folder.
        tables: the results.
        warnings: the warnings of the evaluation.
        episodes: episodes, each with the name of its lineup or match as source.
        left: number of episodes that are left out.
        bad: lines that cannot be read, by name of the file.
        missing: sentences on what is missing.
    """

    name: str
    tables: Sequence[TextTable]
    warnings: Sequence[str]
    episodes: Sequence[Recorded]
    left: int
    bad: Sequence[tuple[str, BadLine]]
    missing: Sequence[str]


Kept = defaultdict[str, list[Recorded]]  # the first episodes of each source


def _fitting(kept: Kept, num_episodes: int) -> list[Recorded]:
    """As many of each source as `MAX_TURNS` turns allow, one at least."""
    for count in range(num_episodes, 0, -1):
        found = [line for same in kept.values() for line in same[:count]]
        if sum(len(line.rollout.episode.turns) for line in found) <= MAX_TURNS:
            break
    return found


def read_evaluation(path: Path, num_episodes: int) -> PlayedFiles:
    """Reads a file of episodes, and the results of `arena eval` beside it.

    Args:
        path: what `arena eval --out` wrote, or another file of episodes.
        num_episodes: number of episodes to show of each lineup.

    Raises:
        ValueError: there is no such file, or it holds no episode.
    """
    kept, bad, count = Kept(list), [], 0
    for line in not_blank(read_lines(path)):
        if isinstance(line, BadLine):
            bad.append((path.name, line))
            continue
        count += 1
        if len(same := kept[source := _lineup(line)]) < num_episodes:
            same.append(line._replace(source=source))
    if not kept:
        raise ValueError(
            f"want a file of episodes, {str(path)!r} holds none; give the --out file of "
            "arena eval, the --out folder of arena tournament, or a run folder"
        )
    episodes, beside = _fitting(kept, num_episodes), results_path(path)
    sources = {line.source for line in episodes}
    tables, warnings, broken = _evaluations(beside, sources)
    bad += [(beside.name, line) for line in broken]
    missing = f"{beside.name}: there are no results; arena eval writes them at its end"
    left, absent = count - len(episodes), [] if tables else [missing]
    return PlayedFiles(path.name, tables, warnings, episodes, left, bad, absent)


def read_tournament(folder: Path, num_episodes: int) -> PlayedFiles:
    """Reads the folder of a tournament, finished or not.

    Args:
        folder: what `arena tournament --out` wrote.
        num_episodes: number of episodes to show of each pairing.

    Raises:
        ValueError: the summary is none of `arena tournament`, or has other fields than those of
            this version.
    """
    kept, bad, count = Kept(list), [], 0
    with open(folder / MATCHES, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.startswith(LINE):
                continue  # the settings of the tournament
            source = None  # the line may not tell it
            with suppress(ValueError, KeyError, TypeError):
                match = json.loads(line.partition(EPISODE)[0] + b"}")["match"]
                source = match_name(match["game"], match["seats"])
            count += 1
            if source is not None and len(kept[source]) >= num_episodes:
                continue
            read = read_line(number, line)
            if isinstance(read, BadLine):
                bad.append((MATCHES, read))
                count -= 1
                continue
            source = source or _lineup(read)
            kept[source].append(read._replace(source=source))
    episodes, path = _fitting(kept, num_episodes), folder / SUMMARY
    sources = {line.source for line in episodes}
    tables: list[TextTable] = []
    try:
        if path.is_file():
            tables = tournament_tables(json.loads(path.read_bytes()), sources)
    except (*OTHER_FIELDS, ValueError) as error:
        raise ValueError(
            f"{str(path)!r} does not hold the results of this version ({error!r}); remove "
            "the file, and the report shows the episodes"
        ) from error
    missing = f"{SUMMARY}: the tournament is not finished; the same command resumes it"
    left, absent = count - len(episodes), [] if tables else [missing]
    return PlayedFiles(folder.absolute().name, tables, [], episodes, left, bad, absent)


def _lineup(line: Recorded) -> str:
    episode = line.rollout.episode
    names = policies_of(episode)
    seats = [names.get(seat, UNKNOWN) for seat in seats_of(episode)]
    return lineup_name(episode.game, seats)


def _evaluations(
    path: Path, sources: Collection[str]
) -> tuple[list[TextTable], list[str], list[BadLine]]:
    """Tables and warnings of evaluations, and lines that are none; nothing without the file."""
    tables, warnings, bad = [], list[str](), []
    lines = path.read_bytes().splitlines() if path.is_file() else []
    for number, line in enumerate(lines, 1):
        try:
            found = json.loads(line)
            tables.append(evaluation_table(found, sources))
            warnings += map(str, found["warnings"])
        except (*OTHER_FIELDS, ValueError) as error:
            reason = f"want the results of an evaluation of this version ({error!r})"
            bad.append(BadLine(number, reason, shown_text(line)))
    return tables, warnings, bad


def played_page(found: PlayedFiles) -> str:
    """The page of an evaluation or a tournament.

    Raises:
        ModuleNotFoundError: Jinja is not installed.
    """
    data = packed(page_data(found.episodes))
    return rendered("played.html", title=found.name, found=found, data=data)
