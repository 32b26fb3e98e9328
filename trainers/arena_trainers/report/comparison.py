"""Several runs in one report: their curves, results, settings and starts side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple
from urllib.parse import urlencode

import yaml

from arena_trainers.report.charts import PLAYER, Chart, Line, charts_of
from arena_trainers.report.reading import Recorded
from arena_trainers.report.result_tables import (
    NONE,
    Cell,
    TextTable,
    result_tables,
    source_link,
)
from arena_trainers.report.run_files import RunFiles
from arena_wrappers import without_lost


class Start(NamedTuple):
    """What episodes of a group have in common.

    Attributes:
        moment: when they were played, such as `"step 40"`.
        game: id of the game.
        params: its parameters, as text.
        seed: seed of the environment.
    """

    moment: str
    game: str
    params: str
    seed: int


def named(runs: Sequence[RunFiles]) -> list[RunFiles]:
    """The runs of a comparison; sources of episodes begin with the name of their run.

    Raises:
        ValueError: a run has no game in common with the first one.
    """
    _check_games(runs)
    return [
        run._replace(
            episodes=[
                line._replace(source=f"{run.name}, {line.source}", moment=line.source)
                for line in run.episodes
            ],
            sources={s: f"{run.name}, {source}" for s, source in run.sources.items()},
        )
        for run in runs
    ]


def compared_charts(runs: Sequence[RunFiles]) -> list[Chart]:
    """The charts of all runs, laid over each other by title.

    Parts of a whole are not stacked, because the runs would cover each other.
    """
    found: dict[str, list[tuple[int, Chart]]] = {}
    for number, run in enumerate(runs):
        for chart in charts_of(run.metrics, run.results):
            found.setdefault(chart.title, []).append((number, chart))
    return [_merged(charts, runs) for charts in found.values()]


def _merged(charts: Sequence[tuple[int, Chart]], runs: Sequence[RunFiles]) -> Chart:
    series = {line.label for _, chart in charts for line in chart.lines}
    lines, levels = [], dict[str, float]()
    for number, chart in charts:
        name = runs[number].name
        for line in chart.lines:
            label = f"{name}: {line.label}" if len(series) > 1 else name
            lines.append(replace(line, label=label, run=number, series=line.label))
        for level, value in chart.levels.items():
            is_new = level in levels and levels[level] != value
            levels[f"{level}, {name}" if is_new else level] = value
    first = charts[0][1]
    return replace(first, lines=lines, levels=levels, is_stacked=False)


def compared_tables(runs: Sequence[RunFiles]) -> list[TextTable]:
    """The tables of results, in which the rows of all runs stand together."""
    found: dict[str, list[tuple[str, TextTable]]] = {}
    for run in runs:
        for table in result_tables(run.results):
            found.setdefault(table.title, []).append((run.name, table))
    return [_joined(title, tables) for title, tables in found.items()]


def _joined(title: str, tables: Sequence[tuple[str, TextTable]]) -> TextTable:
    """Rows in order of their keys, such as opponent and seat, then of the run."""
    heads = max((table.heads for _, table in tables), key=len)
    keys = tables[0][1].num_keys
    found: dict[Any, list[list[str | Cell]]] = {}
    for name, table in tables:
        for row in table.rows:
            filled = [*row, *[NONE] * (len(heads) - len(row))]
            joined = [*filled[:keys], name, *filled[keys:]]
            found.setdefault(tuple(row[:keys]), []).append(joined)
    rows = [row for same in found.values() for row in same]
    return TextTable(title, [*heads[:keys], "run", *heads[keys:]], rows)


def setting_table(runs: Sequence[RunFiles]) -> TextTable:
    """The settings in which the runs differ, a column for each run."""
    settings = [_settings(run.config) for run in runs]
    names = dict.fromkeys(name for found in settings for name in found)
    rows = []
    for name in names:
        values = [
            _shown(name, found[name]) if name in found else "not set"
            for found in settings
        ]
        if len(set(values)) > 1:
            rows.append([str(name), *values])
    return TextTable(
        "Settings that differ", ["setting", *(run.name for run in runs)], rows
    )


def _shown(name: Any, value: Any) -> str:
    """A setting as text; a list of one game is written as the game, which means the same."""
    is_one = name == "games" and isinstance(value, list) and len(value) == 1
    return str(value[0] if is_one else value)


def _settings(config: str) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(config)
    except yaml.YAMLError:
        return {}  # the page shows the text
    return found if isinstance(found, Mapping) else {}


def start_table(runs: Sequence[RunFiles]) -> TextTable:
    """The starts of which several runs have episodes, with the mean returns of each run."""
    found: dict[Start, dict[int, list[Recorded]]] = {}
    for number, run in enumerate(runs):
        for line in run.episodes:
            episode = line.rollout.episode
            params = str(dict(episode.params))
            start = Start(line.moment, episode.game, params, episode.seed)
            found.setdefault(start, {}).setdefault(number, []).append(line)
    rows = [
        [
            start.moment,
            start.game,
            str(start.seed),
            *(_start_cell(groups.get(number, [])) for number in range(len(runs))),
        ]
        for start, groups in found.items()
        if len(groups) > 1
    ]
    heads = ["from", "game", "seed", *(run.name for run in runs)]
    return TextTable("The same starts: mean return by seat", heads, rows)


def _start_cell(group: Sequence[Recorded]) -> Cell | str:
    """Mean returns of a group; a click opens its first episode, with those of all runs."""
    if not group:
        return NONE
    returns = [e.returns for e in without_lost(line.rollout.episode for line in group)]
    means = [sum(values) / len(values) for values in zip(*returns, strict=True)]
    text = ", ".join(f"{mean:+.3g}" for mean in means) or "lost"
    if len(returns) > 1:
        text += f" ({len(returns)} episodes)"
    first = group[0]
    return Cell(text, f"#{urlencode({'from': first.source, 'line': first.line})}")


def _check_games(runs: Sequence[RunFiles]) -> None:
    """Checks that each run shares a game with the first, as far as their games are known."""
    games = [_games(run) for run in runs]
    for run, own in zip(runs[1:], games[1:], strict=True):
        if own and games[0] and not own & games[0]:
            raise ValueError(
                f"want runs with a game in common, got {', '.join(sorted(games[0]))} "
                f"({runs[0].name}) and {', '.join(sorted(own))} ({run.name}); write a "
                "report of each"
            )


def _games(run: RunFiles) -> set[str]:
    """The games of which a run has metrics."""
    keys = (key for record in run.metrics for key in record)
    return {match["game"] for key in keys if (match := PLAYER.fullmatch(key))}


def link_of(runs: Sequence[RunFiles], line: Line, step: int) -> str | None:
    """What opens the episodes of a curve's step; None without any."""
    source = runs[line.run or 0].sources.get(step)
    return None if source is None else source_link(source)
