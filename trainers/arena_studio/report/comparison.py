"""Several runs in one report: their charts, tables, settings and starts together."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

import yaml

from arena_studio.report.curves import PLAYER, Chart, Curve, charts_of
from arena_studio.report.episodes import Recorded
from arena_studio.report.run_files import RunFiles
from arena_studio.report.tables import (
    NONE,
    TableCell,
    TextTable,
    result_tables,
    source_link,
)
from arena_wrappers import without_lost


def named(runs: Sequence[RunFiles]) -> list[RunFiles]:
    """The runs of a comparison; sources of episodes begin with the name of their run.

    Raises:
        ValueError: a run has no game in common with the first one, as far as their games are
            known.
    """
    keys = [{key for record in run.metrics for key in record} for run in runs]
    games = [
        {match["game"] for key in own if (match := PLAYER.fullmatch(key))}
        for own in keys
    ]
    for run, own in zip(runs[1:], games[1:], strict=True):
        if own and games[0] and not own & games[0]:
            raise ValueError(
                f"want runs with a game in common, got {', '.join(sorted(games[0]))} "
                f"({runs[0].name}) and {', '.join(sorted(own))} ({run.name}); write a "
                "report of each"
            )
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
    found: dict[Any, list[list[str | TableCell]]] = {}
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
        given = [found.get(name, "not set") for found in settings]
        if name == "games":  # a list of one game means the same as the game
            given = [g[0] if isinstance(g, list) and len(g) == 1 else g for g in given]
        values = [str(value) for value in given]
        if len(set(values)) > 1:
            rows.append([str(name), *values])
    return TextTable(
        "Settings that differ", ["setting", *(run.name for run in runs)], rows
    )


def _settings(config: str) -> Mapping[str, Any]:
    try:
        found = yaml.safe_load(config)
    except yaml.YAMLError:
        return {}  # the page shows the text
    return found if isinstance(found, Mapping) else {}


def start_table(runs: Sequence[RunFiles]) -> TextTable:
    """The starts of which several runs have episodes, with the mean returns of each run."""
    found: dict[tuple[str, ...], dict[int, list[Recorded]]] = {}
    for number, run in enumerate(runs):
        for line in run.episodes:
            episode = line.rollout.episode
            params = str(dict(episode.params))
            start = line.moment, episode.game, str(episode.seed), params
            found.setdefault(start, {}).setdefault(number, []).append(line)
    rows = [
        [*start[:3], *(_start_cell(groups.get(n, [])) for n in range(len(runs)))]
        for start, groups in found.items()
        if len(groups) > 1
    ]
    heads = ["from", "game", "seed", *(run.name for run in runs)]
    return TextTable("The same starts: mean return by seat", heads, rows)


def _start_cell(group: Sequence[Recorded]) -> TableCell | str:
    """Mean returns of a group; a click opens its first episode, with those of all runs."""
    if not group:
        return NONE
    returns = [e.returns for e in without_lost(line.rollout.episode for line in group)]
    means = [sum(values) / len(values) for values in zip(*returns, strict=True)]
    text = ", ".join(f"{mean:+.3g}" for mean in means) or "lost"
    if len(returns) > 1:
        text += f" ({len(returns)} episodes)"
    first = group[0]
    return TableCell(text, f"#{urlencode({'from': first.source, 'line': first.line})}")


def link_of(runs: Sequence[RunFiles], line: Curve, step: int) -> str | None:
    """The button that opens the episodes of a curve's step; None without any."""
    source = runs[line.run or 0].sources.get(step)
    return None if source is None else source_link(source)
