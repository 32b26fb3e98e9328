"""The report of an evaluation or a tournament."""

import json
from collections import defaultdict
from collections.abc import Collection, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from arena_eval.result_rows import results_path
from arena_eval.tournament.round_robin import EPISODE, LINE
from arena_studio.outputs import EPISODES, reading_advice
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
from arena_studio.report.page import filled_page
from arena_studio.report.played_tables import (
    UNKNOWN,
    evaluation_table,
    lineup_name,
    match_name,
    tournament_tables,
)
from arena_studio.report.replay_data import packed, page_data
from arena_studio.report.run_files import MAX_TURNS
from arena_studio.report.tables import FIELD_ERRORS
from arena_studio.report.text_tables import TextTable

MATCHES, SUMMARY = "results.jsonl", "summary.json"


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


EpisodesBySource = defaultdict[str, list[Recorded]]  # the first ones of each source


def _fit_page(
    episodes_by_source: EpisodesBySource, num_episodes: int
) -> list[Recorded]:
    """As many of each source as `MAX_TURNS` turns allow, one at least."""
    for count in range(num_episodes, 0, -1):
        episodes = [
            line
            for source_episodes in episodes_by_source.values()
            for line in source_episodes[:count]
        ]
        if sum(len(line.rollout.episode.turns) for line in episodes) <= MAX_TURNS:
            break
    return episodes


def read_evaluation(path: Path, num_episodes: int) -> PlayedFiles:
    """Reads a file of episodes, and the results of `arena eval` beside it.

    Args:
        path: what `arena eval --out` wrote, or another file of episodes.
        num_episodes: number of episodes to show of each lineup.

    Raises:
        ValueError: there is no such file, or it holds no episode.
    """
    episodes_by_source = EpisodesBySource(list)
    bad, num_read = [], 0
    for line in not_blank(read_lines(path)):
        if isinstance(line, BadLine):
            bad.append((path.name, line))
            continue
        num_read += 1
        source = _lineup(line)
        if len(episodes_by_source[source]) < num_episodes:
            episodes_by_source[source].append(line._replace(source=source))
    if not episodes_by_source:
        advice = reading_advice(
            path,
            "give the --out file of arena eval, the --out folder of arena bench tournament, "
            "or a run folder",
            readable=EPISODES,
        )
        raise ValueError(f"want a file of episodes, {str(path)!r} holds none; {advice}")
    episodes = _fit_page(episodes_by_source, num_episodes)
    results_file = results_path(path)
    sources = {line.source for line in episodes}
    tables, warnings, bad_results = _evaluations(results_file, sources)
    bad += [(results_file.name, line) for line in bad_results]
    missing = []
    if not tables:
        missing.append(
            f"{results_file.name}: there are no results; arena eval writes them at its end"
        )
    return PlayedFiles(
        name=path.name,
        tables=tables,
        warnings=warnings,
        episodes=episodes,
        left=num_read - len(episodes),
        bad=bad,
        missing=missing,
    )


def read_tournament(folder: Path, num_episodes: int) -> PlayedFiles:
    """Reads the folder of a tournament, finished or not.

    Args:
        folder: what `arena bench tournament --out` wrote.
        num_episodes: number of episodes to show of each pairing.

    Raises:
        ValueError: the summary is none of `arena bench tournament`, or has other fields than those of
            this version.
    """
    episodes_by_source = EpisodesBySource(list)
    bad, num_read = [], 0
    with open(folder / MATCHES, "rb") as file:
        for number, line in enumerate(file, 1):
            if not line.startswith(LINE):
                continue  # the settings of the tournament
            source = _match_of(line)
            num_read += 1
            if source is not None and len(episodes_by_source[source]) >= num_episodes:
                continue
            episode_line = read_line(number, line)
            if isinstance(episode_line, BadLine):
                bad.append((MATCHES, episode_line))
                num_read -= 1
                continue
            source = source or _lineup(episode_line)
            episodes_by_source[source].append(episode_line._replace(source=source))
    episodes = _fit_page(episodes_by_source, num_episodes)
    path = folder / SUMMARY
    sources = {line.source for line in episodes}
    tables: list[TextTable] = []
    try:
        if path.is_file():
            tables = tournament_tables(json.loads(path.read_bytes()), sources)
    except (*FIELD_ERRORS, ValueError) as error:
        raise ValueError(
            f"{str(path)!r} does not hold the results of this version ({error!r}); remove "
            "the file, and the report shows the episodes"
        ) from error
    missing = []
    if not tables:
        missing.append(
            f"{SUMMARY}: the tournament is not finished; the same command resumes it"
        )
    return PlayedFiles(
        name=folder.absolute().name,
        tables=tables,
        warnings=[],
        episodes=episodes,
        left=num_read - len(episodes),
        bad=bad,
        missing=missing,
    )


def _match_of(line: bytes) -> str | None:
    """The match of a line of a tournament; None if the line does not tell it."""
    with suppress(ValueError, *FIELD_ERRORS):
        match = json.loads(line.partition(EPISODE)[0] + b"}")["match"]
        return match_name(match["game"], match["seats"])
    return None


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
            evaluation = json.loads(line)
            tables.append(evaluation_table(evaluation, sources))
            warnings += map(str, evaluation["warnings"])
        except (*FIELD_ERRORS, ValueError) as error:
            reason = f"want the results of an evaluation of this version ({error!r})"
            bad.append(BadLine(number, reason, shown_text(line)))
    return tables, warnings, bad


def played_page(played_files: PlayedFiles) -> str:
    """The page of an evaluation or a tournament.

    Raises:
        ModuleNotFoundError: Jinja is not installed.
    """
    data = packed(page_data(played_files.episodes))
    return filled_page(
        "played.html", title=played_files.name, played=played_files, data=data
    )
