"""Writes the report of a run: results, curves and replays in one page."""

from collections.abc import Mapping
from pathlib import Path
from urllib.parse import urlencode

from arena_trainers.report.chart_svg import chart_svg
from arena_trainers.report.charts import charts_of, missing_from
from arena_trainers.report.page import rendered
from arena_trainers.report.page_data import packed, page_data
from arena_trainers.report.result_tables import facts, result_tables
from arena_trainers.report.run_files import RunFiles
from arena_wrappers.files import whole_file


def write_report(path: Path, run: RunFiles) -> None:
    """Writes the report of a run; the file appears whole or not at all.

    Args:
        path: the HTML file.
        run: the files of the run, see `read_run_files`.

    Raises:
        ModuleNotFoundError: Jinja or matplotlib is not installed.
    """
    text = report_page(run)
    with whole_file(path) as file:
        file.write(text)


def report_page(run: RunFiles) -> str:
    """The page that `write_report` writes."""
    links = {step: _link(source) for step, source in run.sources.items()}
    return rendered(
        "report.html",
        title=run.name,
        num_episodes=len(run.episodes),
        left=run.left,
        missing=run.missing,
        absent=missing_from(run.metrics),
        bad=run.bad,
        tables=result_tables(run.results),
        command=run.results.get("command"),
        facts=facts(run.results),
        config=run.config,
        charts=_charts(run, links),
        sources=[
            (source, _link(source))
            for source in dict.fromkeys(line.source for line in run.episodes)
        ],
        data=packed(page_data(run.episodes)),
    )


def _link(source: str) -> str:
    """What opens the episodes of a source."""
    return f"#{urlencode({'from': source})}"


def _charts(run: RunFiles, links: Mapping[int, str]) -> list[tuple[str, str]]:
    """Title and SVG of each chart."""
    last = max((record["step"] for record in run.metrics), default=1)
    return [
        (chart.title, chart_svg(chart, number, last, links.get))
        for number, chart in enumerate(charts_of(run.metrics, run.results))
    ]
