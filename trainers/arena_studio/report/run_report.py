"""The report of one or several runs."""

from collections.abc import Sequence
from functools import partial

from arena_studio.report.chart_styles import LegendEntry, legend_of
from arena_studio.report.charts import chart_svg
from arena_studio.report.comparison import (
    compared_charts,
    compared_tables,
    link_of,
    name_sources,
    setting_table,
    start_table,
)
from arena_studio.report.curves import Chart, charts_of, missing_from
from arena_studio.report.page import filled_page
from arena_studio.report.replay_data import packed, page_data
from arena_studio.report.run_files import RunFiles
from arena_studio.report.tables import fact_table
from arena_studio.report.text_tables import source_link

MIN_LETTERS = 3  # of the name of a figure
SCRIPTS = ("replay.js", "report.js")


def report_page(
    *runs: RunFiles,
    live_seconds: int = 0,
    status: Sequence[tuple[str, Sequence[str]]] = (),
    events: str = "",
) -> str:
    """The report of runs.

    Args:
        runs: the files of the runs, see `read_runs`; several are compared.
        live_seconds: seconds after which the page reloads itself; 0 for a page that does not.
        status: headings, each with its sentences, at the top of a live page.
        events: where a served page listens to `arena_studio.report.live`; empty elsewhere.

    Raises:
        ModuleNotFoundError: Jinja or matplotlib is not installed.
        ValueError: the runs have no game in common.
    """
    is_one = len(runs) == 1
    named_runs = list(runs) if is_one else name_sources(runs)
    starts = None if is_one else start_table(named_runs)
    tables = list(runs[0].tables) if is_one else compared_tables(named_runs)
    if not is_one and (settings := setting_table(named_runs)).rows:
        tables.append(settings)
    episodes = [line for run in named_runs for line in run.episodes]
    return filled_page(
        "report.html",
        scripts=SCRIPTS,
        title=", ".join(run.name for run in named_runs),
        live_seconds=live_seconds,
        status=status,
        events=events,
        connects=bool(events),
        num_runs=len(named_runs),
        num_episodes=len(episodes),
        left=sum(run.left for run in named_runs),
        missing=[
            _run_prefix(run, named_runs) + text
            for run in named_runs
            for text in run.missing
        ],
        absent=[
            f"{_run_prefix(run, named_runs)}No curve, as metrics.jsonl has no values: {', '.join(names)}."
            for run in named_runs
            if (names := missing_from(run.metrics))
        ],
        bad=[
            (_run_prefix(run, named_runs) + file, line)
            for run in named_runs
            for file, line in run.bad
        ],
        tables=tables,
        commands=[
            (run.name, run.results["command"])
            for run in named_runs
            if run.results.get("command")
        ],
        facts=fact_table({run.name: run.facts for run in named_runs}),
        configs=[(run.name, run.config) for run in named_runs if run.config],
        charts=_charts(named_runs),
        sources=[_sources(run, named_runs) for run in named_runs if run.episodes],
        starts=starts if starts and starts.rows else None,
        data=packed(page_data(episodes)),
    )


def _run_prefix(run: RunFiles, runs: Sequence[RunFiles]) -> str:
    """The start of a sentence on a run, where there are several."""
    return "" if len(runs) == 1 else f"{run.name}: "


def _charts(runs: Sequence[RunFiles]) -> list[tuple[str, str, list[LegendEntry]]]:
    """Title, SVG and legend of each chart."""
    last_step = last_step_of(runs)
    link = partial(link_of, runs)
    return [
        (chart.title, chart_svg(chart, number, last_step, link), legend_of(chart))
        for number, chart in enumerate(run_charts(runs))
    ]


def last_step_of(runs: Sequence[RunFiles]) -> int:
    """The last optimizer step in the logs of any run."""
    return max((record["step"] for run in runs for record in run.metrics), default=1)


def run_charts(runs: Sequence[RunFiles]) -> list[Chart]:
    """The charts of one run, or of several laid over each other."""
    if len(runs) == 1:
        return charts_of(runs[0].metrics, runs[0].results)
    return compared_charts(runs)


def chart_named(charts: Sequence[Chart], name: str) -> Chart:
    """The chart whose title contains a name such as `nashconv`, by letters and digits alone.

    Raises:
        ValueError: none has them, or several have.
    """
    letters = _letters(name)
    fitting = [
        chart
        for chart in charts
        if len(letters) >= MIN_LETTERS and letters in _letters(chart.title)
    ]
    exact = [chart for chart in fitting if _letters(chart.title) == letters]
    if len(exact or fitting) != 1:
        titles = [f"{chart.title!r}" for chart in (fitting or charts)]
        number = "several are" if fitting else "none is; there are"
        raise ValueError(
            f"want a figure named after a chart, got {name!r}, and {number} "
            f"{', '.join(titles) or 'no charts'}; write letters of one title, as in nashconv.pdf"
        )
    (chart,) = exact or fitting
    return chart


def _letters(text: str) -> str:
    return "".join(letter for letter in text.lower() if letter.isalnum())


def _sources(
    run: RunFiles, runs: Sequence[RunFiles]
) -> tuple[str, list[tuple[str, str]]]:
    """Heading, and text and link of each source of episodes of a run."""
    source_by_moment = dict.fromkeys(
        (line.moment or line.source, line.source) for line in run.episodes
    )
    heading = "Episodes" if len(runs) == 1 else f"Episodes of {run.name}"
    return heading, [(text, source_link(source)) for text, source in source_by_moment]
