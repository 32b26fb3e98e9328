"""Writes the report of one or several runs: results, curves and replays in one page."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from arena_trainers.report.chart_looks import Key, legend_of
from arena_trainers.report.chart_svg import chart_svg
from arena_trainers.report.charts import Chart, charts_of, missing_from
from arena_trainers.report.comparison import (
    compared_charts,
    compared_tables,
    link_of,
    named,
    setting_table,
    start_table,
)
from arena_trainers.report.page import rendered
from arena_trainers.report.page_data import packed, page_data
from arena_trainers.report.result_tables import (
    TextTable,
    fact_table,
    result_tables,
    source_link,
)
from arena_trainers.report.run_files import RunFiles
from arena_wrappers.files import whole_file

SCRIPTS = ("replay.js", "report.js")


def write_report(path: Path, *runs: RunFiles, live_seconds: int = 0) -> None:
    """Writes the report of runs; the file appears whole or not at all.

    Args:
        path: the HTML file.
        runs: the files of the runs, see `read_runs`; several are compared.
        live_seconds: seconds after which the page reloads itself; 0 for a page that does not.

    Raises:
        ModuleNotFoundError: Jinja or matplotlib is not installed.
        ValueError: the runs have no game in common.
    """
    text = report_page(*runs, live_seconds=live_seconds)
    with whole_file(path) as file:
        file.write(text)


def report_page(*runs: RunFiles, live_seconds: int = 0) -> str:
    """The page that `write_report` writes."""
    is_one = len(runs) == 1
    shown = list(runs) if is_one else named(runs)
    starts = None if is_one else start_table(shown)
    episodes = [line for run in shown for line in run.episodes]
    return rendered(
        "report.html",
        scripts=SCRIPTS,
        title=", ".join(run.name for run in shown),
        live_seconds=live_seconds,
        num_runs=len(shown),
        num_episodes=len(episodes),
        left=sum(run.left for run in shown),
        missing=[_of(run, shown) + text for run in shown for text in run.missing],
        absent=[text for run in shown for text in _absent(run, shown)],
        bad=[(_of(run, shown) + file, at) for run in shown for file, at in run.bad],
        tables=_tables(shown),
        commands=[
            (run.name, run.results["command"])
            for run in shown
            if run.results.get("command")
        ],
        facts=fact_table({run.name: run.results for run in shown}),
        configs=[(run.name, run.config) for run in shown if run.config],
        charts=_charts(shown),
        sources=[_sources(run, shown) for run in shown if run.episodes],
        starts=starts if starts and starts.rows else None,
        data=packed(page_data(episodes)),
    )


def _of(run: RunFiles, runs: Sequence[RunFiles]) -> str:
    """What begins a sentence on a run, where there are several."""
    return "" if len(runs) == 1 else f"{run.name}: "


def _absent(run: RunFiles, runs: Sequence[RunFiles]) -> list[str]:
    names = ", ".join(missing_from(run.metrics))
    text = f"{_of(run, runs)}No curve, as metrics.jsonl has no values: {names}."
    return [text] if names else []


def _tables(runs: Sequence[RunFiles]) -> list[TextTable]:
    if len(runs) == 1:
        return result_tables(runs[0].results)
    settings = setting_table(runs)
    return [*compared_tables(runs), *([settings] if settings.rows else [])]


def _charts(runs: Sequence[RunFiles]) -> list[tuple[str, str, list[Key]]]:
    """Title, SVG and legend of each chart."""
    steps = [record["step"] for run in runs for record in run.metrics]
    last, link = max(steps, default=1), partial(link_of, runs)
    charts: list[Chart]
    if len(runs) == 1:
        charts = charts_of(runs[0].metrics, runs[0].results)
    else:
        charts = compared_charts(runs)
    return [
        (chart.title, chart_svg(chart, number, last, link), legend_of(chart))
        for number, chart in enumerate(charts)
    ]


def _sources(
    run: RunFiles, runs: Sequence[RunFiles]
) -> tuple[str, list[tuple[str, str]]]:
    """Heading, and text and link of each source of episodes of a run."""
    found = dict.fromkeys(
        (line.moment or line.source, line.source) for line in run.episodes
    )
    heading = "Episodes" if len(runs) == 1 else f"Episodes of {run.name}"
    return heading, [(text, source_link(source)) for text, source in found]
