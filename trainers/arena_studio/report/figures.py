"""Charts as figures: several in one picture, or one for a paper."""

import io
from collections.abc import Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any

from arena_envs.extras import import_extra
from arena_studio.report.chart_axes import SETTINGS, draw_curves, set_axes
from arena_studio.report.curves import Chart

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figure_of(
    charts: Sequence[Chart],
    title: str,
    moves: Sequence[int] = (),
    along: str = "optimizer step",
) -> "Figure":
    """A figure of charts, two in a row, with their legends.

    Args:
        charts: what to draw.
        title: of the figure.
        moves: optimizer steps after which the reference model was synchronised.
        along: name of the horizontal axis.
    """
    matplotlib = import_extra("matplotlib", "report")
    figures = import_extra("matplotlib.figure", "report")
    num_rows = max(-(-len(charts) // 2), 1)
    steps = [step for c in charts for line in c.lines for step, _ in line.points]
    with matplotlib.rc_context({**SETTINGS, "grid.color": "0.85"}):
        figure: Figure = figures.Figure(
            figsize=(11, 4 * num_rows), layout="constrained"
        )
        figure.suptitle(fill(title, 120))
        panels = figure.subplots(num_rows, 2, squeeze=False).ravel()
        for panel, chart in zip(panels, charts, strict=False):
            draw_curves(panel, chart)
            set_axes(panel, chart, max(steps), along)
            panel.set_title(fill(chart.title, 70), fontsize=10)
            for number, step in enumerate(moves):
                # the legend names the first line alone: "_" hides a label
                label = "_" if number else "reference moves to the policy"
                panel.axvline(step, color="grey", ls="-.", lw=0.8, label=label)
            for text in panel.legend(fontsize=8).get_texts():
                # wide texts leave no room for the axes
                text.set_text(fill(text.get_text(), 60))
        for panel in panels[len(charts) :]:
            panel.remove()
    return figure


PAPER: dict[str, Any] = {  # of a figure in a column of a paper
    **SETTINGS,
    "font.size": 8,
    "text.color": "black",
    "axes.edgecolor": "black",
    "axes.labelcolor": "black",
    "xtick.color": "black",
    "ytick.color": "black",
    "grid.color": "0.88",
    "pdf.fonttype": 42,  # letters stay letters, as journals want
    "savefig.dpi": 300,
}
PAPER_SIZE = 3.4, 2.2  # inches
FIGURE_TYPES = (".pdf", ".svg", ".png")


def write_figure(chart: Chart, path: Path, last: int) -> None:
    """Writes a chart as a figure of a paper.

    Args:
        chart: what to draw.
        path: its suffix is one of `FIGURE_TYPES`.
        last: last optimizer step, where the horizontal axis ends.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
    """
    matplotlib = import_extra("matplotlib", "report")
    figures = import_extra("matplotlib.figure", "report")
    kind = path.suffix.removeprefix(".")
    undated = {"pdf": {"CreationDate": None}, "svg": {"Date": None}}.get(kind)
    with matplotlib.rc_context(PAPER):
        figure = figures.Figure(figsize=PAPER_SIZE, layout="constrained")
        axes = figure.subplots()
        draw_curves(axes, chart)
        set_axes(axes, chart, last)
        axes.set_ylabel(fill(chart.title, 32))
        if len(chart.lines) + len(chart.levels) > 1:
            legend = figure.legend(
                loc="outside upper center", ncols=2, fontsize=7, frameon=False
            )
            for text in legend.get_texts():
                text.set_text(fill(text.get_text(), 30))
        file = io.BytesIO()
        figure.savefig(file, format=kind, metadata=undated)
    path.write_bytes(file.getvalue())
