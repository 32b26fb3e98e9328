"""Several runs in one report: their charts, tables, settings and starts together."""

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from typing import Any
from urllib.parse import urlencode

from arena_envs import yaml_text
from arena_studio.report.curves import PLAYER, Chart, Curve, charts_of
from arena_studio.report.episodes import Recorded
from arena_studio.report.run_files import RunFiles
from arena_studio.report.run_status import MAX_CONFIG
from arena_studio.report.text_tables import NONE, TableCell, TextTable, source_link
from arena_wrappers import without_lost


def name_sources(runs: Sequence[RunFiles]) -> list[RunFiles]:
    """The runs of a comparison; sources of episodes begin with the name of their run.

    Raises:
        ValueError: a run has no game in common with the first one, as far as their games are
            known.
    """
    games = [_games_of(run) for run in runs]
    for run, run_games in zip(runs[1:], games[1:], strict=True):
        if run_games and games[0] and not run_games & games[0]:
            raise ValueError(
                f"want runs with a game in common, got {', '.join(sorted(games[0]))} "
                f"({runs[0].name}) and {', '.join(sorted(run_games))} ({run.name}); write a "
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


def _games_of(run: RunFiles) -> set[str]:
    """The games of a run, as far as its metrics name them."""
    metrics = {metric for record in run.metrics for metric in record}
    return {match["game"] for m in metrics if (match := PLAYER.fullmatch(m))}


def compared_charts(runs: Sequence[RunFiles]) -> list[Chart]:
    """The charts of all runs, laid over each other by title.

    Parts of a whole are not stacked, because the runs would cover each other.
    """
    charts_by_title: dict[str, list[tuple[int, Chart]]] = {}
    for number, run in enumerate(runs):
        for chart in charts_of(run.metrics, run.results):
            charts_by_title.setdefault(chart.title, []).append((number, chart))
    return [_merge_charts(charts, runs) for charts in charts_by_title.values()]


def _merge_charts(
    charts: Sequence[tuple[int, Chart]], runs: Sequence[RunFiles]
) -> Chart:
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
    tables_by_title: dict[str, list[tuple[str, TextTable]]] = {}
    for run in runs:
        for table in run.tables:
            tables_by_title.setdefault(table.title, []).append((run.name, table))
    return [_merge_tables(title, tables) for title, tables in tables_by_title.items()]


def _merge_tables(title: str, tables: Sequence[tuple[str, TextTable]]) -> TextTable:
    """Rows in order of their keys, such as opponent and seat, then of the run."""
    heads = max((table.heads for _, table in tables), key=len)
    num_keys = tables[0][1].num_keys
    rows_by_key: dict[Hashable, list[list[str | TableCell]]] = {}
    for name, table in tables:
        for row in table.rows:
            padded_row = [*row, *[NONE] * (len(heads) - len(row))]
            row_with_run = [*padded_row[:num_keys], name, *padded_row[num_keys:]]
            rows_by_key.setdefault(tuple(row[:num_keys]), []).append(row_with_run)
    rows = [row for rows_of_key in rows_by_key.values() for row in rows_of_key]
    return TextTable(title, [*heads[:num_keys], "run", *heads[num_keys:]], rows)


def setting_table(runs: Sequence[RunFiles]) -> TextTable:
    """The settings in which the runs differ, a column for each run."""
    settings = [_settings(run.config) for run in runs]
    names = dict.fromkeys(name for values in settings for name in values or ())
    rows = []
    for name in names:
        cells = [_setting_cell(run_settings, name) for run_settings in settings]
        if len(set(cells)) > 1:
            rows.append([str(name), *cells])
    return TextTable(
        "Settings that differ", ["setting", *(run.name for run in runs)], rows
    )


def _setting_cell(settings: Mapping[str, Any] | None, name: str) -> str:
    if settings is None:
        return "unreadable"
    value = settings.get(name, "not set")
    if name == "games" and isinstance(value, list) and len(value) == 1:
        value = value[0]  # a list of one game means the same as the game
    return str(value)


def _settings(config: str) -> Mapping[str, Any] | None:
    """The settings of a run by name; None if its configuration cannot be read."""
    if len(config) > MAX_CONFIG:
        return None
    try:
        settings = yaml_text.read(config)
    except ValueError:
        return None  # the page shows the text
    if not isinstance(settings, Mapping):
        return {}
    values: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping) and value:  # such as lora: {r: 16}
            values |= {f"{name}: {key}": inner for key, inner in value.items()}
        else:
            values[str(name)] = value
    return values


def start_table(runs: Sequence[RunFiles]) -> TextTable:
    """The starts of which several runs have episodes, with the mean returns of each run."""
    groups_by_start: dict[tuple[str, ...], dict[int, list[Recorded]]] = {}
    for number, run in enumerate(runs):
        for line in run.episodes:
            episode = line.rollout.episode
            params = str(dict(episode.params))
            start = line.moment, episode.game, str(episode.seed), params
            groups_by_start.setdefault(start, {}).setdefault(number, []).append(line)
    rows = [
        [
            *start[:3],
            *(_start_cell(groups.get(number, [])) for number in range(len(runs))),
        ]
        for start, groups in groups_by_start.items()
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
